"""Objects of many rows with the same names, lines of NDJSON and CSV, and the next rows of a cursor by their size.

Reader processes run this file, too, without the package: it imports nothing of it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from itertools import chain, islice
from operator import itemgetter
from types import CodeType, FunctionType, NoneType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualsql.formats.writer import Rows
    from dualsql_client.wire import Row

_MOST_MAKERS, _LONGEST_NAMES = 10_000, 2_000
_NO_ATTRIBUTES = frozenset({"__class__", "__dict__"})
"""The names that are set in another way than others."""


@lru_cache(256)
def object_maker(names: tuple[str, ...]) -> Callable[[Iterable[Sequence[Any]]], list[Row]]:
    """A function that makes dicts with these keys of rows.

    The rows are attributes of objects of one class, whose dicts share their keys. So a row of 20 values takes 0.2
    microseconds, a dict of its names and values 0.43, dict(zip(names, row)) 0.6, and a third of the memory.

    Python 3.12 and 3.13 keep the names of attributes for good, so they are limited.
    """
    size, made = sum(map(len, names)), object_maker.cache_info().misses
    if not 0 < size <= _LONGEST_NAMES or made > _MOST_MAKERS or not _NO_ATTRIBUTES.isdisjoint(names):
        return partial(_objects, names)
    code, own = _code(len(names)), {f"v{place}": str(name) for place, name in enumerate(names)}
    code = code.replace(co_names=tuple(own.get(name, name) for name in code.co_names))
    return FunctionType(code, {"Record": type("Record", (), {"__slots__": ("__dict__",)})})


@lru_cache(64)
def _code(width: int) -> CodeType:
    """The code of the function, with the names v0, v1, ...; its text depends on nothing but the width."""
    attributes = "".join(f"record.v{place}, " for place in range(width))
    scope: dict[str, Any] = {}
    exec(_TEXT.format(attributes), scope)  # noqa: S102 - as dataclasses and namedtuple do
    code: CodeType = scope["made"].__code__
    return code


_TEXT = """
def made(rows):
    records = []
    for row in rows:
        record = Record()
        {} = row
        records.append(record.__dict__)
    return records
