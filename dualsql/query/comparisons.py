"""Comparisons with the values of a question, and how texts are compared exactly."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BindParameter, ColumnElement, and_

from dualsql.capabilities import QueryDialect
from dualsql.columns.own_types import SQLType

Element = ColumnElement[Any]


def bound(value: Any, type_: SQLType) -> Element:
    """A value as a parameter."""
    return BindParameter(None, value, type_=type_, unique=True)


def equal(abilities: QueryDialect, text: Element, value: Element) -> Element:
    """Equal to the letter; an index still finds all that may be."""
    exact = abilities.exact(text)
    return exact == value if abilities.finds_equal_by_index else and_(text == value, exact == value)


def one_of(abilities: QueryDialect, text: Element, values: Any) -> Element:
    """Equal to the letter with one of several."""
    exact = abilities.exact(text)
    return exact.in_(values) if abilities.finds_equal_by_index else and_(text.in_(values), exact.in_(values))
