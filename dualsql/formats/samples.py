"""A sample as text or JSON for a model, within a number of characters. Every cut is stated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, cast

from dualsql.formats.json import dumps
from dualsql.formats.text import NARROWEST, beginning, cell, csv_cell, widest
from dualsql_client.identifiers import ID_LENGTH, ids_in
from dualsql_client.wire import Row

_LEAST_WIDTH = 80
"""All rows are shown if they fit with cells of so many characters."""
_KEPT_ROWS = 3

_Plain = TypeVar("_Plain")


def unlinked(text: str) -> str:
    """`text` with only the beginning of each result's id in it, so that no client takes it for a link."""
    if len(text) < ID_LENGTH:
        return text
    shown, end = "", 0
    for start, identifier in ids_in(text):
        shown += f"{text[end:start]}{identifier[:8]}…"
        end = start + len(identifier)
    return shown + text[end:]


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
    whole = _within(rows, budget)
    if len(whole) >= min(_KEPT_ROWS, len(rows)):
        return Fitted(whole, None)
    # A cell may hold megabytes: it is written once.
    written = [_shortened(row, max(budget, _LEAST_WIDTH) + 1) for row in rows]

    def fits(part: Sequence[Row], width: int) -> bool:
        return len(_within([_shortened(row, width) for row in part], budget)) == len(part)

    for part in (written, written[:_KEPT_ROWS]):
        width = widest(partial(fits, part), _LEAST_WIDTH, max(budget, _LEAST_WIDTH))
        if width is not None:
            break
    width = width or _LEAST_WIDTH
    shortened = _within([_shortened(row, width) for row in written], budget)
    return Fitted(shortened, None if shortened == list(rows[: len(shortened)]) else width)


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
    layout, width = LAYOUTS["markdown"], _LEAST_WIDTH
    room = text_budget + 1 - sum(map(layout.size, layout.head(names, width)))
    for row in rows:
        room -= layout.size(layout.line(names, row, width))
        if room < 0:
            return False
    return room >= 0


def _within(rows: Sequence[Row], budget: int) -> list[Row]:
    # For [ and ]; below, a comma for each row.
    room, kept = budget - 2, 0
    for row in rows:
        room -= len(dumps(beginning(row, room)).decode()) + 1
        if room < 0:
            break
        kept += 1
    return list(rows[:kept])


def _shortened(row: Row, width: int) -> Row:
    return {name: _short(value, width) for name, value in row.items()}


def _short(value: Any, width: int) -> Any:
    """The value, or the beginning of its text if that is longer than `width`, also for a list or an object."""
    if not isinstance(value, str | dict | list):
        return value
    text = value if isinstance(value, str) else dumps(beginning(value, width)).decode()
    return value if len(text) <= width else text[: width - 1] + "…"


TextFormat = Literal["markdown", "csv", "json", "none"]
"""The format of the text of a result. "json" is the structured content, "none" has no sample."""

_SAMPLE_KEPT_ROWS = 10

Line = list[str]


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

    def written(self, lines: list[Line]) -> str:
        """The text of `lines`."""
        return "\n".join(f"{self.edge}{self.between.join(line)}{self.edge}" for line in lines)

    def head(self, names: Sequence[str], width: int) -> list[Line]:
        """The lines above the rows."""
        cells = [unlinked(self.cell(name, width)) for name in names]
        return [cells, ["-"] * len(names)] if self.has_rule else [cells]

    def line(self, names: Sequence[str], row: Row, width: int) -> Line:
        """The cells of one row."""
        return [unlinked(self.cell(row[name], width)) for name in names]

    def size(self, line: Line) -> int:
        """Characters of one line, its line break included."""
        return sum(map(len, line)) + len(self.between) * (len(line) - 1) + 2 * len(self.edge) + 1


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
    """The largest rendering within `budget` characters."""
    layout = LAYOUTS[text_format]
    # A cell that is longer than the budget does not fit.
    whole, heads = _lines(names, rows, layout, budget), len(layout.head(names, budget))
    least, width = heads + _SAMPLE_KEPT_ROWS, budget
    lines = list(whole)
    if _without_rows(lines, layout, budget, kept=least) < 0:
        rows = [_shortened(row, max(budget, NARROWEST) * 4 + 1) for row in rows]
        width = _width(names, rows, layout, budget)
        lines = _lines(names, rows, layout, width)
        room = _without_rows(lines, layout, budget, kept=least)
        if room < 0:
            _without_columns(lines, layout, room)
            _without_rows(lines, layout, budget, kept=heads)
    columns = len(lines[0]) if lines else len(names)
    is_cut = any(line != other[:columns] for line, other in zip(lines, whole, strict=False))
    return Table(layout.written(lines), len(lines) - heads, columns, width if is_cut else None)


def _lines(names: Sequence[str], rows: Sequence[Row], layout: Layout, width: int) -> list[Line]:
    return layout.head(names, width) + [layout.line(names, row, width) for row in rows]


def _width(names: Sequence[str], rows: Sequence[Row], layout: Layout, budget: int) -> int:
    """The length of the longest cells with which all rows fit, or else `_SAMPLE_KEPT_ROWS`; at least `NARROWEST`."""

    def fits(part: Sequence[Row], width: int) -> bool:
        return sum(map(layout.size, _lines(names, part, layout, width))) <= budget + 1

    found = widest(partial(fits, rows), _LEAST_WIDTH, max(budget, _LEAST_WIDTH))
    if found is None:
        found = widest(partial(fits, rows[:_SAMPLE_KEPT_ROWS]), NARROWEST, max(budget, NARROWEST))
    return found or NARROWEST


def _without_rows(lines: list[Line], layout: Layout, budget: int, *, kept: int) -> int:
    """Remove lines from the end until they fit or `kept` are left. Return the remaining room, which may be negative."""
    room = budget + 1 - sum(map(layout.size, lines))  # the last line has no line break
    while room < 0 and len(lines) > kept:
        room += layout.size(lines.pop())
    return room


def _without_columns(lines: list[Line], layout: Layout, room: int) -> None:
    while room < 0 and lines and len(lines[0]) > 1:
        room += sum(len(line.pop()) + len(layout.between) for line in lines)
