"""Timestamps that SQLite keeps as texts of several spellings, compared by what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, type_coerce, types
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ColumnClause, Label
from sqlalchemy.sql.functions import Function
from sqlalchemy.sql.selectable import ScalarSelect

from dualsql.columns.own_types import plain_type

Element = ColumnElement[Any]
Compare = Callable[[Any, Any], Any]

FUNCTION = "dualsql_instant"
_BEFORE, _AFTER = "dualsql_days_before", "dualsql_days_after"

_CANONICAL = "'????-??-?? ??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]'"
_OF_CURRENT_TIMESTAMP = "'????-??-?? ??:??:??'"
_BEGINS_WITH_DATE = "'[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'"

_SIDES: Mapping[Any, tuple[bool, bool]] = {
    operators.eq: (True, True),
    operators.lt: (False, True),
    operators.le: (False, True),
    operators.gt: (True, False),
    operators.ge: (True, False),
}
"""Whether the left side is bounded from below, and from above."""

_MOST_RANGES = 50
"""Of an IN, one for each value: SQLite nests an OR no deeper than it nests other expressions."""


def is_instant(element: Any) -> bool:
    """Whether it has a time of day."""
    return isinstance(plain_type(element.type), types.DateTime)


def instant(element: Element) -> Element:
    """The element in the one spelling; a text that no instant is stays as it is."""
    element = element.element if isinstance(element, Label) else element
    if _is_in_one_spelling(element):
        return element
    if isinstance(element, ScalarSelect) and isinstance(element.element, Select):
        return _outputs_instants(element.element).scalar_subquery()
    made: Element = getattr(func, FUNCTION)(element, type_=element.type)
    return made


def instants(elements: Sequence[Any]) -> list[Any]:
    """The elements; where one of them is an instant, all in the one spelling."""
    return [instant(element) for element in elements] if any(map(is_instant, elements)) else list(elements)


def selecting_instants(statement: Any) -> Any:
    """The statement with each output that is an instant in the one spelling, under its name."""
    outputs = list(statement.selected_columns)
    if not any(map(is_instant, outputs)) or not isinstance(statement, Select):
        return statement
    return statement.with_only_columns(*map(labelled, outputs), maintain_column_froms=True)


def labelled(output: Element) -> Element:
    """An output; one that is an instant in the one spelling, under its own name."""
    return instant(output).label(getattr(output, "name", None)) if is_instant(output) else output


def compared(compare: Compare, left: Element, right: Element) -> Element:
    """Whether `compare`, an operator, holds for the two instants."""
    above, below = _SIDES.get(compare, (False, False))
    bounds = [
        *(_bounds(left, right, above=above, below=below) if _is_column(left) else ()),
        *(_bounds(right, left, above=below, below=above) if _is_column(right) else ()),
    ]
    exact: Element = compare(instant(left), instant(right))
    return and_(*bounds, exact) if bounds else exact


def between(value: Element, low: Element, high: Element) -> Element:
    """Whether the instant lies between the two, both included."""
    return and_(compared(operators.ge, value, low), compared(operators.le, value, high))


def one_of(value: Element, options: Sequence[Element]) -> Element:
    """Whether the instant is one of these."""
    if options and len(options) <= _MOST_RANGES:
        return or_(*(compared(operators.eq, value, option) for option in options))
    return instant(value).in_([instant(option) for option in options])


def _one_spelling(x: str) -> str:
    """SQL for the one spelling of the text that `x`, SQL itself, gives."""
    zone = f"ltrim(substr({x}, 20), '.0123456789')"
    digits = f"CASE WHEN substr({x}, 20, 1) = '.' THEN substr({x}, 21, length({x}) - 20 - length({zone})) ELSE '' END"
    seconds = f"strftime('%Y-%m-%d %H:%M:%S', substr({x}, 1, 19) || {zone})"
    return (
        f"CASE WHEN {x} GLOB {_CANONICAL} THEN {x}"
        f" WHEN {x} GLOB {_OF_CURRENT_TIMESTAMP} THEN {x} || '.000000'"
        f" WHEN {x} GLOB {_BEGINS_WITH_DATE}"
        f" THEN coalesce({seconds} || '.' || substr({digits} || '000000', 1, 6), {x}) ELSE {x} END"
    )


RENDERED: Mapping[str, Callable[[str], str]] = {
    FUNCTION: _one_spelling,
    # Two dates in local time are at most two days apart, whatever their zones.
    _BEFORE: lambda x: _day(x, "-2 days", "''"),
    _AFTER: lambda x: _day(x, "+3 days", "char(1114111)"),  # after every other text
}
"""The functions of a statement, and of a document, that SQLite does not have, and the SQL that is sent for them."""


def _is_in_one_spelling(element: Any) -> bool:
    if not isinstance(element, Function):
        return False
    arguments = list(element.clauses)
    return element.name == FUNCTION or (
        element.name in ("min", "max") and bool(arguments) and all(map(_is_in_one_spelling, arguments))
    )


def _outputs_instants(statement: Select[Any]) -> Select[Any]:
    outputs = [instant(output) for output in statement.selected_columns]
    return statement.with_only_columns(*outputs, maintain_column_froms=True)


def _is_column(element: Any) -> bool:
    return isinstance(element, ColumnClause) and element.table is not None


def _bounds(column: Any, other: Element, *, above: bool, below: bool) -> list[Element]:
    given = other.element if isinstance(other, Label) else other
    if isinstance(given, ScalarSelect):
        return []  # it would be run three times
    text = type_coerce(column, types.String())
    found: list[Element] = []
    if above:
        found.append(text >= getattr(func, _BEFORE)(given, type_=types.String()))
    if below:
        found.append(text < getattr(func, _AFTER)(given, type_=types.String()))
    return found


def _day(x: str, days: str, otherwise: str) -> str:
    shifted = f"coalesce(date(substr({x}, 1, 10), '{days}'), {otherwise})"
    return f"CASE WHEN {x} GLOB {_BEGINS_WITH_DATE} THEN {shifted} ELSE {otherwise} END"
