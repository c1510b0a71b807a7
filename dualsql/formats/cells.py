"""Cells as SQLAlchemy's types read them, and as objects and texts are written of them."""

from __future__ import annotations

import enum
import gc
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ContextDecorator
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import orjson
from sqlalchemy import types
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import InvalidRequestError

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import DriverValues
from dualsql.columns.exact import JSON_NULL, Unfit, ValueReader, WordedItems
from dualsql.columns.own_types import SQLType, is_decorator, is_instance, stored_type
from dualsql.columns.result import DriverValue, ResultColumn, is_sqlalchemys_own
from dualsql.errors import DualResponseError, ValueNotRepresentableError
from dualsql.formats.json import Converter, dumps, encoded, text, unfit, with_words
from dualsql.formats.text import holds_more
from dualsql.formats.writer import ExactRows, PlainColumns, Rows
from dualsql.sqlalchemy_dialects import ranges
from dualsql.threads import in_thread
from dualsql_client.wire import Column, Row

P = ParamSpec("P")
T = TypeVar("T")


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
            return _as_text(value)


def _as_text(value: Any) -> Unfit:
    return unfit(value) or Unfit(str(value), value)


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
                    return _as_text  # no page begins after such a value
            try:
                processor: Processor | None = own(dialect, code)
            except InvalidRequestError:  # of a Numeric, where PostgreSQL has no number
                if is_decorator(impl):
                    raise
                processor = None
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


def integer_columns(columns: Iterable[ResultColumn]) -> list[str]:
    """Names of the columns that hold whole numbers."""
    return [column.name for column in columns if column.encoding == "integer"]


Converters = Sequence[tuple[int, Converter]]


class RecordMaker:
    """Makes objects by column name of rows; what follows from the columns is computed once.

    Args:
        integer_strings: names of columns whose whole numbers become strings.
        text_columns: names of columns whose values become texts, as in CSV.
    """

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        dialect: Dialect,
        *,
        integer_strings: Sequence[str] = (),
        text_columns: Collection[str] = (),
    ) -> None:
        from dualsql.formats.fits import Fits, fit_of
        from dualsql.formats.row_objects import columns_at

        self._described, as_strings = [column.describe() for column in columns], frozenset(integer_strings)
        for column in self._described:
            if column["name"] in as_strings:
                column["encoding"] = "integer-string"
        self._names = tuple(column.name for column in columns)
        self._computed = frozenset(column.name for column in columns if column.is_computed)
        self._texts = [place for place, column in enumerate(columns) if column.name in text_columns]
        needed = converters(columns, dialect, integer_strings=integer_strings)
        # `Fits` makes whole numbers of whole decimals, too.
        whole = {place for place, converter in needed if converter is _whole}.difference(self._texts)
        self._converters = [(place, converter) for place, converter in needed if place not in whole]
        converting = {place for place, _ in self._converters}
        # Of what the application's code reads, a converter checks the class.
        fits = {
            place: fit_of(column)
            for place, column in enumerate(columns)
            if place not in self._texts and (column.meaning.reads is None or place in whole)
        }
        checked = {place: fit for place, fit in fits.items() if fit.kinds is not None}
        self._fits = Fits(checked)
        items = [column.get("items", column["encoding"]) for column in self._described]
        shown = [place for place in range(len(columns)) if place not in self._texts]
        self._numbers = [place for place in shown if items[place] in ("float", "decimal", "array", "any")]
        self._has_times = any(items[place] == "time" for place in shown)
        unchecked = [
            place
            for place in shown
            if place in converting or place not in checked or items[place] == "datetime"
        ]
        self._unchecked = columns_at(unchecked, len(columns))
        self._is_plain = (
            len(checked) == len(columns)
            and not converting
            and all(is_sqlalchemys_own(column.type, dialect) for column in columns)
        )

    def describe(self) -> list[Column]:
        """The columns as answers describe them."""
        return [column.copy() for column in self._described]

    @cached_property
    def described_text(self) -> orjson.Fragment:
        """The columns as answers describe them, in JSON."""
        return orjson.Fragment(orjson.dumps(self._described))

    @cached_property
    def plain(self) -> PlainColumns | None:
        """The columns as another process can write them; None if a value may have to be converted."""
        kinds = tuple(_PLAIN_KINDS.get(column["encoding"], "") for column in self._described)
        return PlainColumns(self._names, kinds) if self._is_plain and all(kinds) else None

    def records(self, rows: Rows) -> list[Row]:
        """The rows as objects, their values ready for `dumps`."""
        return self.page_records(rows)[0]

    def page_records(self, rows: Rows) -> tuple[list[Row], bool]:
        """The rows as objects, and whether they have odd times; see `are_odd_times`."""
        from dualsql.formats.row_objects import are_odd_times, classes_of

        fitting = self._with_words(self._fits.marked(rows))
        ready = self._converted(fitting)
        records = objects(self._names, ready)
        is_unfit, has_odd_times = fitting is not rows, self._has_times
        for cells in () if type(rows) is ExactRows else self._unchecked(ready):
            classes = classes_of(cells)
            is_unfit = is_unfit or Unfit in classes
            has_odd_times = has_odd_times or are_odd_times(classes, cells)
        if not is_unfit:
            return records, has_odd_times
        from dualsql.formats.unfit_cells import with_unfit_columns

        return with_unfit_columns(records, self._computed), has_odd_times

    def lines(self, rows: Rows) -> bytes:
        """The rows as JSON objects, each on a line of its own."""
        from dualsql.formats.row_objects import object_lines

        records, has_odd_times = self.page_records(rows)
        return object_lines(records, partial(dumps, has_odd_times=has_odd_times))

    def _with_words(self, rows: Rows) -> Rows:
        # orjson writes null for NaN and the infinities, which JSON does not have.
        numbers = [(place, list(map(itemgetter(place), rows))) for place in self._numbers]
        odd = [place for place, cells in numbers if with_words(cells) is not cells]
        return converted(rows, [(place, _finite_or_word) for place in odd])

    def _converted(self, rows: Rows) -> Rows:
        return with_texts(converted(rows, self._converters), self._texts)


