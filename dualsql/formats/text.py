"""A sample as a small Markdown table for a model; the rule: cells are data, and every cut is said."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from dualsql_client.wire import Row

_CELL_WIDTHS = (80, 40, 20, 12)
_KEPT_ROWS = 10
_HEAD = 2  # the names, and the line below them


class Table(NamedTuple):
    """A rendered table and how much of the sample is in it."""

    text: str
    rows: int
    columns: int


def table(names: Sequence[str], rows: Sequence[Row], *, budget: int) -> Table:
    """The largest rendering within `budget` characters.

    Cells shrink first; then rows go, down to ten, then columns, then the other rows.
    """
    for width in _CELL_WIDTHS:
        grid = [[cell(name, width) for name in names], ["-"] * len(names)]
        grid += ([cell(row[name], width) for name in names] for row in rows)
        text = _written(grid)
        if len(text) <= budget:
            return Table(text, len(rows), len(names))
    return _cut(grid, len(text), budget)


def _cut(grid: list[list[str]], size: int, budget: int) -> Table:
    """Take lines and columns off a grid whose text has `size` characters, until it has `budget`."""
    columns = len(grid[0])
    while len(grid) > _HEAD + _KEPT_ROWS and size > budget:
        size -= _size_of(grid.pop(), columns)
    while columns > 1 and size > budget:
        columns -= 1
        size -= sum(len(line[columns]) + 1 for line in grid)
    while len(grid) > _HEAD and size > budget:
        size -= _size_of(grid.pop(), columns)
    return Table(_written([line[:columns] for line in grid]), len(grid) - _HEAD, columns)


def _size_of(line: list[str], columns: int) -> int:
    return sum(len(text) + 1 for text in line[:columns]) + len("|\n")


def _written(grid: list[list[str]]) -> str:
    return "\n".join(f"|{'|'.join(line)}|" for line in grid)


def cell(value: Any, width: int) -> str:
    """One value on one line, at most `width` characters, unable to end its cell or its line."""
    if value is None:
        return ""
    plain = single_line(words(value), width)
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("`", "'")


def single_line(text: str, width: int) -> str:
    """`text` without line breaks, control and bidirectional characters, cut with an ellipsis."""
    # A slice first: a cell can hold megabytes.
    head = text[: width * 4]
    if not (head.isascii() and head.isprintable()):
        head = "".join(" " if c.isspace() else c for c in head if c.isspace() or _is_visible(c))
    folded = " ".join(head.split())
    return folded if len(folded) <= width and len(text) <= width * 4 else folded[: width - 1] + "…"


def _is_visible(character: str) -> bool:
    # Cc control, Cf format (bidirectional overrides, zero-width), Co private, Cs surrogate, Cn unassigned.
    return not unicodedata.category(character).startswith("C")


def words(value: Any) -> str:
    """A value as a reader sees it, neither cut nor escaped: strings as they are, the rest as JSON has it."""
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
