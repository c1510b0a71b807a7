"""Rows as exact JSON. All digits are kept, and a value without a JSON form is refused."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import operator
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache, cached_property, lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from operator import itemgetter
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql.columns.exact import PIECE_CHARACTERS, Digits, decoded
from dualsql.columns.own_types import SQLType, is_instance, stored_type
from dualsql.columns.result import ResultColumn, is_sqlalchemys_own
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats.cells import Unfit, WordedItems
from dualsql.formats.text import duration
from dualsql.formats.writer import ExactRows, PlainColumns, Rows
from dualsql.sqlalchemy_dialects import Range, ranges
from dualsql_client.wire import Column, Row

Converter = Callable[[Any], Any]
Converters = Sequence[tuple[int, Converter]]


def encoded(value: Any) -> Any:
    """Convert a value that orjson does not know, as `dualsql_client.wire.Encoding` defines."""
    for classes, encoder in _ENCODERS:
        if isinstance(value, classes):
            return encoder(value)
    raise TypeError(f"no JSON encoding for {type(value).__name__}")


def dumps(value: object, encode: Converter = encoded, *, has_odd_times: bool = True) -> bytes:
    """`value` as JSON: Decimals, dates, UUIDs, bytes and intervals as `dualsql_client.wire.Encoding` defines.

    Args:
        encode: called for each value that orjson does not know.
        has_odd_times: whether Python has to write its times and dates; see `are_odd_times`.

    Raises:
        ValueNotRepresentableError: it contains a type without an encoding.
    """
    try:
        # orjson would write each field of a dataclass, where `encode` decides whether it has a JSON form.
        option = _WITH_TIMES if has_odd_times else orjson.OPT_PASSTHROUGH_DATACLASS
        return orjson.dumps(value, default=encode, option=option)
    except (TypeError, RecursionError):
        from dualsql.formats.json_fallback import dumps_slowly

        return dumps_slowly(value, encode)


_WITH_TIMES = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def text(value: Any) -> str:
    """A value as in CSV: as in JSON, without quotes, and with words for NaN and the infinities."""
    if isinstance(value, str):
        return value
    if isinstance(value, Unfit):
        return value.text
    data = dumps(with_words(value))
    return str(orjson.loads(data)) if data.startswith(b'"') else data.decode()


def is_finite(value: float | Decimal) -> bool:
    """Whether a number is neither NaN nor an infinity. math.isfinite takes Decimal("1E+400") for an infinity."""
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def number_word(value: float | Decimal) -> str:
    """NaN or an infinity, as PostgreSQL spells it."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def with_words(value: Any) -> Any:
    """The value with words for NaN and the infinities in it; the same object if it has none."""
    if isinstance(value, dict):
        items = _with_words(value.values())
        return value if items is None else dict(zip(value, items, strict=True))
    if isinstance(value, list | tuple):
        items = _with_words(value)
        return value if items is None else items
    is_odd = isinstance(value, float | Decimal) and not isinstance(value, Digits) and not is_finite(value)
    return number_word(value) if is_odd else value


def _with_words(values: Collection[Any]) -> list[Any] | None:
    """The values, `with_words`; None if all are finite. A sum is ten times as fast as a look at each."""
    with suppress(TypeError, ArithmeticError, ValueError):
        total = sum(filter(None, values))
        if total - total == 0:
            return None
    items = [with_words(value) if isinstance(value, _OF_NUMBERS) else value for value in values]
    return None if all(map(operator.is_, items, values)) else items


_OF_NUMBERS = (float, Decimal, list, tuple, dict)


def read_back(records: list[Row]) -> list[Row] | None:
    """What `loads` reads of the `dumps` of the records; None if these have to say it.

    They have for whole numbers that a double cannot hold, and for what orjson alone does not write.
    """
    try:
        text = orjson.dumps(records, default=_encoded_exactly, option=orjson.OPT_STRICT_INTEGER | _WITH_TIMES)
        plain: list[Row] = orjson.loads(text)
    except (TypeError, RecursionError):
        return None
    return plain


def _encoded_exactly(value: Any) -> Any:
    if isinstance(value, Digits):
        raise TypeError("a number of any length")
    return encoded(value)


def loads(encoded: bytes) -> Any:
    """Read JSON. Whole numbers stay exact, and a number beyond the range of floats becomes None."""
    text = encoded.decode()
    return _PLAIN_READER.decode(text) if len(text) <= PIECE_CHARACTERS else decoded(text, _PLAIN_READER)


# Not orjson, which makes a float of a whole number beyond 64 bits.
_PLAIN_READER = json.JSONDecoder(parse_float=lambda text: one if math.isfinite(one := float(text)) else None)


def integer_columns(columns: Iterable[ResultColumn]) -> list[str]:
    """Names of the columns that hold whole numbers."""
    return [column.name for column in columns if column.encoding == "integer"]


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
        records, has_odd_times = self.page_records(rows)
        return lines(records, has_odd_times=has_odd_times)

    def _with_words(self, rows: Rows) -> Rows:
        # orjson writes null for NaN and the infinities, which JSON does not have.
        odd = [place for place in self._numbers if _with_words(list(map(itemgetter(place), rows)))]
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


def lines(records: Sequence[Row], encode: Converter = encoded, *, has_odd_times: bool = True) -> bytes:
    """The records as JSON objects, each on a line of its own; see `dumps`."""
    from dualsql.formats.row_objects import object_lines

    return object_lines(records, lambda value: dumps(value, encode, has_odd_times=has_odd_times))


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
        return int(value) if is_whole else Unfit.of(value)
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


@cache  # an import for each range would take longer than its text
def _range_writer() -> Converter:
    from dualsql.formats.ranges import range_text

    return range_text


_ENCODERS: tuple[tuple[type[Any] | tuple[type[Any], ...], Converter], ...] = (
    (Decimal, lambda value: format(value, "f") if value.is_finite() else None),
    ((dt.datetime, dt.date, dt.time), operator.methodcaller("isoformat")),
    (Digits, lambda value: orjson.Fragment(value.text)),
    (Unfit, lambda value: value.text),
    (UUID, str),
    ((bytes, bytearray, memoryview), lambda value: b64encode(value).decode("ascii")),
    (dt.timedelta, duration),
    (Range, lambda value: _range_writer()(value)),  # noqa: PLW0108 - the module is loaded with the first range
    ((set, frozenset, tuple), list),
    # Interfaces are addresses.
    ((IPv4Address, IPv6Address, IPv4Network, IPv6Network), str),
)
