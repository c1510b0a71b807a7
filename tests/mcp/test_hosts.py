"""What docs/hosts.md says of hosts and SDKs has a source, and the tests it names exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_requirements import exists

PAGE = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text(encoding="utf-8")


def test_every_host_has_a_thread_that_tells_of_it() -> None:
    seen = PAGE.partition("## What the model sees")[2].partition("##")[0]
    rows = [line for line in seen.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 10
    assert [row for row in rows if not re.search(r"[\w.-]+/[\w.-]+#\d+", row)] == []


def test_every_test_it_names_exists() -> None:
    cited = re.findall(r"`tests/(\S+::\w+)`", PAGE)
    assert len(cited) >= 3
    assert [test for test in cited if not exists(test)] == []
