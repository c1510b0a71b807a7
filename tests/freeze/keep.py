"""Keeps a document of every shape in the current format: `python -m tests.freeze.keep` adds, never changes."""

from __future__ import annotations

import re
from pathlib import Path

from dualsql.errors import DualResponseError
from dualsql.freeze import freeze
from dualsql.freeze.document import VERSION
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY, SHAPES

FOLDER = Path(__file__).parent / "documents"


def keep() -> None:
    """Write `<shape>.bin` and, beside it, the SQL it must give: its first line names the dialect."""
    folder = FOLDER / f"v{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, statement in SHAPES.items():
        path = folder / (re.sub(r"\W+", "_", name) + ".bin")
        if path.exists():
            continue
        for dialect_name, dialect in DIALECTS.items():
            try:
                path.write_bytes(freeze(statement, REGISTRY, dialect=dialect))
            except DualResponseError:
                continue
            path.with_suffix(".sql").write_text(f"-- {dialect_name}\n{statement.compile(dialect=dialect)}\n")
            break


if __name__ == "__main__":
    keep()
