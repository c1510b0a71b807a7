"""docs/reliability.md has a row for each drill, and no other."""

from __future__ import annotations

import re

from benchmarks import drills
from tests.drills import test_crowds, test_databases, test_workers


def test_each_drill_has_a_row() -> None:
    page = drills.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| nothing \|", page, re.MULTILINE)
    names = [
        str(drill.__doc__).partition("\n")[0].rstrip(".")
        for module in (test_workers, test_databases, test_crowds)
        for name, drill in vars(module).items()
        if name.startswith("test_") and drill.__module__ == module.__name__
    ]
    assert sorted(rows) == sorted(names)
