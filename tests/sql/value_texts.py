"""Reads the texts of `values/`, which compare what a text means on each database with what dualsql answers.

A line is one text. `== sqlite, duckdb` or `== all` names the databases of the lines that follow. A line that is no
query is short for one: an expression of each row, `@` one of each group, `?` a condition. `  ! sqlite: words` under a
text says that it is refused there, with these words in the message; `  ! kept sqlite: words`, that it is over kept
rows alone; `  - sqlite`, that it is not for that database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "values"
ENGINES = ("sqlite", "postgresql", "mariadb", "duckdb")

_QUERY = re.compile(r"(SELECT|WITH|VALUES)\b")
_REFUSAL = re.compile(r"  ! ((?:kept )?[a-z]+): (.+)")
_LEFT_OUT = "  - "
_SHORT = {
    "@": "SELECT grp, {} AS v FROM item GROUP BY grp ORDER BY grp",
    "?": "SELECT id FROM item WHERE {} ORDER BY id",
}
_OF_ROWS = "SELECT id, {} AS v FROM item ORDER BY id"


class ValueText(NamedTuple):
    """One text.

    Attributes:
        refusals: by database, or "kept " and the database: words of the message of the refusal.
    """

    sql: str
    engines: tuple[str, ...]
    refusals: dict[str, str]


def value_texts() -> Iterator[ValueText]:
    """All of them."""
    for file in sorted(FOLDER.glob("*.txt")):
        engines: tuple[str, ...] = ()
        text: ValueText | None = None
        for line in file.read_text(encoding="utf-8").splitlines():
            refusal = _REFUSAL.fullmatch(line)
            if refusal is not None:
                assert text is not None, line
                text.refusals[refusal[1]] = refusal[2]
                continue
            if line.startswith(_LEFT_OUT):
                assert text is not None, line
                without = line.removeprefix(_LEFT_OUT).split(", ")
                assert set(without) <= set(text.engines), line
                text = text._replace(engines=tuple(name for name in text.engines if name not in without))
                continue
            if text is not None:
                yield text
                text = None
            if line.startswith("== "):
                names = tuple(line.removeprefix("== ").split(", "))
                engines = ENGINES if names == ("all",) else names
                assert set(engines) <= set(ENGINES), line
            elif line and not line.startswith("#"):
                text = ValueText(_query(line), engines, {})
        if text is not None:
            yield text


def _query(line: str) -> str:
    if _QUERY.match(line):
        return line
    template = _SHORT.get(line[:1])
    return _OF_ROWS.format(line) if template is None else template.format(line[2:])


def texts_of(engine: str) -> list[ValueText]:
    """Those of one database."""
    return [text for text in value_texts() if engine in text.engines]
