"""A part of a sample within a number of characters, as rows in JSON or as a table. Every cut is stated."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from dualsql.formats.json import dumps
from dualsql.formats.samples import LAYOUTS, LEAST_WIDTH, leading
from dualsql.formats.text import NARROWEST, beginning, widest
from dualsql_client.wire import Row

_KEPT_ROWS = 3


class Fitted(NamedTuple):
    """Rows that fit. `width` is the length to which longer cells were cut; None if no cell was cut."""

    rows: list[Row]
    width: int | None


def fit(rows: Sequence[Row], budget: int) -> Fitted:
    """As many of `rows` as fit in `budget` characters, with cells as long as fit if fewer than three rows would fit."""
    # There are at least as many bytes as characters, and one call measures all rows.
    if len(dumps(beginning(rows, budget))) <= budget:
        return Fitted(list(rows), None)
    whole = _rows_within(rows, budget)
    if len(whole) >= min(_KEPT_ROWS, len(rows)):
        return Fitted(whole, None)
    # A cell may hold megabytes: it is written once.
    ends = [_shortened(row, max(budget, LEAST_WIDTH) + 1) for row in rows]

    def fits(part: Sequence[Row], width: int) -> bool:
        return len(_rows_within((_shortened(row, width) for row in part), budget)) == len(part)

    width = _widest(fits, [(ends, LEAST_WIDTH), (ends[:_KEPT_ROWS], LEAST_WIDTH)], budget)
    shortened = _rows_within((_shortened(row, width) for row in ends), budget)
    return Fitted(shortened, None if shortened == list(rows[: len(shortened)]) else width)


def _widest(
    fits: Callable[[Sequence[Row], int], bool], parts: Sequence[tuple[Sequence[Row], int]], budget: int
) -> int:
    """The width of cells with which the first of `parts` that can fit does; each has its least width."""
    for part, least in parts:
        width = widest(partial(fits, part), least, max(budget, least))
        if width is not None:
            return width
    return least


def _rows_within(rows: Iterable[Row], budget: int) -> list[Row]:
    # Two for [ and ].
    return leading(rows, budget - 2, lambda row: len(dumps(beginning(row, budget)).decode()))


def _shortened(row: Row, width: int) -> Row:
    return {name: _short(value, width) for name, value in row.items()}


def _short(value: Any, width: int) -> Any:
    """The value, or the beginning of its text if that is longer than `width`, also for a list or an object."""
    if not isinstance(value, str | dict | list):
        return value
    text = value if isinstance(value, str) else dumps(beginning(value, width)).decode()
    return value if len(text) <= width else text[: width - 1] + "…"


_KEPT_TABLE_ROWS = 10


class Table(NamedTuple):
    """A rendered sample, and its size.

    `width` is the length to which longer cells were cut; None if no cell was cut.
    """

    text: str
    rows: int
    columns: int
    width: int | None


def table(
    names: Sequence[str],
    rows: Sequence[Row],
    *,
    budget: int,
    text_format: Literal["markdown", "csv"] = "markdown",
) -> Table:
    """The largest rendering within `budget` characters: rows are left out, then ends of cells, then columns."""
    layout, room = LAYOUTS[text_format], budget + 1  # the last line has no line break
    heads = 1 + layout.has_rule
    least = heads + min(_KEPT_TABLE_ROWS, len(rows))

    def fits(part: Sequence[Row], width: int, columns: int = len(names)) -> bool:
        lines = layout.lines(names[:columns], part, width)
        return len(leading(lines, room)) == heads + len(part)

    # A cell that is longer than the budget does not fit.
    lines = leading(layout.lines(names, rows, budget), room)
    if len(lines) >= least:
        return Table("\n".join(lines), len(lines) - heads, len(names), None)
    rows = [_shortened(row, max(budget, NARROWEST) * 4 + 1) for row in rows]
    width = _widest(fits, [(rows, LEAST_WIDTH), (rows[:_KEPT_TABLE_ROWS], NARROWEST)], budget)
    lines = leading(layout.lines(names, rows, width), room)
    if len(lines) < least:
        rows = rows[:_KEPT_TABLE_ROWS]
        names = names[: 1 + bisect(range(2, len(names)), 0, key=lambda number: not fits(rows, width, number))]
        whole = list(layout.lines(names, rows, width))
        lines = whole[: max(heads, len(leading(whole, room)))]
    is_cut = any(line != whole for line, whole in zip(lines, layout.lines(names, rows, budget), strict=False))
    return Table("\n".join(lines), len(lines) - heads, len(names), width if is_cut else None)
