"""Cells as SQLAlchemy's types read them, and cells that do not fit their column, as text."""

from __future__ import annotations

import datetime as dt
import gc
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import orjson

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import DriverValues
from dualsql.columns.exact import Digits, ValueReader
from dualsql.columns.own_types import is_decorator
from dualsql.columns.result import DriverValue, ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats.text import duration, holds_more
from dualsql.formats.writer import Rows
from dualsql.threads import in_thread

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unfit:
    """A cell that does not fit its column, as text: a text in a column of integers, a date before the year 1.

    JSON shows the text and names the column in `$unfit`; CSV shows the text. Arrow and Parquet refuse it: their types
    are fixed before the first row.

    Attributes:
        value: what the database returned. JSON shows it itself, where it is computed: its type was a forecast.
    """

    text: str
    value: Any = field(default=None, compare=False)

    @classmethod
    def of(cls, value: Any) -> Unfit:
        """The cell that holds a value, with the text that CSV shows."""
        if isinstance(value, cls):
            return value
        text = cell_text(value)
        return cls(str(value) if text is None else text, value)


def cell_text(value: Any) -> str | None:
    """The text of a value, as `formats.json.text` has it; None of a class that has no JSON form of its own."""
    try:
        plain = _plain(value)
        return plain if isinstance(plain, str) else orjson.dumps(plain).decode()
    except (TypeError, RecursionError):
        return None


def _plain(value: Any) -> Any:
    for classes, write in _FORMS:
        if isinstance(value, classes):
            return write(value)
    raise TypeError


def _number(value: float | Decimal) -> Any:
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return format(value, "f") if isinstance(value, Decimal) else value


_FORMS: Sequence[tuple[Any, Callable[[Any], Any]]] = (
    ((str, bool, type(None)), lambda value: value),
    (dict, lambda value: {key: _plain(each) for key, each in value.items()}),
    ((list, tuple), lambda value: [_plain(each) for each in value]),
    ((bytes, bytearray, memoryview), lambda value: b64encode(value).decode("ascii")),
    ((dt.datetime, dt.date, dt.time), methodcaller("isoformat")),
    (dt.timedelta, duration),
    (Digits, lambda value: orjson.Fragment(value.text)),
    (int, lambda value: orjson.Fragment(str(value))),
    ((float, Decimal), _number),
    ((UUID, IPv4Address, IPv6Address, IPv4Network, IPv6Network), str),
    ((set, frozenset), lambda value: _plain(list(value))),
)


class WordedItems(NamedTuple):
    """A list or an object with words for the numbers that JSON does not have; JSON shows it."""

    items: Any


JSON_NULL = Unfit("null")
"""The document null, where a type of the application reads None from it. It is no NULL: `is_null` does not find it."""


def are_heavy(columns: Sequence[ResultColumn], rows: Iterable[Sequence[Any]]) -> bool:
    """Whether rows of these columns hold more elements than the event loop has time for."""
    places = [place for place, column in enumerate(columns) if column.encoding in ("any", "json", "array")]
    # So many are written in 5 ms, or in 20 ms if each is an integer beyond 64 bits.
    return bool(places) and holds_more((row[place] for row in rows for place in places), 20_000)


