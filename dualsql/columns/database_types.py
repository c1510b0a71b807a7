"""The types of values in databases that compare and bind a value with its exact type alone."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

from sqlalchemy import (
    BindParameter,
    Cast,
    ColumnElement,
    Function,
    Label,
    Null,
    Over,
    ScalarSelect,
    TypeCoerce,
    types,
)
from sqlalchemy.sql.elements import ClauseList, ColumnClause, FunctionFilter, Grouping
from sqlalchemy.sql.functions import FunctionElement

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.computed import states_no_type
from dualsql.columns.forecast import beneath, choices
from dualsql.columns.own_types import SQLType, plain_type
from dualsql.sqlalchemy_dialects import BIT, INTERVAL


def database_type(expression: ColumnElement[Any]) -> SQLType | None:
    """The type of the values in the database; None where SQLAlchemy guesses it.

    `x.op("<<")(y)` has the type of x to SQLAlchemy, and coalesce(date, timestamp) that of its first argument.
    """
    while isinstance(expression, TypeCoerce):  # which says what Python makes of the values
        expression = expression.clause
    visited: set[Any] = set()
    left: list[Any] = [expression]
    while left:
        part = left.pop()
        if part not in visited:
            visited.add(part)
            if _is_guessed(part):
                return None
            left += _operands(part)
    return expression.type


def _is_guessed(part: Any) -> bool:
    """Whether the database may give another type, though the types of all operands are right."""
    if any(states_no_type(getattr(part, place, None)) for place in ("operator", "modifier")):
        return _kind(part.type) == _kind(next(iter(part.get_children())).type)
    return any(_kind(value.type) != _kind(part.type) for value in _values(part) or [] if _is_typed(value))


def _operands(part: Any) -> Iterable[Any]:
    """The expressions that its type is made of; none where the type is stated."""
    if isinstance(part, Cast | BindParameter) or type(part) is Function:
        return ()
    values = _values(part)
    if values is not None:
        return values
    children = () if isinstance(part, ColumnClause) else part.get_children()
    return (child for child in children if isinstance(child, ColumnElement | ClauseList))


def _values(part: Any) -> list[Any] | None:
    """The parts that determine the type of an expression; None if it has its own type."""
    if isinstance(part, TypeCoerce):
        return [part.clause]
    if isinstance(part, Label | Grouping | Over):
        return [part.element]
    if isinstance(part, FunctionFilter):
        return [part.func]
    if isinstance(part, FunctionElement) and str(getattr(part, "name", "")).lower() in _OF_ONE:
        return list(part.clauses)
    return beneath(part) if isinstance(part, ColumnClause | ScalarSelect) else choices(part)


_OF_ONE = frozenset({"sum", "abs"})


def _is_typed(value: Any) -> bool:
    is_null = isinstance(value, Null | BindParameter) and isinstance(value.type, types.NullType)
    return isinstance(value, ColumnElement) and not is_null


def _kind(type_: SQLType) -> tuple[Any, ...]:
    plain = plain_type(type_)
    return internals.type_affinity(plain), bool(getattr(plain, "timezone", False))


def is_single(stored: SQLType) -> bool:
    """Whether a stored type has floats of four bytes."""
    if not isinstance(stored, types.Float) or isinstance(stored, types.Double):
        return False
    return stored.precision is None or stored.precision <= _MOST_BITS_OF_SINGLES


_MOST_BITS_OF_SINGLES = 24
"""FLOAT(1) to FLOAT(24) are four bytes in PostgreSQL and MariaDB: a single has 24 bits of significand (IEEE 754)."""


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
    other = copy(type_)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other
