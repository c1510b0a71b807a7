"""JSON of values that orjson refuses, and errors for values without a JSON form. Loaded with the first such value."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import orjson
from sqlalchemy import types

from dualsql.columns.exact import Digits
from dualsql.columns.result import ResultColumn
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats.text import INT64_BOUND, LARGEST_EXACT_INTEGER
from dualsql.formats.writer import Rows

Encoder = Callable[[Any], Any]
"""Converts a value that orjson does not know, as `dualsql.formats.json.encoded` does."""


def dumps_slowly(value: object, encode: Encoder) -> bytes:
    """JSON of values that orjson refuses: integers beyond 64 bits, deep nesting in a JSON column, times with a zone.

    Raises:
        ValueNotRepresentableError: it contains a type without an encoding.
    """
    try:
        plain = _plainly(value, encode)
        try:
            return orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS)
        except TypeError:  # too deep
            compact = (",", ":")  # as orjson: code that cuts the text relies on it
            return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=compact).encode()
    except (TypeError, ValueError, RecursionError) as error:
        column, part = _named_part(value, encode)
        raise ValueNotRepresentableError(
            f"The column {column!r} holds a value of the class {type(part).__name__[:80]}, which has no JSON form."
            if column
            else "A value of the result has no JSON form.",
            hint="Leave that column out, or CAST it to text.",
            details={"column": column} if column else {},
        ) from error


def _named_part(value: Any, encode: Encoder) -> tuple[str, Any]:
    """The first part of rows without a JSON form, and its column; no name for a single value."""
    with suppress(RecursionError):
        if isinstance(value, dict | list | tuple):
            return next(_unknown_parts(value, encode), ("", value))
    return "", value


def _plainly(value: Any, encode: Encoder) -> Any:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, dict):
        return {_key(key): _plainly(item, encode) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plainly(item, encode) for item in value]
    # orjson refuses integers beyond 64 bits.
    if type(value) is int and not -INT64_BOUND <= value < INT64_BOUND:
        return orjson.Fragment(str(value))
    if isinstance(value, float) and type(value) is not Digits:
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | orjson.Fragment):
        return value
    return _plainly(encode(value), encode)


def _key(key: Any) -> Any:
    # orjson rounds zones; see `dualsql.formats.row_objects.are_odd_times`.
    return key.isoformat() if isinstance(key, dt.date | dt.time) else key


def inexact_columns(columns: Sequence[ResultColumn], rows: Rows) -> list[str]:
    """Names of the integer columns in which `rows` have a number that a double cannot hold exactly."""
    return [
        column.name
        for column, cells in zip(columns, zip(*rows))  # noqa: B905 - no rows have no cells
        if column.encoding == "integer"
        and any(abs(cell) > LARGEST_EXACT_INTEGER for cell in cells if isinstance(cell, int))
    ]


def require_writable(columns: Sequence[ResultColumn], rows: Rows, encode: Encoder) -> None:
    """Check that all values of converted `rows` have a JSON form.

    Raises:
        ValueNotRepresentableError: a value has none. The error names its column and class.
    """
    for position, column in enumerate(columns):
        for row in rows:
            try:
                dumps_slowly(row[position], encode)
            except ValueNotRepresentableError as error:
                raise formless_error(column, row[position], encode) from error


def formless_error(column: ResultColumn, value: Any, encode: Encoder) -> ValueNotRepresentableError:
    """The error for a value that has, or contains, a part without a JSON form."""
    cls = type(next(_unknown_parts(value, encode), ("", value))[1]).__name__
    convert = f"Register a converter: Registry(..., converters={{{cls[:80]}: function}})."
    is_untyped = isinstance(column.type, types.NullType)
    announced = "" if is_untyped else f", announced as {type(column.type).__name__},"
    return ValueNotRepresentableError(
        f"The column {column.name[:80]!r}{announced} holds a value of the class {cls[:80]}, which has no JSON form.",
        hint="Leave that column out, or CAST it to text.",
        developer_hint=f"Give the column its type, as in func.int4range(1, 5, type_=INT4RANGE). {convert}"
        if is_untyped
        else convert,
        details={"column": column.name, "class": cls[:80]},
    )


def _unknown_parts(
    value: Any, encode: Encoder, column: str = "", *, is_row: bool = False
) -> Iterator[tuple[str, Any]]:
    """The parts of a value without a JSON form, each with its column: the key in the object that is in a list."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _unknown_parts(part, encode, column or (str(key)[:80] if is_row else ""))
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _unknown_parts(part, encode, column, is_row=True)
    else:
        try:
            dumps_slowly(value, encode)
        except ValueNotRepresentableError:
            yield column, value
