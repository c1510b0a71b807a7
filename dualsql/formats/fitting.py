"""Rows within a number of characters of JSON; the rule: rows go before cells are cut, and every cut is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dualsql.formats.json import dumps
from dualsql_client.wire import Row

_CELL_WIDTHS = (1_000, 200, 80)
_KEPT_ROWS = 3


class Fitted(NamedTuple):
    """Rows that fit. `width` is what longer cells were cut to, or None where none was."""

    rows: list[Row]
    width: int | None


def fit(rows: Sequence[Row], budget: int) -> Fitted:
    """As many of `rows` as have their place in `budget` characters, if need be with shorter cells."""
    # Bytes are never fewer than characters, and one call tells of all rows.
    if len(dumps(rows)) <= budget:
        return Fitted(list(rows), None)
    fitted = Fitted(_within(rows, budget), None)
    for width in _CELL_WIDTHS:
        if len(fitted.rows) >= min(_KEPT_ROWS, len(rows)):
            break
        fitted = Fitted(_within([_shortened(row, width) for row in rows], budget), width)
    return fitted


def _within(rows: Sequence[Row], budget: int) -> list[Row]:
    room, kept = budget - 2, 0
    for row in rows:
        room -= len(dumps(row).decode()) + 1
        if room < 0:
            break
        kept += 1
    return list(rows[:kept])


def _shortened(row: Row, width: int) -> Row:
    return {name: _short(value, width) for name, value in row.items()}


def _short(value: Any, width: int) -> Any:
    """What is longer than `width` as the beginning of its text, also where it was a list or an object."""
    if isinstance(value, dict | list):
        text = dumps(value).decode()
        return value if len(text) <= width else text[: width - 1] + "…"
    if isinstance(value, str) and len(value) > width:
        return value[: width - 1] + "…"
    return value
