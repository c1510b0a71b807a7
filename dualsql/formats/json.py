"""Rows as exact JSON; the rule: no digit is lost, and a value nobody declared is refused, not guessed."""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import types
from sqlalchemy.dialects.postgresql import Range
from sqlalchemy.engine import Dialect

from dualsql.columns import ResultColumn, SQLType, plain_type
from dualsql.errors import QueryExecutionError
from dualsql_client.wire import Column, Row

LARGEST_EXACT_INTEGER = 2**53
"""Beyond it, a reader that keeps numbers as doubles (JavaScript, many a model's host) loses digits."""

Converter = Callable[[Any], Any]
Converters = Sequence[tuple[int, Converter]]
Rows = Sequence[Sequence[Any]]


def dumps(value: object) -> bytes:
    """`value` as JSON: Decimals, dates, UUIDs, bytes and intervals as the wire's encodings say.

    Raises:
        QueryExecutionError: it holds a type that has no encoding.
    """
    try:
        return orjson.dumps(value, default=_encode, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except (TypeError, RecursionError):
        return _dumps_slowly(value)


def loads(encoded: bytes) -> Any:
    """Plain JSON values; whole numbers of any size stay exact."""
    return json.loads(encoded)


def describe(columns: Iterable[ResultColumn], *, integer_strings: Iterable[str] = ()) -> list[Column]:
    """The columns as announced on the wire, those in `integer_strings` written as strings."""
    as_strings = frozenset(integer_strings)
    described = [column.describe() for column in columns]
    for column in described:
        if column["name"] in as_strings:
            column["encoding"] = "integer-string"
    return described


def integer_columns(columns: Iterable[ResultColumn]) -> list[str]:
    """Names of the columns that hold whole numbers."""
    return [column.name for column in columns if column.describe()["encoding"] == "integer"]


def inexact_columns(columns: Sequence[ResultColumn], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Names of the integer columns in which `rows` hold a number that a double cannot."""
    wanted = frozenset(integer_columns(columns))
    return [
        column.name
        for position, column in enumerate(columns)
        if column.name in wanted and any(_is_inexact(row[position]) for row in rows)
    ]


def records(
    columns: Sequence[ResultColumn],
    rows: Sequence[Sequence[Any]],
    dialect: Dialect,
    *,
    integer_strings: Iterable[str] = (),
) -> list[Row]:
    """Rows as objects by column name, their values ready for `dumps`."""
    names = [column.name for column in columns]
    ready = converted(rows, converters(columns, dialect, integer_strings=integer_strings))
    # As many values as names in every row; asking zip to see to it takes a fifth of the time.
    return [dict(zip(names, row)) for row in ready]  # noqa: B905


def converters(
    columns: Sequence[ResultColumn], dialect: Dialect, *, integer_strings: Iterable[str] = ()
) -> Converters:
    """What must be done to some columns, by position, before `dumps` takes their values."""
    as_strings = frozenset(integer_strings)
    return [
        (position, converter)
        for position, column in enumerate(columns)
        if (converter := str if column.name in as_strings else _converter(column.type, dialect))
    ]


def converted(rows: Rows, converters: Converters) -> Rows:
    """The rows with `converters` applied to all values but NULL; the very same rows when there are none."""
    return [_converted(row, converters) for row in rows] if converters else rows


def _converted(row: Sequence[Any], converters: Converters) -> list[Any]:
    values = list(row)
    for position, converter in converters:
        if values[position] is not None:
            values[position] = converter(values[position])
    return values


def lines(records: Sequence[Row]) -> bytes:
    """The records as JSON objects, each on a line of its own; see `dumps`."""
    encoded = dumps(records)
    # Written as one array and cut where that is safe, which takes a third of the time of one call for each: every
    # brace begins a record, so that no text holds "},{".
    if encoded.count(b"{") == len(records):
        return encoded[1:-1].replace(b"},{", b"}\n{") + b"\n" if records else b""
    return b"".join([dumps(record) + b"\n" for record in records])


def _converter(type_: SQLType, dialect: Dialect) -> Converter | None:
    """What must be done to a column's values before JSON; nothing for almost all types."""
    plain = plain_type(type_)
    if isinstance(plain, types.ARRAY):
        inner = _converter(plain.item_type, dialect)
        return None if inner is None else lambda values: _each(inner, values)
    if isinstance(plain, types.Enum) and plain.enum_class is not None:
        # The string the database holds, so that every way to read the column gives the same.
        stored: Converter = plain.bind_processor(dialect) or str  # type: ignore[no-untyped-call]
        return lambda value: stored(value) if isinstance(value, enum.Enum) else value
    return None


def _each(converter: Converter, values: Any) -> Any:
    if isinstance(values, list | tuple):
        return [_each(converter, value) for value in values]
    return None if values is None else converter(values)


def _is_inexact(value: Any) -> bool:
    return isinstance(value, int) and not -LARGEST_EXACT_INTEGER <= value <= LARGEST_EXACT_INTEGER


def _encode(value: Any) -> Any:
    for classes, encoder in _ENCODERS:
        if isinstance(value, classes):
            return encoder(value)
    raise TypeError(f"no JSON encoding for {type(value).__name__}")


def _decimal(value: Decimal) -> str | None:
    return format(value, "f") if value.is_finite() else None


def _interval(value: dt.timedelta) -> str:
    sign = "-" if value < dt.timedelta() else ""
    size = abs(value)
    minutes, seconds = divmod(size.seconds, 60)
    fraction = f".{size.microseconds:06d}".rstrip("0") if size.microseconds else ""
    return f"{sign}P{size.days}DT{minutes // 60}H{minutes % 60}M{seconds}{fraction}S"


_ENCODERS: tuple[tuple[type[Any] | tuple[type[Any], ...], Converter], ...] = (
    (Decimal, _decimal),
    (UUID, str),
    ((bytes, bytearray, memoryview), lambda value: b64encode(value).decode("ascii")),
    (dt.timedelta, _interval),
    ((dt.datetime, dt.date, dt.time), lambda value: value.isoformat()),
    (Range, str),
    ((set, frozenset, tuple), list),
    (
        (
            ipaddress.IPv4Address,
            ipaddress.IPv6Address,
            ipaddress.IPv4Network,
            ipaddress.IPv6Network,
            ipaddress.IPv4Interface,
            ipaddress.IPv6Interface,
        ),
        str,
    ),
)


def _dumps_slowly(value: object) -> bytes:
    """For what orjson refuses: whole numbers beyond 64 bits inside a JSON column."""
    try:
        compact = (",", ":")  # as orjson writes, which those who cut the text rely on
        finite = _finite(value)
        return json.dumps(
            finite, default=_encode, ensure_ascii=False, allow_nan=False, separators=compact
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise QueryExecutionError(
            "A value of the result has no JSON form.",
            hint="CAST that column to text, or give it a TypeDecorator that returns plain values.",
        ) from error


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
