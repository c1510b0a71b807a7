"""Values, totals and times as a page writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from dualsql.formats.json import dumps
from dualsql_client.wire import Column, Row, TotalCountKind

LONGEST_CELL = 500
"""Characters of one cell in a page without JavaScript."""

_NUMBERS = frozenset({"integer", "integer-string", "float", "decimal", "interval"})

CellKind = Literal["null", "empty", "number", "text", "json"]


class Cell(NamedTuple):
    """A cell as it is shown; `left_out` counts the characters that are not."""

    kind: CellKind
    text: str
    left_out: int = 0


def cells(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[Cell]]:
    """The cells of each row, as the JSON of a page has their values."""
    # Floats keep the digits that the JSON has.
    plain: list[Row] = json.loads(dumps(list(rows)), parse_float=str)
    return [[_cell(column, row[column["name"]]) for column in columns] for row in plain]


def _cell(column: Column, value: Any) -> Cell:
    if value is None:
        return Cell("null", "NULL")
    if value == "":
        return Cell("empty", "")
    if isinstance(value, bool):
        return Cell("text", "true" if value else "false")
    kind: CellKind = "number" if is_number(column) else "json" if column["encoding"] == "json" else "text"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Cell(kind, text[:LONGEST_CELL], max(0, len(text) - LONGEST_CELL))


def is_number(column: Column) -> bool:
    """Whether the cells of a column stand at the right."""
    return column["encoding"] in _NUMBERS


def total_in_words(total: int | None, kind: TotalCountKind) -> str:
    """The total, with what it is worth."""
    if total is None:
        return "rows not counted"
    rows = f"{total:,} {'row' if total == 1 else 'rows'}"
    return {"estimated": f"about {rows} (estimated)", "capped": f"at least {rows}"}.get(kind, rows)


def time_left(expires_at: datetime | None) -> str:
    """When a resource expires, from now on."""
    if expires_at is None:
        return "pinned: kept until it is deleted"
    minutes = max(0, int((expires_at - datetime.now(UTC)).total_seconds() // 60))
    if minutes < 1:
        return "expires in less than a minute"
    if minutes < 120:
        return f"expires in {minutes} min"
    return f"expires in {minutes // 60} hours"