async def run_heavy(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What `work` returns, which makes many objects: in a thread, without a search for garbage.

    A search among a million new lists holds Python's lock for half a second.
    """
    return await in_thread(without_collector()(work), *arguments, **options)


class without_collector(ContextDecorator):  # noqa: N801 - as `suppress`; a generator takes a microsecond more
    """Turn garbage collection off in the block, in all threads, and on again if it was on.

    Python searches new objects for cycles every few hundred of them. A batch has tens of thousands of objects and no
    cycles: the search takes up to two fifths of the time of a stream.
    """

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


Processor = Callable[[Any], Any]


class Tolerant:
    """SQLAlchemy's processor of a type. If it fails, the result is an Unfit."""

    __slots__ = ("processor",)

    def __init__(self, processor: Processor) -> None:
        self.processor = processor

    def __call__(self, value: Any) -> Any:
        try:
            return self.processor(value)
        # Types raise different errors: a date ValueError, an enumeration LookupError.
        except Exception:  # noqa: BLE001
            return Unfit.of(value)


def processed(rows: Sequence[Sequence[Any]], processors: Sequence[tuple[int, Processor]]) -> Rows:
    """The driver's rows, in place if they are lists, with SQLAlchemy's processors applied. These handle NULL."""
    # Few dates are infinite. One check of all rows takes a tenth of the time of converting each.
    processors = [
        (place, one)
        for place, one in processors
        if not isinstance(one, ValueReader) or one.changes_any(list(map(itemgetter(place), rows)))
    ]
    if not processors or not rows:
        return rows
    values: Sequence[Any] = rows if type(rows[0]) is list else [list(row) for row in rows]
    for place, processor in processors:
        process, rest = processor.processor if isinstance(processor, Tolerant) else processor, iter(values)
        try:
            for row in rest:
                row[place] = process(row[place])
        except Exception:  # see Tolerant
            if process is processor:
                raise
            for each in chain((row,), rest):
                each[place] = processor(each[place])
    return values


def read_tolerantly(dialect: Any, values: DriverValues) -> None:
    """Give a dialect the processors of this module, and the types that its driver needs.

    `dialect` has to be a copy of the engine's, so that the application's own statements still raise errors.
    """
    if values.types:
        dialect.colspecs = {**dialect.colspecs, **values.types}
    internals.set_type_memos(dialect, _Memos(values))


class _Memos(WeakKeyDictionary[Any, Any]):
    """A dialect's cache of its types' processors."""

    def __init__(self, values: DriverValues) -> None:
        super().__init__()
        self._values = values

    def __setitem__(self, type_: Any, memo: Any) -> None:
        # A variant of the application's type is its own implementation, and stays as the application made it.
        # copy() would ask the new one for __setstate__, which a TypeDecorator asks its class for: it has no state yet.
        impl: Any = object.__new__(type(memo["impl"]))
        impl.__dict__.update(vars(memo["impl"]))
        memo["impl"] = impl
        is_key, own = isinstance(type_, DriverValue), impl.result_processor

        def result_processor(dialect: Any, code: Any) -> Processor | None:
            if self._values.require is not None:
                try:
                    self._values.require(code)
                except DualResponseError:
                    if not is_key:
                        raise
                    return Unfit.of  # no page begins after such a value
            processor: Processor | None = own(dialect, code)
            # Errors of a TypeDecorator's own code are not replaced by an Unfit.
            if is_decorator(impl):
                return None if processor is None else self._spared(processor, code)
            return processor if is_key else self._tolerant(processor, code)

        impl.__dict__["result_processor"] = result_processor
        super().__setitem__(type_, memo)

    def _spared(self, processor: Processor, code: Any) -> Processor:
        """The application's processor. It is not called for an Unfit."""
        is_odd = code in self._values.unfit_codes

        def read(value: Any) -> Any:
            if is_odd and type(value) is Unfit:
                return value
            own_value = processor(value)
            is_text = own_value is None and type(value) in (str, bytes)
            return JSON_NULL if is_text and value in ("null", b"null") else own_value

        return read

    def _tolerant(self, processor: Processor | None, code: Any) -> Processor | None:
        read = self._values.processors.get(code)
        if read is not None and (processor is None or isinstance(processor, ValueReader)):
            processor = read
        first = self._values.readers.get(code)
        if first is not None:
            processor = _chained(first, processor)
        if processor is None or isinstance(processor, Tolerant | ValueReader):
            return processor
        return Tolerant(processor)


def _chained(first: Processor, second: Processor | None) -> Processor:
    return first if second is None else lambda value: second(first(value))
