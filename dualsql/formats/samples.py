"""A sample as text or JSON for a model, within a number of characters. Every cut is stated."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, cast

from dualsql.formats.json import dumps
from dualsql.formats.text import NARROWEST, beginning, cell, csv_cell, widest
from dualsql_client.identifiers import ID_LENGTH, ids_in
from dualsql_client.wire import IMPLIED_ENCODINGS, Column, Row, ShownColumn

_LEAST_WIDTH = 80
"""All rows are shown if they fit with cells of so many characters."""
_KEPT_ROWS = 3

_Plain = TypeVar("_Plain")


def unlinked(text: str) -> str:
    """`text` with only the beginning of each result's id in it, so that no client takes it for a link."""
    if len(text) < ID_LENGTH:
        return text
    result, end = "", 0
    for start, identifier in ids_in(text):
        result += f"{text[end:start]}{identifier[:8]}…"
        end = start + len(identifier)
    return result + text[end:]


def without_links(value: _Plain) -> _Plain:
    """Plain JSON whose texts and names are `unlinked`."""
    plain: Any = value
    if isinstance(plain, str):
        plain = unlinked(plain)
    elif isinstance(plain, list):
        plain = [without_links(item) for item in plain]
    elif isinstance(plain, dict):
        plain = {unlinked(name): without_links(item) for name, item in plain.items()}
    return cast("_Plain", plain)


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
    ends = [_shortened(row, max(budget, _LEAST_WIDTH) + 1) for row in rows]

    def fits(part: Sequence[Row], width: int) -> bool:
        return len(_rows_within((_shortened(row, width) for row in part), budget)) == len(part)

    width = _widest(fits, [(ends, _LEAST_WIDTH), (ends[:_KEPT_ROWS], _LEAST_WIDTH)], budget)
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


def room_for_rows(columns: Sequence[Column], budget: int) -> int:
    """Characters that rows may take in a structured content of `budget` characters, about."""
    # Besides its rows and columns, a content has 450 to 1,100 characters.
    return max(0, budget - 1_000 - len(dumps([column_for_model(column) for column in columns])))


def column_for_model(column: Column) -> ShownColumn:
    """The column as a model reads it."""
    if column["encoding"] != IMPLIED_ENCODINGS[column["type"]]:
        return ShownColumn(**column)
    return ShownColumn(name=column["name"], type=column["type"])


def most_rows(names: Sequence[str], *, text_budget: int, results_budget: int) -> int:
    """The largest number of rows for which `shows_all` can be true: those with the shortest possible cells."""
    # A | before each cell and after the last one, and a line break.
    in_text = len(names) + 2
    # Braces; and for each cell its name, a colon, one character and a comma.
    in_results = 2 + sum(len(dumps(name)) + 3 for name in names)
    return min(text_budget // in_text, results_budget // in_results)


def shows_all(names: Sequence[str], rows: Sequence[Row], *, text_budget: int, results_budget: int) -> bool:
    """Whether all of `rows` fit in a Markdown table of `text_budget` and in JSON of `results_budget` characters."""
    if len(dumps(beginning(rows, results_budget))) > results_budget:
        return False
    lines = LAYOUTS["markdown"].lines(names, rows, _LEAST_WIDTH)
    return len(_within(lines, text_budget + 1)) == len(rows) + 2


def _within(items: Iterable[_Plain], room: int, size: Callable[[Any], int] = len) -> list[_Plain]:
    """The items, from the first, that take at most `room` with one more for each. No item after them is read."""
    first = []
    for item in items:
        room -= size(item) + 1
        if room < 0:
            break
        first.append(item)
    return first


def _rows_within(rows: Iterable[Row], budget: int) -> list[Row]:
    # Two for [ and ].
    return _within(rows, budget - 2, lambda row: len(dumps(beginning(row, budget)).decode()))


def _shortened(row: Row, width: int) -> Row:
    return {name: _short(value, width) for name, value in row.items()}


def _short(value: Any, width: int) -> Any:
    """The value, or the beginning of its text if that is longer than `width`, also for a list or an object."""
    if not isinstance(value, str | dict | list):
        return value
    text = value if isinstance(value, str) else dumps(beginning(value, width)).decode()
    return value if len(text) <= width else text[: width - 1] + "…"


_SAMPLE_KEPT_ROWS = 10


class Table(NamedTuple):
    """A rendered sample, and its size.

    `width` is the length to which longer cells were cut; None if no cell was cut.
    """

    text: str
    rows: int
    columns: int
    width: int | None


class Layout(NamedTuple):
    """How lines are written: what is around each, what is between its cells, and a line below the names."""

    edge: str
    between: str
    cell: Callable[[Any, int], str]
    has_rule: bool

    def lines(self, names: Sequence[str], rows: Sequence[Row], width: int) -> Iterator[str]:
        """The lines of these columns, with cells of at most `width` characters."""
        yield self._line(self.cell(name, width) for name in names)
        if self.has_rule:
            yield self._line("-" for _ in names)
        for row in rows:
            yield self._line(self.cell(row[name], width) for name in names)

    def _line(self, cells: Iterable[str]) -> str:
        return f"{self.edge}{self.between.join(map(unlinked, cells))}{self.edge}"


LAYOUTS = {
    "markdown": Layout("|", "|", cell, has_rule=True),
    "csv": Layout("", ",", csv_cell, has_rule=False),
}


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
    least = heads + min(_SAMPLE_KEPT_ROWS, len(rows))

    def fits(part: Sequence[Row], width: int, columns: int = len(names)) -> bool:
        lines = layout.lines(names[:columns], part, width)
        return len(_within(lines, room)) == heads + len(part)

    # A cell that is longer than the budget does not fit.
    lines = _within(layout.lines(names, rows, budget), room)
    if len(lines) >= least:
        return Table("\n".join(lines), len(lines) - heads, len(names), None)
    rows = [_shortened(row, max(budget, NARROWEST) * 4 + 1) for row in rows]
    width = _widest(fits, [(rows, _LEAST_WIDTH), (rows[:_SAMPLE_KEPT_ROWS], NARROWEST)], budget)
    lines = _within(layout.lines(names, rows, width), room)
    if len(lines) < least:
        rows = rows[:_SAMPLE_KEPT_ROWS]
        names = names[: 1 + bisect(range(2, len(names)), 0, key=lambda number: not fits(rows, width, number))]
        whole = list(layout.lines(names, rows, width))
        lines = whole[: max(heads, len(_within(whole, room)))]
    is_cut = any(line != whole for line, whole in zip(lines, layout.lines(names, rows, budget), strict=False))
    return Table("\n".join(lines), len(lines) - heads, len(names), width if is_cut else None)
