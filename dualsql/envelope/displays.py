"""Plain data as text, Markdown or HTML within a number of characters. No value becomes markup.

The scalars of an object become pairs, a list of objects a grid, another list one line for each value. Nested values
become sections titled by their path, and below `_DEEPEST` a single cell."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import accumulate
from typing import Any, Literal, NamedTuple, get_args

from typing_extensions import TypedDict

from dualsql.envelope.values import BOUNDS, Bounds, plain_value
from dualsql.errors import BadParameterError
from dualsql.formats.text import NARROWEST, cell, single_line, widest

_DEEPEST = 4
_MOST_SECTIONS = 200
_MOST_LINES = 200
_MOST_COLUMNS = 50

Path = tuple[str, ...]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prose:
    """A section that is one text."""

    path: Path
    text: str

    @property
    def total(self) -> int:
        """Characters."""
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names and their values."""

    path: Path
    pairs: Sequence[tuple[str, Any]]
    total: int


@dataclass(frozen=True, slots=True)
class Lines:
    """The values of a list, one a line."""

    path: Path
    values: Sequence[Any]
    total: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Objects as rows. Every row has every name; missing values are None."""

    path: Path
    names: Sequence[str]
    rows: Sequence[Row]
    total: int
    total_columns: int


Section = Prose | Pairs | Lines | Grid


def sections(data: Any) -> tuple[list[Section], bool]:
    """The sections of plain data, the outermost first, and whether they are complete."""
    parts: list[Section] = []
    for section in _sections((), data):
        if len(parts) == _MOST_SECTIONS:
            return parts, False
        parts.append(section)
    return parts, True


def _sections(path: Path, data: Any) -> Iterator[Section]:
    if isinstance(data, Mapping):
        yield from _of_object(path, data)
    elif isinstance(data, list) and data and all(isinstance(each, Mapping) and each for each in data):
        yield _lay_out_grid(path, data)
    elif isinstance(data, list):
        yield Lines(path, data[:_MOST_LINES], len(data))
    else:
        yield Prose(path, data if isinstance(data, str) else json.dumps(data))


def _of_object(path: Path, data: Mapping[str, Any]) -> Iterator[Section]:
    nested = [
        name
        for name, value in data.items()
        if isinstance(value, Mapping | list) and value and len(path) < _DEEPEST
    ]
    inner = frozenset(nested)
    pairs = [(name, value) for name, value in data.items() if name not in inner]
    if pairs:
        yield Pairs(path, pairs[:_MOST_LINES], len(pairs))
    for name in nested:
        yield from _sections((*path, name), data[name])


def _lay_out_grid(path: Path, data: Sequence[Mapping[str, Any]]) -> Grid:
    records = data[:_MOST_LINES]
    names = list(dict.fromkeys(name for row in records for name in row))
    columns = names[:_MOST_COLUMNS]
    rows = [{name: row.get(name) for name in columns} for row in records]
    return Grid(path, columns, rows, len(data), len(names))


NAME_WIDTH = 80


class Text:
    """Plain text for a model: names and values, tables with bars. A cell cannot end its line or its column."""

    between = "\n\n"

    def cell(self, value: Any, width: int) -> str:
        return cell(value, width)

    def prose(self, text: str) -> str:
        return "\n".join("".join(filter(_is_printable, line)) for line in text.splitlines())

    def heading(self, title: str) -> str:
        return f"{self.cell(title, NAME_WIDTH)}:\n"

    def note(self, text: str) -> str:
        return f"({text})"

    def pair(self, name: str, value: str) -> str:
        return f"{name}: {value}"

    def pairs(self, pairs: Sequence[str]) -> str:
        return "\n".join(pairs)

    def line(self, value: str) -> str:
        return f"- {value}"

    def lines(self, lines: Sequence[str]) -> str:
        return "\n".join(lines)

    def row(self, cells: Sequence[str]) -> str:
        return f"|{'|'.join(cells)}|"

    def table(self, names: Sequence[str], rows: Sequence[str]) -> str:
        return "\n".join([self.row(names), self.row(["-"] * len(names)), *rows])


def _is_printable(character: str) -> bool:
    # Control characters, bidirectional overrides, what has no width, halves of pairs.
    return character == "\t" or not unicodedata.category(character).startswith("C")


# All that begins a link, an image, HTML, an entity, emphasis or a formula. An image would be fetched, and so tell
# whoever serves it what else is on the screen.
_MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "[]<>*_~&$#!(){}"})
_BEGINNINGS = ("-", "+", "=")


class Markdown(Text):
    """Markdown for the screen of a chat."""

    def cell(self, value: Any, width: int) -> str:
        text = super().cell(value, width).translate(_MARKUP)
        # At the start of a line these begin a list, a rule or a heading.
        return f"\\{text}" if text.startswith(_BEGINNINGS) else text

    def prose(self, text: str) -> str:
        # Two spaces before a line break keep it (CommonMark 0.31.2, 6.7).
        return "  \n".join(self.cell(line, len(line)) if line else "" for line in text.splitlines())

    def heading(self, title: str) -> str:
        return f"**{self.cell(title, NAME_WIDTH)}**\n\n"

    def note(self, text: str) -> str:
        return f"*{text}*"

    def pair(self, name: str, value: str) -> str:
        return f"- **{name}:** {value}"


class HTML(Text):
    """HTML of bare elements, without attributes, scripts and styles."""

    between = "\n"

    def cell(self, value: Any, width: int) -> str:
        if value is None:
            return ""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return escape(single_line(text, width))

    def prose(self, text: str) -> str:
        return f"<p>{'<br>'.join(self.cell(line, len(line)) for line in text.splitlines())}</p>"

    def heading(self, title: str) -> str:
        return f"<h4>{self.cell(title, NAME_WIDTH)}</h4>\n"

    def note(self, text: str) -> str:
        return f"<p><em>{text}</em></p>"

    def pair(self, name: str, value: str) -> str:
        return f"<dt>{name}</dt><dd>{value}</dd>"

    def pairs(self, pairs: Sequence[str]) -> str:
        return f"<dl>{''.join(pairs)}</dl>"

    def line(self, value: str) -> str:
        return f"<li>{value}</li>"

    def lines(self, lines: Sequence[str]) -> str:
        return f"<ul>{''.join(lines)}</ul>"

    def row(self, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<td>{each}</td>' for each in cells)}</tr>"

    def table(self, names: Sequence[str], rows: Sequence[str]) -> str:
        head = "".join(f"<th>{name}</th>" for name in names)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


_CELL_WIDTH = 300
_ENOUGH_ROWS = 10
_FOR_A_NOTE = 160
_UNITS = {Prose: "characters", Pairs: "lines", Lines: "lines", Grid: "rows"}
_LEFT_OUT = "More is in the data than is shown here."


class _Piece(NamedTuple):
    """The part of a section that is shown: a number of characters, lines or rows, and columns of a grid."""

    text: str
    shown: int
    columns: int = 0


def lay_out(data: Any, style: Text, budget: int) -> str:
    """Plain data in at most `budget` characters; empty if not even a note fits."""
    parts, is_all = sections(data)
    pieces: list[str] = []
    left = budget - _FOR_A_NOTE
    for section in parts:
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
    """A section with its heading, and a note on what is left out; None if not even its first line fits."""
    heading = style.heading(".".join(section.path)) if section.path else ""
    piece = _lay_out_section(section, style, budget - len(heading) - _FOR_A_NOTE)
    if not piece.shown:
        return None
    note = _note_on_rest(section, piece)
    return heading + piece.text + (style.between + style.note(note) if note else "")


def _lay_out_section(section: Section, style: Text, room: int) -> _Piece:
    if isinstance(section, Prose):
        return _prose(section.text, style, room)
    if isinstance(section, Grid):
        return _write_grid(section, style, room)
    join = style.pairs if isinstance(section, Pairs) else style.lines

    def fits(width: int) -> bool:
        all_lines = _lines_of(section, style, width)
        return _fitting(all_lines, room - len(join([]))) == len(all_lines)

    width = widest(fits, _CELL_WIDTH, max(room, _CELL_WIDTH)) or _CELL_WIDTH
    lines = _lines_of(section, style, width)
    count = _fitting(lines, room - len(join([])))
    return _Piece(join(lines[:count]), count)


def _prose(text: str, style: Text, room: int) -> _Piece:
    size = min(len(text), max(room, 0))
    while len(prose := style.prose(text[:size])) > room and size:
        # Escapes may make a text several times as long. By halves, a long one is tried a few times only.
        size //= 2
    return _Piece(prose, size)


def _lines_of(section: Pairs | Lines, style: Text, width: int) -> list[str]:
    if isinstance(section, Lines):
        return [style.line(style.cell(value, width)) for value in section.values]
    return [
        style.pair(style.cell(name, NAME_WIDTH), style.cell(value, width)) for name, value in section.pairs
    ]


def _write_grid(grid: Grid, style: Text, room: int) -> _Piece:
    """A grid that fits: cells are cut until some rows fit, then columns are left out."""
    names, first = grid.names, grid.rows[:_ENOUGH_ROWS]
    while True:
        width = widest(partial(_fit, names, first, style, room), NARROWEST, max(room, NARROWEST))
        if width is not None:
            return _rows(names, grid.rows, style, width, room)
        if len(names) == 1:
            return _rows(names, first, style, NARROWEST, room)
        # 11 tries for 50 columns, and not 49.
        names = names[: len(names) * 3 // 4]


def _fit(names: Sequence[str], records: Sequence[Row], style: Text, room: int, width: int) -> bool:
    return _rows(names, records, style, width, room).shown == len(records)


def _rows(names: Sequence[str], records: Sequence[Row], style: Text, width: int, room: int) -> _Piece:
    head = [style.cell(name, width) for name in names]
    rows = [style.row([style.cell(row[name], width) for name in names]) for row in records]
    count = _fitting(rows, room - len(style.table(head, [])))
    return _Piece(style.table(head, rows[:count]), count, len(names))


def _fitting(lines: Sequence[str], room: int) -> int:
    """How many of the lines fit, each with a line break."""
    return sum(size <= room for size in accumulate(len(line) + 1 for line in lines))


def _note_on_rest(section: Section, piece: _Piece) -> str:
    """A note on how much of a section is shown, if not all."""
    parts = []
    if piece.shown < section.total:
        parts.append(f"{piece.shown:,} of {section.total:,} {_UNITS[type(section)]}")
    if isinstance(section, Grid) and piece.columns < section.total_columns:
        parts.append(f"{piece.columns:,} of {section.total_columns:,} columns")
    return f"Shown: {', '.join(parts)}." if parts else ""


DisplayType = Literal["text", "markdown", "html"]
"""The form of a display for people; what it shows is escaped for it."""

TEXT_BUDGET = 8_000
"""Characters of a text or a display; the strictest host known cuts beyond 10 KB (github/copilot-cli#1732)."""

_DONE = "Done."
_EMPTY = "No entries."


class Display(TypedDict):
    """The part of an answer for people (specification S8)."""

    type: DisplayType
    content: str


_STYLES: Mapping[DisplayType, Text] = {"text": Text(), "markdown": Markdown(), "html": HTML()}
DISPLAY_TYPES: tuple[DisplayType, ...] = get_args(DisplayType)


def readable(data: Any, *, budget: int = TEXT_BUDGET, bounds: Bounds = BOUNDS) -> str:
    """Any value as text for a model: names and values, lists, tables. The text says what is left out.

    Raises:
        LimitExceededError, BadParameterError: as `plain_value` does.
    """
    return display(data, budget=budget, bounds=bounds)["content"]


def display(
    data: Any,
    form: DisplayType = "text",
    *,
    budget: int = TEXT_BUDGET,
    bounds: Bounds = BOUNDS,
) -> Display:
    """Any value for a person's screen, escaped so that no value of it becomes markup.

    Raises:
        LimitExceededError, BadParameterError: as `plain_value` does; or there is no such form.
    """
    if form not in DISPLAY_TYPES:
        raise BadParameterError(
            "There is no display of that type.", hint=f"One of {', '.join(DISPLAY_TYPES)}."
        )
    payload = plain_value(data, bounds)
    if payload is None or payload == "":
        payload = _DONE
    elif payload in ({}, []):
        payload = _EMPTY
    return Display(type=form, content=lay_out(payload, _STYLES[form], budget))
