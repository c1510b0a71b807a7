"""Types with their user's code stay on their column; the rule: no expression reads foreign bytes through them.

Reading a PickleType unpickles. A document that put such a type on another column's content, by a cast, a
coalesce or a UNION, would run that content. So an expression whose type is not trusted must be its column, or
be made only of expressions with that very type.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.sql import elements, selectable
from sqlalchemy.sql.functions import FunctionElement

from dualsql.freeze.refusals import malformed
from dualsql.freeze.registry import Registry

# Functions that return one of their arguments as it is: even lower() makes other bytes of them.
_HANDING_ON = frozenset(
    {"max", "min", "coalesce", "ifnull", "any_value", "first_value", "last_value", "lag", "lead"}
)


def check(statement: Any, registry: Registry) -> None:
    """Raise MalformedError for a statement that puts an untrusted type on something else than its column."""
    if isinstance(statement, selectable.CompoundSelect):
        _check_compound(statement, registry)
    elif isinstance(statement, selectable.TextualSelect):
        for column in statement.column_args:
            if not registry.is_trusted(column.type):
                malformed("own type of a column on text")
    else:
        for column in statement._raw_columns:
            check_column(column, registry)


def check_column(column: Any, registry: Registry) -> None:
    """Raise MalformedError for a column of the result that reads foreign bytes through an untrusted type."""
    waiting = [column]
    while waiting:
        element = waiting.pop()
        kind = getattr(element, "type", None)
        if kind is None or registry.is_trusted(kind):
            continue
        operands = _operands(element)
        if operands is None or any(operand.type is not kind for operand in operands):
            malformed("own type of a column on something else")
        waiting += operands


def _operands(element: Any) -> list[Any] | None:
    """The expressions whose values this one hands on; None when it makes values of its own."""
    if isinstance(element, elements.ColumnClause):
        return [] if element.table is not None else None
    if isinstance(element, elements.BindParameter):
        return []
    if isinstance(element, elements.Label | elements.Grouping | elements.Over):
        return [element.element]
    if isinstance(element, selectable.ScalarSelect):
        columns: Any = element.element._all_selected_columns
        return list(columns)[:1]
    if isinstance(element, FunctionElement):
        return list(element.clauses) or None if element.name in _HANDING_ON else None
    if isinstance(element, elements.Case):
        results = [result for _, result in element.whens]
        return results if element.else_ is None else [*results, element.else_]
    return None


def _check_compound(statement: Any, registry: Registry) -> None:
    rows = [list(select._all_selected_columns) for select in statement.selects]
    for position, first in enumerate(rows[0]):
        for row in rows[1:]:
            if position >= len(row) or not _agree(first.type, row[position].type, registry):
                malformed("own type of a column in a union with something else")


def _agree(one: Any, other: Any, registry: Registry) -> bool:
    return one is other or (registry.is_trusted(one) and registry.is_trusted(other))
