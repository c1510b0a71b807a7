"""Compares timestamps that a database stores as texts in several spellings.

See `Capabilities.spells_instants`. CURRENT_TIMESTAMP writes '2024-01-01 12:30:00', SQLAlchemy
'2024-01-01 12:30:00.000000', others write a T, a zone, or a date alone. As texts they compare wrongly. So each side of
a comparison is brought into one spelling, 'YYYY-MM-DD HH:MM:SS.ffffff' in UTC. A text without a zone is UTC. The text
itself is compared, too, with the days around the instant, which an index serves: all spellings begin with their date,
which is at most one day off the date in UTC.

The functions named here are dualsql's own: the database states the SQL that is sent for them
(`Capabilities.own_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, and_, func, or_, type_coerce, types
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ColumnClause, Label
from sqlalchemy.sql.functions import Function
from sqlalchemy.sql.selectable import ScalarSelect

from dualsql.columns.own_types import Element, stored_type
from dualsql.columns.result import ResultColumn

Compare = Callable[[Any, Any], Any]

FUNCTION = "dualsql_instant"
BEFORE, AFTER = "dualsql_days_before", "dualsql_days_after"

_SIDES: Mapping[Any, tuple[bool, bool]] = {
    operators.eq: (True, True),
    operators.lt: (False, True),
    operators.le: (False, True),
    operators.gt: (True, False),
    operators.ge: (True, False),
}
"""Whether the left side is bounded from below, and from above."""

_MOST_RANGES = 50
"""Of an IN, one for each value: databases nest an OR no deeper than they nest other expressions."""


_SQLITE = DefaultDialect()
_SQLITE.name = "sqlite"


def is_instant(element: Any) -> bool:
    """Whether its type has a date and a time of day."""
    return isinstance(stored_type(element.type, _SQLITE), types.DateTime)


def normalized_instant(element: Element) -> Element:
    """The element in the normalized spelling; a text that is not an instant stays unchanged."""
    element = element.element if isinstance(element, Label) else element
    if _is_in_one_spelling(element):
        return element
    if isinstance(element, ScalarSelect) and isinstance(element.element, Select):
        return _outputs_instants(element.element).scalar_subquery()
    call: Element = getattr(func, FUNCTION)(element, type_=element.type)
    return call


def instants(elements: Sequence[Any]) -> list[Any]:
    """The elements; if one of them is an instant, all in the normalized spelling."""
    return (
        [normalized_instant(element) for element in elements]
        if any(map(is_instant, elements))
        else list(elements)
    )


def selecting_instants(statement: Any) -> Any:
    """The statement with each instant among its outputs in the normalized spelling, under its name."""
    outputs = list(statement.selected_columns)
    if not any(map(is_instant, outputs)) or not isinstance(statement, Select):
        return statement
    return statement.with_only_columns(*map(labelled, outputs), maintain_column_froms=True)


def labelled(output: Element) -> Element:
    """An output; an instant is in the normalized spelling, under its name."""
    return normalized_instant(output).label(getattr(output, "name", None)) if is_instant(output) else output


def compared(compare: Compare, left: Element, right: Element) -> Element:
    """Whether `compare`, an operator, holds for the two instants."""
    above, below = _SIDES.get(compare, (False, False))
    bounds = [
        *(_bounds(left, right, above=above, below=below) if _is_column(left) else ()),
        *(_bounds(right, left, above=below, below=above) if _is_column(right) else ()),
    ]
    exact: Element = compare(normalized_instant(left), normalized_instant(right))
    return and_(*bounds, exact) if bounds else exact


def between(value: Element, low: Element, high: Element) -> Element:
    """Whether the instant is between the two, both included."""
    return and_(compared(operators.ge, value, low), compared(operators.le, value, high))


def is_one_of(value: Element, options: Sequence[Element]) -> Element:
    """Whether the instant is one of these."""
    if options and len(options) <= _MOST_RANGES:
        return or_(*(compared(operators.eq, value, option) for option in options))
    return normalized_instant(value).in_([normalized_instant(option) for option in options])


def _is_in_one_spelling(element: Any) -> bool:
    if not isinstance(element, Function):
        return False
    arguments = list(element.clauses)
    return element.name == FUNCTION or (
        element.name in ("min", "max") and bool(arguments) and all(map(_is_in_one_spelling, arguments))
    )


def _outputs_instants(statement: Select[Any]) -> Select[Any]:
    outputs = [normalized_instant(output) for output in statement.selected_columns]
    return statement.with_only_columns(*outputs, maintain_column_froms=True)


def _is_column(element: Any) -> bool:
    return isinstance(element, ColumnClause) and element.table is not None


def _bounds(column: Any, other: Element, *, above: bool, below: bool) -> list[Element]:
    operand = other.element if isinstance(other, Label) else other
    if isinstance(operand, ScalarSelect):
        return []  # it would be run three times
    text = type_coerce(column, types.String())
    bounds: list[Element] = []
    if above:
        bounds.append(text >= getattr(func, BEFORE)(operand, type_=types.String()))
    if below:
        bounds.append(text < getattr(func, AFTER)(operand, type_=types.String()))
    return bounds


def has_zone(column: ResultColumn, *, keeps_zones: bool) -> bool:
    """Whether the instants of a column are shown with a zone, on a database that `keeps_zones`."""
    is_zoned = column.meaning.is_zoned
    return keeps_zones and bool(getattr(column.shown, "timezone", False)) if is_zoned is None else is_zoned
