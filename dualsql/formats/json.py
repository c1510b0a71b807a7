"""Values as exact JSON. All digits are kept, and a value without a JSON form is refused."""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
from base64 import b64encode
from collections.abc import Callable, Collection
from contextlib import suppress
from decimal import Decimal
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any
from uuid import UUID

import orjson

from dualsql.columns.exact import PIECE_CHARACTERS, Digits, Unfit, decoded
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats.text import duration
from dualsql.sqlalchemy_dialects import Range
from dualsql_client.wire import Row

Converter = Callable[[Any], Any]


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
        return orjson.dumps(value, default=encode, option=_options(has_odd_times=has_odd_times))
    except (TypeError, RecursionError):
        from dualsql.formats.json_fallback import dumps_slowly

        return dumps_slowly(value, encode)


def _options(*, has_odd_times: bool) -> int:
    # orjson would write each field of a dataclass, where the encoder decides whether it has a JSON form.
    return orjson.OPT_PASSTHROUGH_DATACLASS | (orjson.OPT_PASSTHROUGH_DATETIME if has_odd_times else 0)


def text(value: Any) -> str:
    """A value as in CSV: as in JSON, without quotes, and with words for NaN and the infinities."""
    if isinstance(value, str):
        return value
    if isinstance(value, Unfit):
        return value.text
    data = dumps(with_words(value))
    return str(orjson.loads(data)) if data.startswith(b'"') else data.decode()


def unfit(value: Any) -> Unfit | None:
    """The cell that holds a value that does not fit its column, with the text of CSV; None if it has no JSON form."""
    if isinstance(value, Unfit):
        return value
    with suppress(ValueNotRepresentableError):
        return Unfit(text(value), value)
    return None


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


def read_back(records: list[Row], *, has_odd_times: bool = True) -> list[Row] | None:
    """What `loads` reads of the `dumps` of the records; None if these have to say it.

    They have for whole numbers that a double cannot hold, and for what orjson alone does not write.
    """
    option = _options(has_odd_times=has_odd_times) | orjson.OPT_STRICT_INTEGER
    try:
        text = orjson.dumps(records, default=_encoded_exactly, option=option)
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
