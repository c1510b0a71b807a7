"""How plain data is laid out for a reader; the rule: a section shows what stands in it, or says what it leaves out.

A text stays a text. Scalars of one object stand together as pairs, a list of objects is a grid, another list a list of
lines. What is nested becomes a section, titled by its path, down to `_DEEPEST`; below that it is one cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DEEPEST = 4
_MOST_SECTIONS = 200
_MOST_LINES = 200
_MOST_COLUMNS = 50

Path = tuple[str, ...]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prose:
    """A text that is all there is."""

    path: Path
    text: str

    @property
    def total(self) -> int:
        """Characters."""
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names and what stands under them."""

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
    """Objects as rows. Every row has every name; what it lacked is None."""

    path: Path
    names: Sequence[str]
    rows: Sequence[Row]
    total: int
    total_columns: int


Section = Prose | Pairs | Lines | Grid


def sections(data: Any) -> tuple[list[Section], bool]:
    """The sections of plain data, the outermost first; and whether they are all."""
    found: list[Section] = []
    for section in _sections((), data):
        if len(found) == _MOST_SECTIONS:
            return found, False
        found.append(section)
    return found, True


def _sections(path: Path, data: Any) -> Iterator[Section]:
    if isinstance(data, Mapping):
        yield from _of_object(path, data)
    elif isinstance(data, list) and data and all(isinstance(each, Mapping) and each for each in data):
        yield _grid(path, data)
    elif isinstance(data, list):
        yield Lines(path, data[:_MOST_LINES], len(data))
    else:
        yield Prose(path, data if isinstance(data, str) else json.dumps(data))


def _of_object(path: Path, data: Mapping[str, Any]) -> Iterator[Section]:
    nested = [name for name, value in data.items() if _has_sections(value) and len(path) < _DEEPEST]
    inner = frozenset(nested)
    pairs = [(name, value) for name, value in data.items() if name not in inner]
    if pairs:
        yield Pairs(path, pairs[:_MOST_LINES], len(pairs))
    for name in nested:
        yield from _sections((*path, name), data[name])


def _has_sections(value: Any) -> bool:
    return isinstance(value, Mapping | list) and bool(value)


def _grid(path: Path, data: Sequence[Mapping[str, Any]]) -> Grid:
    shown = data[:_MOST_LINES]
    names = list(dict.fromkeys(name for row in shown for name in row))
    kept = names[:_MOST_COLUMNS]
    rows = [{name: row.get(name) for name in kept} for row in shown]
    return Grid(path, kept, rows, len(data), len(names))
