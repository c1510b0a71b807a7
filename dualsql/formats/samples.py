"""How a sample is written for a model, and whether it can be shown whole; `excerpts` cuts what cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from dualsql.formats.json import dumps
from dualsql.formats.text import beginning, cell, csv_cell
from dualsql_client.identifiers import ID_LENGTH, ids_in
from dualsql_client.wire import IMPLIED_ENCODINGS, Column, Row, ShownColumn

LEAST_WIDTH = 80
"""All rows are shown if they fit with cells of so many characters."""

Plain = TypeVar("Plain")


def unlinked(text: str) -> str:
    """`text` with only the beginning of each result's id in it, so that no client takes it for a link."""
    if len(text) < ID_LENGTH:
        return text
    result, end = "", 0
    for start, identifier in ids_in(text):
        result += f"{text[end:start]}{identifier[:8]}…"
        end = start + len(identifier)
    return result + text[end:]


def without_links(value: Plain) -> Plain:
    """Plain JSON whose texts and names are `unlinked`."""
    plain: Any = value
    if isinstance(plain, str):
        plain = unlinked(plain)
    elif isinstance(plain, list):
        plain = [without_links(item) for item in plain]
    elif isinstance(plain, dict):
        plain = {unlinked(name): without_links(item) for name, item in plain.items()}
    return cast("Plain", plain)


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
    lines = LAYOUTS["markdown"].lines(names, rows, LEAST_WIDTH)
    return len(leading(lines, text_budget + 1)) == len(rows) + 2


def leading(items: Iterable[Plain], room: int, size: Callable[[Any], int] = len) -> list[Plain]:
    """The items, from the first, that take at most `room` with one more for each. No item after them is read."""
    first = []
    for item in items:
        room -= size(item) + 1
        if room < 0:
            break
        first.append(item)
    return first


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
