"""Expressions that several databases need, and the types that they store."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Dialect, collate, make_url, type_coerce, types
from sqlalchemy.sql.elements import Grouping

from dualsql.capabilities import KeyForm
from dualsql.columns.own_types import Element, SQLType, stored_type, without_driver
from dualsql.columns.result import DriverValue


def raw_form(expression: Element, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value, without SQLAlchemy's types."""
    bare = type_coerce(grouped(expression), DriverValue())
    return KeyForm(compared=bare, read=bare, carried=expression, bind=parameter)


@cache
def _dialect(name: str) -> Dialect:
    return without_driver(make_url(f"{name}://").get_dialect()())


def stored_in(database: str, type_: SQLType) -> SQLType:
    """The type that a database stores for a type, by SQLAlchemy's name of the database's dialect."""
    return stored_type(type_, _dialect(database))


def parameter(value: Any, type_: SQLType = types.NULLTYPE) -> Element:
    """A bound value; without a type it takes the type of the other operand."""
    return BindParameter(None, value, type_=type_, unique=True)


def grouped(expression: Element) -> Element:
    """The expression in parentheses, unless it is a plain column: `a IS NULL > 0` has another meaning."""
    return expression if getattr(expression, "table", None) is not None else Grouping(expression)


def collated(text: Element, collation: str) -> Element:
    """The text under a collation.

    It is no value of an application's own type any more: a document can hold such a type for its column only.
    """
    is_plain = isinstance(text.type, types.String) and not isinstance(text.type, types.Enum)
    return collate(text if is_plain else type_coerce(text, types.String()), collation)