"""


class PlainObjects:
    """Makes objects of rows whose cells are of the classes that their columns say; see `PlainColumns`."""

    def __init__(self, names: Sequence[str], kinds: Sequence[str]) -> None:
        self._names = tuple(names)
        self._make = object_maker(self._names)
        self._places: dict[str, list[int]] = {}
        for place, kind in enumerate(kinds):
            self._places.setdefault(kind, []).append(place)
        self._unproved: set[int] = set()

    def objects(self, rows: Rows) -> list[Row]:
        """The objects of rows, which may have more cells than there are columns.

        Raises:
            TypeError, ValueError: a cell has another class or no date, or is infinite, or its zone has seconds.
            LookupError: too few cells.
        """
        return self._make(zip(*self._columns(rows))) if rows else []  # noqa: B905 - equally long

    def ndjson(self, rows: Rows, dumps: Callable[[Any], bytes]) -> bytes:
        """At least one row as lines of NDJSON; raises as `objects` does."""
        return object_lines(self.objects(rows), dumps)

    def csv(self, rows: Rows, dumps: Callable[[Any], bytes]) -> bytes:
        """At least one row as lines of CSV.

        Raises:
            ValueError: see `csv_lines`. Others: see `objects`.
        """
        ready = list(zip(*self._columns(rows)))  # noqa: B905
        lines = csv_lines(dumps(ready), ready)
        if lines is None:
            raise ValueError
        return lines

    def _columns(self, rows: Rows) -> list[Any]:
        columns: list[Any] = list(zip(*rows))[: len(self._names)]  # noqa: B905 - rows are equally long
        for kind, places in self._places.items():
            if kind in _READERS:
                for place in places:
                    columns[place] = _READERS[kind](columns[place])
                continue
            cells = [columns[place] for place in places if not self._proves(kind, place, columns[place])]
            if not {_CLASSES[kind], NoneType}.issuperset(set(map(type, chain.from_iterable(cells)))):
                raise TypeError
            # orjson would write them as null.
            if kind == "float" and not INFINITIES.isdisjoint(chain.from_iterable(cells)):
                raise TypeError
        return columns

    def _proves(self, kind: str, place: int, column: Sequence[Any]) -> bool:
        """Whether the sum or the join of a column shows the class of all its cells, in a third of the time of a look at
        each. It never does with a NULL, so that a column that had one is not added up again.
        """
        if place in self._unproved:
            return False
        try:
            if type(_PROOFS[kind](column)) is _CLASSES[kind]:
                return True
        except (LookupError, TypeError):
            pass
        self._unproved.add(place)
        return False


def object_lines(records: Sequence[Row], dumps: Callable[[Any], bytes]) -> bytes:
    """The records as JSON objects, each on a line of its own."""
    array = dumps(records)
    # One array is written and then cut, in a third of the time of one call per record. This is safe if the number of
    # braces shows that no text contains "},{".
    if array.count(b"{") == len(records):
        return array[1:-1].replace(b"},{", b"}\n{") + b"\n" if records else b""
    return b"".join([dumps(record) + b"\n" for record in records])


def csv_lines(array: bytes, rows: Rows) -> bytes | None:
    """The lines of CSV cut out of the JSON of these rows, three times as fast as one by one; None if that is not safe.

    It is safe if no text contains null, a bracket, or a control character but those that JSON names.
    """
    if b"{" in array or array.count(b"[") != len(rows) + 1:
        return None
    nulls = array.count(b"null")
    if nulls and nulls != sum([row.count(None) for row in rows]):
        return None
    if b"\\" in array:
        for escape, text in _ESCAPES:
            array = array.replace(escape, text)
        if b"\\" in array:
            return None
        array = array.replace(_BACKSLASH, b"\\")
    return array[2:-2].replace(b"],[", b"\r\n").replace(b"null", b"") + b"\r\n" if rows else b""


_BACKSLASH = b"\0"
"""What JSON has only as an escape."""
_ESCAPES = ((b"\\\\", _BACKSLASH), (b'\\"', b'""'), (b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t"))


def _objects(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Row]:
    return [dict(zip(names, row)) for row in rows]  # noqa: B905 - strict=True would cost


def _read(read: Callable[[str], Any], column: Sequence[Any]) -> list[Any]:
    if None in column:
        return [None if text is None else read(text) for text in column]
    return list(map(read, column))


def _instants(column: Sequence[Any]) -> list[Any]:
    instants = _read(datetime.fromisoformat, column)
    # Most have no zone, or UTC, whose offset is false: half of the time of a look at each zone.
    if any(map(datetime.utcoffset, filter(None, instants))) and has_odd_zone(instants):
        raise ValueError
    return instants


def has_odd_zone(cells: Iterable[Any]) -> bool:
    """Whether one of the cells is an instant whose zone may have seconds, which orjson rounds to minutes."""
    zones = {id(zone): zone for cell in cells if (zone := getattr(cell, "tzinfo", None)) is not None}
    offsets = (zone.utcoffset(None) for zone in zones.values())
    return any(offset is None or offset % _MINUTE for offset in offsets)


_MINUTE = timedelta(minutes=1)
_PROOFS: dict[str, Callable[[Sequence[Any]], Any]] = {"int": sum, "str": "".join}  # one float makes a float
_CLASSES: dict[str, type[Any]] = {"int": int, "float": float, "str": str}
_READERS: dict[str, Callable[[Sequence[Any]], list[Any]]] = {
    "date": partial(_read, date.fromisoformat),
    "datetime": _instants,
    "bool": partial(_read, bool),
}
INFINITIES = frozenset({math.inf, -math.inf})
_SCALARS = (bool, int, float, str, bytes, timedelta)
_WITHOUT_TIMES = frozenset({NoneType, date, *_SCALARS})


def classes_of(cells: Sequence[Any]) -> Set[type[Any]]:
    """The classes of one or more cells; none if their sum or join shows that all are numbers or texts.

    That takes half the time of a look at each.
    """
    try:
        ("".join if type(cells[0]) is str else sum)(cells)
    except (TypeError, ArithmeticError):
        return set(map(type, cells))
    return set()


def are_odd_times(classes: Set[type[Any]], cells: Iterable[Any]) -> bool:
    """Whether Python has to write the times and dates in cells of these classes, whatever their column announces.

    orjson 3.13 makes 01:24:17.70000 of the time of day 01:24:17.070000, and leaves the seconds out of a zone.
    """
    others = classes - _WITHOUT_TIMES
    if not others:
        return False
    from decimal import Decimal  # reader processes have none
    from uuid import UUID

    # Lists and objects may hold times, too.
    scalars = (*_SCALARS, Decimal, UUID, datetime)
    return not all(issubclass(kind, scalars) for kind in others) or has_odd_zone(cells)


def have_odd_times(columns: Iterable[Sequence[Any]]) -> bool:
    """Whether some columns have odd times; see `are_odd_times`."""
    return any(are_odd_times(classes_of(cells), cells) for cells in columns)


def columns_at(places: Sequence[int], width: int) -> Callable[[Rows], Iterable[Sequence[Any]]]:
    """The function that returns the columns at these positions of rows of that width."""
    if len(places) == width:
        return lambda rows: zip(*rows)  # noqa: B905 - rows are equally long
    return lambda rows: [list(map(itemgetter(place), rows)) for place in places] if rows else []


def read_rows(more: Callable[[int], Iterable[Any]], most: int, most_bytes: int, piece: int) -> list[Any]:
    """The next rows: `most` of them, or fewer whose texts, bytes and documents are as long as `most_bytes`.

    They are read in pieces of at most so many rows, the first of one row, and of as many as the ones before let expect.
    Of each piece, one row is measured, which the clock chooses, so that a statement cannot avoid it; all rows are,
    where that one is long.
    """
    rows: list[Any] = []
    size = 0
    while (count := len(rows)) < most and size < most_bytes:
        fitting = (most_bytes - size) * count // size + 1 if size else most
        rows.extend(more(min(piece, count * _GROWTH or 1, fitting, most - count)))
        if not (added := len(rows) - count):
            break
        size += added * _length(rows[count + time.perf_counter_ns() % added], most_bytes)
        if size >= most_bytes and len(rows) > 1:
            size = _length_of_all(rows, most_bytes)
    return rows


_LONG, _NESTED, _ELEMENT = (str, bytes), (list, dict), 8
"""The classes of long cells and of documents, and the bytes of a reference to an element of one."""


def _length(row: Sequence[Any], most: int) -> int:
    """The length of texts and bytes, also of those in documents, and some for each element; it ends beyond `most`."""
    length, parts = 0, list[Any]((row,))
    for part in parts:  # without recursion: documents are deep
        for cell in part:
            if isinstance(cell, _LONG):
                length += len(cell)
            elif isinstance(cell, _NESTED):
                length += _ELEMENT * len(cell)
                parts += (cell, cell.values()) if isinstance(cell, dict) else (cell,)
        if length >= most:
            break
    return length


def _length_of_all(rows: Rows, most: int) -> int:
    length = 0
    for row in rows:
        length += _length(row, most - length)
        if length >= most:
            break
    return length


def by_size(rows: Rows, most_bytes: int, piece: int) -> Iterator[Rows]:
    """Rows that were fetched in pieces of that size: where they are long, what is encoded is not as long as all."""
    more = iter(rows)
    while part := read_rows(lambda most: islice(more, most), len(rows), most_bytes, piece):
        yield part


_GROWTH = 25
"""How many times as many rows a piece may have as were read before it."""

_SHORT = (int, float, NoneType)


def byte_length(row: Iterable[Any]) -> int:
    """Bytes of the texts, in UTF-8, and of the bytes among the cells; of one that does not fit, those of its text."""
    return sum([_bytes(cell) for cell in row if not isinstance(cell, _SHORT)])


def _bytes(cell: Any) -> int:
    text = cell if isinstance(cell, str) else getattr(cell, "text", None)
    if isinstance(text, str):
        return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if isinstance(cell, bytes):
        return len(cell)
    return _length((cell,), sys.maxsize) if isinstance(cell, _NESTED) else 0
