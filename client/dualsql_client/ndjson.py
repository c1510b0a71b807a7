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
"""As many as a whole number beyond 64 bits has at least."""


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
    # A line of half a row or of two would be seen in the number; what is between the brackets is a list.
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
            pass  # json reads some things more: numbers beyond a double, deeper nesting
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

    NULL stays None. JSON, text and columns of unknown encoding stay as they came, and so do "infinity" and "-infinity",
    which no date can hold, and the cells that a row names under UNFIT_KEY: texts of what their columns do not declare.

    Raises:
        ParseError: a value is not what its column's encoding says.
    """
    odd = [row for row in rows if UNFIT_KEY in row]
    kept = [{name: row[name] for name in _unfit(row)} for row in odd]
    for row, texts in zip(odd, kept, strict=True):
        row.update(dict.fromkeys(texts))
    for column in columns:
        if decode := decoder(column):
            _decode_column(rows, column, decode)
    for row, texts in zip(odd, kept, strict=True):
        row.update(texts)
    return rows


def _unfit(row: Row) -> list[str]:
    named = row[UNFIT_KEY]
    return (
        [name for name in named if isinstance(name, str) and name in row] if isinstance(named, list) else []
    )


def decoder(column: Column) -> Decode | None:
    """The function for the values of one column; None when they are right as JSON has them."""
    encoding = column["encoding"]
    if encoding == "array":
        return _array_decoder(column.get("items", "any"))
    if encoding == "any" and column["type"] == "date":
        # A server of the pattern that describes no encodings: a date is told from a timestamp by its text.
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


def _array_decoder(items: Encoding) -> Decode | None:
    decode = _DECODERS.get(items)
    return partial(_decode_array, decode) if decode else None


def _decode_array(decode: Decode, value: Any) -> Any:
    if value is None:
        return None
    # An array of several dimensions is an array of arrays, with one encoding for the values at the bottom.
    return [_decode_array(decode, item) for item in value] if isinstance(value, list) else decode(value)


def _interval(written: str) -> timedelta:
    match = _DURATION.fullmatch(written)
    if match is None or written[-1] in "PT":
        raise ValueError("not an ISO 8601 duration of days and seconds")
    days, hours, minutes = (int(match[part] or 0) for part in ("days", "hours", "minutes"))
    microseconds = int(Decimal(match["seconds"] or 0).scaleb(6))
    length = timedelta(days=days, hours=hours, minutes=minutes, microseconds=microseconds)
    return -length if match["sign"] == "-" else length


def _date_or_text(written: Any) -> Any:
    if not isinstance(written, str):
        return written
    try:
        return date.fromisoformat(written) if len(written) == 10 else datetime.fromisoformat(written)
    except ValueError:
        return written


def _or_infinity(read: Decode) -> Decode:
    def decode(written: Any) -> Any:
        try:
            return read(written)
        except ValueError:
            if written in INFINITIES:
                return written
            raise

    return decode


_DECODERS: Mapping[Encoding, Decode] = {
    "integer-string": stored_integer,
    "float": float,
    "decimal": stored_decimal,
    "date": _or_infinity(date.fromisoformat),
    "time": time.fromisoformat,
    "datetime": _or_infinity(datetime.fromisoformat),
    "interval": _interval,
    "uuid": UUID,
    "base64": partial(b64decode, validate=True),
}
