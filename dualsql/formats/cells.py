"""Cells as SQLAlchemy's types read them, and cells that do not fit their column, as text."""

from __future__ import annotations

import datetime as dt
import gc
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import DriverValues, capabilities_of
from dualsql.columns.exact import ValueReader
from dualsql.columns.own_types import is_decorator
from dualsql.columns.result import DriverValue, ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats.text import holds_more
from dualsql.formats.writer import Rows
from dualsql.sqlalchemy_dialects import ranges
from dualsql.threads import in_thread
from dualsql_client.wire import INFINITIES

P = ParamSpec("P")
T = TypeVar("T")

Kinds = tuple[type[Any], ...]

KINDS: Mapping[str, tuple[Kinds, Kinds]] = {
    "integer": ((int,), (bool,)),
    "float": ((float, int), (bool,)),
    "decimal": ((Decimal, int), (bool,)),
    "boolean": ((bool,), ()),
    "text": ((str,), ()),
    "date": ((dt.date,), (dt.datetime,)),
    "datetime": ((dt.datetime,), ()),
    "time": ((dt.time,), ()),
    "interval": ((dt.timedelta,), ()),
    "uuid": ((UUID, str), ()),
    "base64": ((bytes, bytearray, memoryview), ()),
}
"""By encoding: classes of values, and subclasses of these that do not belong to the encoding."""


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
        """The cell that holds a value."""
        return value if isinstance(value, cls) else cls(_text(value), value)


class WordedItems(NamedTuple):
    """A list or an object with words for the numbers that JSON does not have; JSON shows it."""

    items: Any


JSON_NULL = Unfit("null")
"""The document null, where a type of the application reads None from it. It is no NULL: `is_null` does not find it."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnFit:
    """Which values one column may hold.

    Attributes:
        kinds: their classes; None for any class but Unfit.
        strangers: subclasses of these that the column does not hold.
    """

    kinds: Kinds | None
    strangers: Kinds = ()

    def holds(self, *columns: Sequence[Any]) -> bool:
        """Whether all values of columns fit; NULL fits every column. 15 to 20 ns a value."""
        classes = set(map(type, chain.from_iterable(columns)))
        if self.kinds is None:
            return Unfit not in classes
        others = classes.difference(self.kinds, (type(None),))
        if not all(issubclass(kind, self.kinds) and not issubclass(kind, self.strangers) for kind in others):
            return False
        if float not in self.kinds or int not in classes:
            return True
        # A database that computes an integer among doubles has all of its digits; a double may be another number.
        integers = (value for value in chain.from_iterable(columns) if type(value) is int)
        return all(abs(value) <= LARGEST_EXACT_INTEGER or int(float(value)) == value for value in integers)

    def fitted(self, value: Any) -> Any:
        """The value itself, or an Unfit in its place. A whole number of another class, such as 2.0, becomes an int."""
        if self.holds((value,)) or (self.kinds in ((dt.date,), (dt.datetime,)) and value in INFINITIES):
            return value
        is_whole = self.kinds == (int,) and isinstance(value, Decimal) and value.is_finite()
        return int(value) if is_whole and value == value.to_integral_value() else Unfit.of(value)


LARGEST_EXACT_INTEGER = 2**53
"""Beyond it, readers that store numbers as doubles (JavaScript, many hosts of models) lose digits."""


def loose_encodings(dialect: Dialect) -> Sequence[str]:
    """The encodings of columns in which the database may hold values of other types."""
    capabilities = capabilities_of(dialect)
    return ("integer", "float", "base64", "text") if capabilities and capabilities.has_loose_types else ()


def fit_of(column: ResultColumn) -> ColumnFit:
    """The values that the column's encoding allows, before conversion."""
    is_open = isinstance(column.shown, types.Enum | ranges.AbstractRange)
    return _OPEN if is_open else _FITS.get(column.encoding, _OPEN)


_OPEN, _FITS = ColumnFit(None), {encoding: ColumnFit(*kinds) for encoding, kinds in KINDS.items()}


class Fits:
    """Which values the columns may hold that have to be checked, by position.

    Columns with the same fit are checked at once: 18 columns of 100 rows take 40 microseconds, 65 if each is checked.
    """

    def __init__(self, fits: Mapping[int, ColumnFit]) -> None:
        self._each = fits
        alike: dict[ColumnFit, list[int]] = {}
        for place, fit in fits.items():
            alike.setdefault(fit, []).append(place)
        self._alike = list(alike.items())

    def marked(self, rows: Rows) -> Rows:
        """The rows with an Unfit in place of each value that does not fit; the same object if all values fit."""
        if not rows or not self._each:
            return rows
        # Rows are equally long, and strict=True would cost.
        columns = list(zip(*rows))  # noqa: B905
        if all(fit.holds(*[columns[place] for place in places]) for fit, places in self._alike):
            return rows
        fitted = [list(row) for row in rows]
        for place, fit in self._each.items():
            if not fit.holds(columns[place]):
                for row in fitted:
                    row[place] = fit.fitted(row[place])
        return fitted


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


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode("ascii")
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return str(value)


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
