"""Texts as values. Texts are bounded before they are converted, and a failure is a ValueError.

Python's own conversions raise several kinds of errors, and some take unbounded time: int() refuses more than 4,300
digits, Decimal("sNaN") fails only when it is compared, and 1E+999999999 takes gigabytes when it is written out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any
from uuid import UUID

LONGEST = 400
"""Characters of a number, a date or a UUID."""
MOST_DIGITS = 1_000
"""The most digits before or after the point of a number without an exponent."""
MOST_DIGITS_STORED = 150_000
"""The same for a number out of a database: PostgreSQL's numeric has up to 131,072 digits before its point."""
MOST_COUNTED = 2**63
"""Numbers of rows are smaller."""

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def parse_whole(text: str, least: int, most: int) -> int:
    """The whole number that `text` is in decimal digits.

    Raises:
        ValueError: `text` is no whole number, or it is not between `least` and `most`.
    """
    short = _short(text)
    if not _WHOLE.fullmatch(short):
        raise ValueError("not a whole number")
    number = int(short)
    if not least <= number <= most:
        raise ValueError("not between the bounds")
    return number


def whole_or_none(text: str, most: int) -> int | None:
    """The number from 0 to `most` that `text` is, without a sign; None for anything else."""
    try:
        return parse_whole(text, 0, most) if text[:1].isdigit() else None
    except ValueError:
        return None


def parse_integer(text: str) -> int:
    """The whole number that `text` is, of whatever size its characters allow; ValueError for anything else."""
    return int(_numeral(text))


def parse_decimal(text: str) -> Decimal:
    """The exact number that `text` is, NaN and the infinities included; ValueError for anything else."""
    try:
        number = Decimal(_numeral(text))
    except ArithmeticError as error:
        raise ValueError("not a number") from error
    if number.is_snan() or (number.is_finite() and abs(number.adjusted()) > MOST_DIGITS):
        raise ValueError("not a number that can be written out")
    return number


def stored_decimal(text: str | int) -> Decimal:
    """The exact number that `text` is, with as many digits as a database may hold; an error of `Decimal` otherwise.

    This runs for each cell of a column, so it makes only two checks, after the conversion.
    """
    number = Decimal(text)
    if not -MOST_DIGITS_STORED < number.adjusted() < MOST_DIGITS_STORED or number.is_snan():
        raise ValueError("not a number that can be written out")
    if type(text) is not str and type(text) is not int:  # Decimal(0.1) has 55 digits, which were not sent
        raise TypeError("no text, and no whole number")
    return number


def stored_integer(text: str | int) -> int:
    """The whole number that `text` is; ValueError for more digits than Python converts, TypeError for no text."""
    if type(text) is not str and type(text) is not int:  # int(5.7) is 5
        raise TypeError("no text, and no whole number")
    return int(text)


def is_count(value: object) -> bool:
    """Whether it is a number of rows: an integer from 0 to 63 bits, and not a bool."""
    return type(value) is int and 0 <= value < MOST_COUNTED


def require_storable(value: object) -> None:
    """Refuse values that no database accepts, also inside lists and objects.

    Raises:
        ValueError: a whole number beyond 64 bits, a number that cannot be written out, a text with a NUL character or
            half a surrogate pair.
    """
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
        elif not _is_storable(item):
            raise ValueError("no value that a database takes")


def _is_storable(value: object) -> bool:
    if isinstance(value, str):
        # isascii() reads a flag; half a surrogate pair cannot be encoded.
        return "\x00" not in value and (value.isascii() or bool(value.encode()))
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, Decimal):
        return not value.is_snan() and abs(value.adjusted()) <= MOST_DIGITS
    return True


def parse_real(text: str) -> float:
    """The floating-point number that `text` is; ValueError for anything else."""
    return float(_numeral(text))


def day(text: str) -> date:
    """The date that `text` is in ISO 8601; ValueError for anything else."""
    return date.fromisoformat(_short(text))


def clock(text: str) -> time:
    """The time of day that `text` is in ISO 8601; ValueError for anything else."""
    return time.fromisoformat(_short(text))


def parse_instant(text: str) -> datetime:
    """The date and time that `text` is in ISO 8601; ValueError for anything else."""
    return datetime.fromisoformat(_short(text))


def identifier(text: str) -> UUID:
    """The UUID that `text` is; ValueError for anything else."""
    return UUID(_short(text))


def _short(text: Any) -> str:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ValueError("no text, or a long one")
    return text


def _numeral(text: Any) -> str:
    """The text, unless it writes a number as only Python does: 1_000, or digits of other scripts."""
    short = _short(text)
    if "_" in short or not short.isascii():
        raise ValueError("no number of a database")
    return short


def read_instant(value: object) -> datetime | None:
    """An ISO 8601 string or a datetime as an aware datetime; None for anything else.

    A time without an offset is UTC, as on the server.
    """
    if isinstance(value, str):
        try:
            value = parse_instant(value)
        except ValueError:
            return None
    return _aware(value) if isinstance(value, datetime) else None


def read_http_date(text: str | None) -> datetime | None:
    """A date of an HTTP header (RFC 9110, 5.6.7), aware; None for anything else."""
    if not text or len(text) > LONGEST:
        return None
    try:
        return _aware(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):  # an offset of many digits is an OverflowError
        return None


def _aware(moment: datetime) -> datetime | None:
    """The time with its zone; None when it has no UTC: in the first and last hours of the calendar, with an offset."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return None
    return moment


_MOST_PARAMETERS = 50
_LONGEST_PARAMETER = 200


def parameter_details(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The `details` of INVALID_PARAMETERS: `received`, values by name, and `expected`, types by name.

    Args:
        schema: of a tool's input.

    Long values are cut, and become text.
    """
    properties = schema.get("properties")
    expected = list(properties.items()) if isinstance(properties, Mapping) else []
    return {
        "received": {name: _shorten(value) for name, value in list(arguments.items())[:_MOST_PARAMETERS]},
        "expected": {str(name): type_word(part) for name, part in expected[:_MOST_PARAMETERS]},
    }


def type_word(schema: Any) -> str:
    """The type of a property in a JSON Schema, such as `string`, or `array or string`."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind is None and isinstance(schema, Mapping):
        choices = schema.get("anyOf")
        kind = [type_word(each) for each in choices] if isinstance(choices, list) else None
    words = kind if isinstance(kind, list) else [kind or "any"]
    return " or ".join(str(word) for word in words if word != "null") or "any"


def _shorten(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= _LONGEST_PARAMETER else f"{text[:_LONGEST_PARAMETER]}…"