_PLAIN_KINDS = {
    "integer": "int", "float": "float", "text": "str", "date": "date", "datetime": "datetime", "boolean": "bool"
}  # fmt: skip


def objects(names: Sequence[str], rows: Rows) -> list[Row]:
    """Rows, each with as many values as there are names, as objects."""
    if len(rows) >= _FEW:
        from dualsql.formats.row_objects import object_maker

        return object_maker(tuple(names))(rows)
    return [dict(zip(names, row)) for row in rows]  # noqa: B905 - strict=True would cost


_FEW = 16
"""Rows for which nothing is made that makes more of them sooner."""


def _finite_or_word(value: Any) -> Any:
    """The value; an Unfit for NaN or an infinity, and for a list with one."""
    worded = with_words(value)
    if worded is value:
        return value
    return Unfit(worded if isinstance(worded, str) else dumps(worded).decode(), WordedItems(worded))


def converters(
    columns: Sequence[ResultColumn], dialect: Dialect, *, integer_strings: Iterable[str] = ()
) -> Converters:
    """The functions, by position, that prepare the values of some columns for `dumps`."""
    as_strings = frozenset(integer_strings)
    return [
        (position, converter)
        for position, column in enumerate(columns)
        if (converter := str if column.name in as_strings else _converter(column, dialect))
    ]


def converted(rows: Rows, converters: Converters) -> Rows:
    """The rows with `converters` applied to all values but NULL; the same object if no value needs one."""
    # Most databases compute integers as integers: a look at the classes takes a tenth of a call for each cell.
    needed = [
        (place, converter)
        for place, converter in converters
        if converter is not _whole or Decimal in set(map(type, map(itemgetter(place), rows)))
    ]
    return [_converted(row, needed) for row in rows] if needed else rows


def with_texts(rows: Rows, positions: Sequence[int]) -> Rows:
    """The rows with the text of each value at these positions; the same object if there are no positions."""
    if not positions:
        return rows
    texts = [list(row) for row in rows]
    for row in texts:
        for position in positions:
            row[position] = None if row[position] is None else text(row[position])
    return texts


def _converted(row: Sequence[Any], converters: Converters) -> list[Any]:
    values = list(row)
    for position, converter in converters:
        value = values[position]
        if value is not None and type(value) is not Unfit:
            values[position] = converter(value)
    return values


def _converter(column: ResultColumn, dialect: Dialect) -> Converter | None:
    """The function that prepares a column's values for JSON; None for almost all types."""
    if column.is_computed and column.encoding == "integer":
        return _whole  # MariaDB computes sums of integers as decimals, and PostgreSQL fields of dates
    if column.meaning.reads is not None:
        cls = column.meaning.shown_class
        return partial(_writable, column) if cls is None else partial(_checked, column, cls)
    meanings = column.meanings
    # Values of these encodings have any class.
    is_open = bool(meanings.converters) and column.encoding in ("any", "json", "array")
    return meanings.converted if is_open else _type_converter(column.shown, dialect)


def _whole(value: Any) -> Any:
    """A whole decimal as an integer; any other value unchanged."""
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if is_whole else unfit(value)
    return value


def _checked(column: ResultColumn, cls: type[Any], value: Any) -> Any:
    """The value if it has the announced class, otherwise an Unfit."""
    is_zoned = column.meaning.is_zoned
    if is_instance(value, cls) and (is_zoned is None or (value.tzinfo is not None) is is_zoned):
        return value
    return Unfit(text(_writable(column, value)))


def _writable(column: ResultColumn, value: Any) -> Any:
    """A value of any class, if it has a JSON form."""
    if type(value) in (str, int, float, bool):
        return value
    converted = column.meanings.converted(value)
    try:
        dumps(converted)
    except ValueNotRepresentableError as error:
        from dualsql.formats.json_fallback import formless_error

        raise formless_error(column, converted, encoded) from error
    return converted


@lru_cache(256)
def _type_converter(type_: SQLType, dialect: Dialect) -> Converter | None:
    plain = stored_type(type_, dialect)
    if isinstance(plain, types.ARRAY):
        inner = _type_converter(plain.item_type, dialect)
        return None if inner is None else lambda values: _each(inner, values)
    if isinstance(plain, ranges.AbstractMultiRange):
        from dualsql.formats.ranges import multirange

        return lambda value: value if isinstance(value, str) else multirange(value)
    if isinstance(plain, types.Enum) and plain.enum_class is not None:
        # The string that the database holds, so that all formats and drivers give the same.
        stored: Converter = plain.bind_processor(dialect) or str  # type: ignore[no-untyped-call]
        return lambda value: stored(value) if isinstance(value, enum.Enum) else value
    return None


def _each(converter: Converter, values: Any) -> Any:
    if isinstance(values, list | tuple):
        return [_each(converter, value) for value in values]
    return None if values is None else converter(values)
