"""Laid-out data within a number of characters; the rule: a line is written whole or not at all, and a cut is said."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from dualsql.envelope.layout import Grid, Lines, Pairs, Prose, Row, Section, sections
from dualsql.envelope.styles import NAME_WIDTH, Text

_CELL_WIDTH = 300
_GRID_WIDTHS = (80, 40, 20, 12)
_ENOUGH_ROWS = 10
_FOR_A_NOTE = 160
_UNITS = {Prose: "characters", Pairs: "lines", Lines: "lines", Grid: "rows"}
_LEFT_OUT = "More is in the data than is shown here."


class _Piece(NamedTuple):
    """What is shown of a section: so many characters, lines or rows of it, and columns of a grid."""

    text: str
    shown: int
    columns: int = 0


def written(data: Any, style: Text, budget: int) -> str:
    """Plain data in at most `budget` characters; nothing at all if not even a note has its place."""
    found, is_all = sections(data)
    pieces: list[str] = []
    left = budget - _FOR_A_NOTE
    for section in found:
        piece = _section(section, style, left) if left > _FOR_A_NOTE else None
        is_all = is_all and piece is not None
        if piece is not None:
            pieces.append(piece)
            left -= len(piece) + len(style.between)
    if not is_all:
        pieces.append(style.note(_LEFT_OUT))
    text = style.between.join(pieces)
    return text if len(text) <= budget else ""


def _section(section: Section, style: Text, budget: int) -> str | None:
    """A section with its heading, and a note of what it lacks; None if not even its first line fits."""
    heading = style.heading(".".join(section.path)) if section.path else ""
    piece = _fitted(section, style, budget - len(heading) - _FOR_A_NOTE)
    if not piece.shown:
        return None
    cut = _cut(section, piece)
    return heading + piece.text + (style.between + style.note(cut) if cut else "")


def _fitted(section: Section, style: Text, room: int) -> _Piece:
    if isinstance(section, Prose):
        return _prose(section.text, style, room)
    if isinstance(section, Grid):
        return _grid(section, style, room)
    lines = _written_lines(section, style)
    join = style.pairs if isinstance(section, Pairs) else style.lines
    kept = _fitting(lines, room - len(join([])))
    return _Piece(join(lines[:kept]), kept)


def _prose(text: str, style: Text, room: int) -> _Piece:
    size = min(len(text), max(room, 0))
    while len(written := style.prose(text[:size])) > room and size:
        size //= 2
    return _Piece(written, size)


def _written_lines(section: Pairs | Lines, style: Text) -> list[str]:
    if isinstance(section, Lines):
        return [style.line(style.cell(value, _CELL_WIDTH)) for value in section.values]
    return [
        style.pair(style.cell(name, NAME_WIDTH), style.cell(value, _CELL_WIDTH))
        for name, value in section.pairs
    ]


def _grid(grid: Grid, style: Text, room: int) -> _Piece:
    """Cells shrink until some rows have their place, then columns go."""
    names, first = grid.names, grid.rows[:_ENOUGH_ROWS]
    while True:
        for width in _GRID_WIDTHS:
            if _rows(names, first, style, width, room).shown == len(first):
                return _rows(names, grid.rows, style, width, room)
        if len(names) == 1:
            return _rows(names, first, style, width, room)
        names = names[: len(names) * 3 // 4]


def _rows(names: Sequence[str], records: Sequence[Row], style: Text, width: int, room: int) -> _Piece:
    head = [style.cell(name, width) for name in names]
    rows = [style.row([style.cell(row[name], width) for name in names]) for row in records]
    kept = _fitting(rows, room - len(style.table(head, [])))
    return _Piece(style.table(head, rows[:kept]), kept, len(names))


def _fitting(lines: Sequence[str], room: int) -> int:
    """How many of the lines have room, each with a line break."""
    return sum(size <= room for size in accumulate(len(line) + 1 for line in lines))


def _cut(section: Section, piece: _Piece) -> str:
    """What of a section is shown, if not all."""
    parts = []
    if piece.shown < section.total:
        parts.append(f"{piece.shown:,} of {section.total:,} {_UNITS[type(section)]}")
    if isinstance(section, Grid) and piece.columns < section.total_columns:
        parts.append(f"{piece.columns:,} of {section.total_columns:,} columns")
    return f"Shown: {', '.join(parts)}." if parts else ""
