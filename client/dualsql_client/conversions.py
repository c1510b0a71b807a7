"""Texts of others as values: bounded before they are converted, and ValueError is the only error.

Python's own conversions raise several kinds of errors, and some of them work for as long as the text allows:
int() refuses more than 4,300 digits, Decimal("sNaN") is made and fails at its first comparison, and 1E+999999999
takes gigabytes when it is written out.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

LONGEST = 400
"""Characters of a number, a date or a UUID."""
MOST_DIGITS = 1_000
"""Digits before or behind the point that a number may have once its exponent is written out."""

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def whole(text: str, least: int, most: int) -> int:
    """The whole number of decimal digits that `text` is.

    Raises:
        ValueError: it is none, or is not between `least` and `most`.
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
        return whole(text, 0, most) if text[:1].isdigit() else None
    except ValueError:
        return None


def integer(text: str) -> int:
    """The whole number that `text` is, of whatever size its characters allow; ValueError for anything else."""
    return int(_short(text))


def decimal(text: str) -> Decimal:
    """The exact number that `text` is, NaN and the infinities included; ValueError for anything else."""
    try:
        number = Decimal(_short(text))
    except ArithmeticError as error:
        raise ValueError("not a number") from error
    if number.is_snan() or (number.is_finite() and abs(number.adjusted()) > MOST_DIGITS):
        raise ValueError("not a number that can be written out")
    return number


def real(text: str) -> float:
    """The floating-point number that `text` is; ValueError for anything else."""
    return float(_short(text))


def day(text: str) -> date:
    """The date that `text` is in ISO 8601; ValueError for anything else."""
    return date.fromisoformat(_short(text))


def clock(text: str) -> time:
    """The time of day that `text` is in ISO 8601; ValueError for anything else."""
    return time.fromisoformat(_short(text))


def instant(text: str) -> datetime:
    """The date and time that `text` is in ISO 8601; ValueError for anything else."""
    return datetime.fromisoformat(_short(text))


def identifier(text: str) -> UUID:
    """The UUID that `text` is; ValueError for anything else."""
    return UUID(_short(text))


def _short(text: Any) -> str:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ValueError("no text, or a long one")
    return text
