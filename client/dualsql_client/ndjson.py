"""Rows from NDJSON, and Python values from their cells."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any
from uuid import UUID

from dualsql_client.conversions import stored_decimal, stored_integer
from dualsql_client.errors import FetchError, ParseError
from dualsql_client.framing import Block
from dualsql_client.wire import INFINITIES, UNFIT_KEY, Column, Encoding, Row

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * 19
"""The fewest digits of a whole number beyond 64 bits."""


def rows_of(block: Block) -> list[Row]:
    """The rows of whole lines.

    Raises:
        FetchError: a line is no JSON object.
    """
    array = b"[" + block.data[:-1].replace(b"\n", b",") + b"]"
    try:
        rows = _loads(array)
    except (ValueError, RecursionError):
        raise _no_rows() from None
    # The number differs if a line has half a row or two rows.
    if len(rows) != block.rows or not all(type(row) is dict for row in rows):
        raise _no_rows()
    return rows


def _loads(array: bytes) -> list[Any]:
    rows: list[Any]
    fast_loads = _fast_loads()
    if fast_loads is not None and _MANY_DIGITS not in array.translate(_ZEROS):
        try:
            rows = fast_loads(array)
        except ValueError:
            pass  # json accepts more: numbers beyond a double, deeper nesting
        else:
            return rows
    rows = json.loads(array)
    return rows


@cache
def _fast_loads() -> Callable[[bytes], Any] | None:
    try:
        from orjson import loads
    except ImportError:  # the extra is not installed
        return None
    return loads


def _no_rows() -> FetchError:
    return FetchError("The stream's lines are not rows in JSON.", status=200)


Decode = Callable[[Any], Any]

# What the decoders below raise for a value of another kind: UUID(5) is an AttributeError, Decimal("x") an
# ArithmeticError, an array of a thousand dimensions a RecursionError.
_WRONG_VALUE = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)

_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>-?\d{1,15})D)?"
    r"(?:T(?:(?P<hours>-?\d{1,15})H)?(?:(?P<minutes>-?\d{1,15})M)?(?:(?P<seconds>-?\d{1,15}(?:\.\d{1,6})?)S)?)?",
    re.ASCII,
)


def decode_rows(rows: list[Row], columns: Sequence[Column]) -> list[Row]:
    """Replace JSON values, in place, by Decimal, datetime, date, time, timedelta, UUID, bytes, int or float.

    Unchanged are NULL (None), JSON, text, columns of unknown encoding, "infinity" and "-infinity", which no date can
    hold, and the cells that a row lists under UNFIT_KEY: texts of values that do not fit the type of their column.

    Raises:
        ParseError: a value does not fit its column's encoding.
    """
    odd = [row for row in rows if UNFIT_KEY in row]
    unfit = [{name: row[name] for name in _unfit_columns(row)} for row in odd]
    for row, texts in zip(odd, unfit, strict=True):
        row.update(dict.fromkeys(texts))
    for column in columns:
        if decode := decoder(column):
            _decode_column(rows, column, decode)
    for row, texts in zip(odd, unfit, strict=True):
        row.update(texts)
    return rows


def _unfit_columns(row: Row) -> list[str]:
    names = row[UNFIT_KEY]
    return (
        [name for name in names if isinstance(name, str) and name in row] if isinstance(names, list) else []
    )


def decoder(column: Column) -> Decode | None:
    """The function for the values of one column; None when JSON's values remain."""
    encoding = column["encoding"]
    if encoding == "array":
        decode = _DECODERS.get(column.get("items", "any"))
        return partial(_decode_array, decode) if decode else None
    if encoding == "any" and column["type"] == "date":
        # Another server of the pattern, without encodings: the text shows whether it is a date or a timestamp.
        return _date_or_text
    return _DECODERS.get(encoding)


def _decode_column(rows: list[Row], column: Column, decode: Decode) -> None:
    name = column["name"]
    try:
        for row in rows:
            value = row.get(name)
            if value is not None:
                row[name] = decode(value)
    except _WRONG_VALUE as error:
        raise ParseError(
            f"Column {name[:80]!r} holds a value that is not written as {column['encoding']!r}.",
            hint="Fetch with typed=False to see the values as they were sent.",
            details={"column": name, "encoding": column["encoding"]},
        ) from error


def _decode_array(decode: Decode, value: Any) -> Any:
    if value is None:
        return None
    # An array of several dimensions is an array of arrays, with one encoding for the innermost values.
    return [_decode_array(decode, item) for item in value] if isinstance(value, list) else decode(value)


def _interval(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None or text[-1] in "PT":
        raise ValueError("not an ISO 8601 duration of days and seconds")
    days, hours, minutes = (int(match[part] or 0) for part in ("days", "hours", "minutes"))
    microseconds = int(Decimal(match["seconds"] or 0).scaleb(6))
    length = timedelta(days=days, hours=hours, minutes=minutes, microseconds=microseconds)
    return -length if match["sign"] == "-" else length


def _date_or_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    except ValueError:
        return value


def _with_infinity(decode_number: Decode) -> Decode:
    def decode(value: Any) -> Any:
        try:
            return decode_number(value)
        except ValueError:
            if value in INFINITIES:
                return value
            raise

    return decode


_DECODERS: Mapping[Encoding, Decode] = {
    "integer-string": stored_integer,
    "float": float,
    "decimal": stored_decimal,
    "date": _with_infinity(date.fromisoformat),
    "time": time.fromisoformat,
    "datetime": _with_infinity(datetime.fromisoformat),
    "interval": _interval,
    "uuid": UUID,
    "base64": partial(b64decode, validate=True),
}
