"""Which columns the keys in GROUP BY determine, for databases that have to be told. Loaded with the first GROUP BY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from sqlalchemy.sql import elements, visitors

from dualsql import sqlalchemy_internals as internals

_SUPERAGGREGATES = frozenset({"rollup", "cube", "grouping_sets"})


def determined_columns(groups: Sequence[Any], select: Any, is_under_rule: Callable[[Any], bool]) -> list[Any]:
    """Columns of the SELECT, outside its GROUP BY, whose table's whole primary key is in it.

    Args:
        groups: the elements of its GROUP BY.
        is_under_rule: whether a relation is a table that a SELECT replaces.
    """
    # Under ROLLUP, CUBE and GROUPING SETS the key is NULL in some groups and determines no columns there.
    parts = chain.from_iterable(map(visitors.iterate, groups))
    if any(getattr(part, "name", None) in _SUPERAGGREGATES for part in parts):
        return []
    grouped = {_identity(column) for column in groups} - {None}
    having, order = internals.having_criteria(select), internals.order_by_clauses(select)
    dependent: dict[Any, Any] = {}
    column: Any
    for column in chain.from_iterable(map(visitors.iterate, [*select.inner_columns, *having, *order])):
        key = _identity(column)
        if key and key not in grouped and is_under_rule(column.table):
            keys = {_identity(part) for part in column.table.primary_key}
            if keys and keys <= grouped:
                dependent.setdefault(key, column)
    return list(dependent.values())


def _identity(column: Any) -> Any:
    """A key that is equal for all forms of one column of one source, or None for anything else."""
    source = getattr(column, "table", None)
    if not isinstance(column, elements.ColumnClause) or source is None or column.is_literal:
        return None
    return id(internals.unannotated(source)), column.key
