"""Types of a dialect's module of SQLAlchemy, as they are bound, and the classes of ranges."""

from copy import copy
from typing import Any

from sqlalchemy import types

from dualsql.sqlalchemy_dialects import BIT, INTERVAL, ranges

__all__ = ["ranges", "without_digits"]


def without_digits(type_: Any) -> Any:
    """The type without the digits that it declares: a cast of a value to it changes nothing.

    SQLAlchemy casts each bound value to the type of the column beside it, and NUMERIC(10, 2) would round 1.005.
    """
    if isinstance(type_, types.ARRAY):
        items = without_digits(type_.item_type)
        return type_ if items is type_.item_type else _changed(type_, item_type=items)
    if isinstance(type_, BIT):
        return _changed(type_, varying=True, length=None)
    if isinstance(type_, types.Float):
        return type_  # the digits are those of the class of numbers
    if isinstance(type_, types.Numeric):
        return _changed(type_, precision=None, scale=None)
    if isinstance(type_, INTERVAL):
        return _changed(type_, precision=None, fields=None)
    is_precise = (
        isinstance(type_, types.DateTime | types.Time) and getattr(type_, "precision", None) is not None
    )
    return _changed(type_, precision=None) if is_precise else type_


def _changed(type_: Any, **attributes: Any) -> Any:
    found = copy(type_)
    vars(found).update(attributes)
    return found
