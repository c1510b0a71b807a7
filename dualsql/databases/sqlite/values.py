"""Numbers of NUMERIC columns of SQLite with all of their digits.

SQLite stores such a number as an integer of 64 bits or as a double, whatever precision and scale the column declares.
SQLAlchemy formats it with the digits of the scale, by way of a double: 21.989 becomes 21.99 in NUMERIC(10, 2), and
9007199254740993 becomes 9007199254740992. Zeros are added here as the scale declares them; no digit is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql.capabilities import DriverValues

_INT64 = 2**63


class ExactNumeric(types.Numeric[Any]):
    """A decimal, as the number that is stored."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return _stored

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        if not self.asdecimal:
            return None
        return _decimal if self.scale is None else _reader(self.scale)


class ExactFloat(types.Float[Any]):
    """A double; as a decimal, with the digits that tell it from others."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _decimal if self.asdecimal else None


def _stored(value: Any) -> Any:
    if not isinstance(value, Decimal) or not value.is_finite():
        return value if value is None or isinstance(value, int) else float(value)
    is_whole = value == value.to_integral_value() and -_INT64 <= value < _INT64
    return int(value) if is_whole else float(value)


def _decimal(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, int):
        return Decimal(value)
    if value is None:
        return None
    raise TypeError("SQLite holds a value that is no number")


def _reader(scale: int) -> Callable[[Any], Any]:
    """A function that makes a decimal, with zeros up to the scale, of a number that is stored."""
    zeros, longest = "0" * scale, _MOST_DIGITS - scale

    def read(value: Any) -> Any:
        # Most numbers have a short text without an exponent. Zeros behind it take half the time of a sum of decimals.
        kind = type(value)
        text = repr(value) if kind is float else f"{value}." if kind is int else ""
        point = text.find(".") + 1
        if point and value and "e" not in text and len(text) < longest:
            return Decimal(text + zeros[len(text) - point :])
        return _with_zeros(_decimal(value), scale)

    return read


def _with_zeros(value: Any, scale: int) -> Any:
    if value is None or not value.is_finite() or -value.as_tuple().exponent >= scale:
        return value
    return value + Decimal((0, (0,), -scale)) if value.adjusted() < _MOST_DIGITS - scale else value


_MOST_DIGITS = 28
"""Of Python's context: a sum with more digits would be rounded."""

VALUES = DriverValues(types={types.Numeric: ExactNumeric, types.Float: ExactFloat})
