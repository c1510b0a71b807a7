"""The order of a relation in the statements around it.

A relation has the keys of its order in hidden columns. A SELECT whose rows are rows of such relations keeps their
order, after its own ORDER BY if it has one, also through WITH and subqueries. Otherwise
`SELECT * FROM data LIMIT 15 OFFSET 15` would repeat rows of the first 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import FromClause, Join, Select, select
from sqlalchemy.sql.functions import FunctionElement

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.plan.derived import FreeNames
from dualsql.plan.keys import Key, split_modifiers
from dualsql.plan.order import CLOCK, INEXACT
from dualsql.plan.other_statements import with_modifiers
from dualsql.plan.page import Ordered, all_rows
from dualsql.plan.shape import is_distinct, merges_rows

Clauses = Callable[[Any], list[Any]]
"""The ORDER BY of a key, by the column that carries it."""


@dataclass(frozen=True)
class CarriedOrders:
    """The orders of the relations of one statement.

    Attributes:
        prefix: the beginning of the names of hidden columns, which no other name has; empty for none.
        clauses: the ORDER BY of each key, by the name of its hidden column.
        is_aggregate: whether a function is an aggregate.
    """

    prefix: str = ""
    clauses: dict[str, Clauses] = field(default_factory=dict)
    is_aggregate: Callable[[FunctionElement[Any]], bool] = lambda _: True

    def in_order(self, statement: Any) -> Any:
        """The statement in its own order, then in the order of its relations."""
        return statement.order_by(*self._carried_order(statement))

    def in_order_unless_limited(self, statement: Any) -> Any:
        """As `in_order`, unless the statement has a limit, which was handled already."""
        return statement if internals.has_row_limit(statement) else self.in_order(statement)

    def carrying(self, statement: Any) -> Any:
        """The statement with its order in hidden columns, for an outer statement."""
        if not self._carried_order(statement):
            return statement
        new_columns = []
        for clause in internals.order_by_clauses(self.in_order_unless_limited(statement)):
            base, modifiers = split_modifiers(clause)
            new_columns.append(base.label(self.name(partial(_modified, modifiers))))
        return statement.add_columns(*new_columns)

    def name(self, clauses: Clauses) -> str:
        """A new name for a hidden column whose ORDER BY is `clauses`."""
        name = f"{self.prefix}{len(self.clauses) + 1}"
        self.clauses[name] = clauses
        return name

    def _carried_order(self, statement: Any) -> list[Any]:
        """The order of the relations that it reads; empty if its rows are not rows of these relations."""
        if not self.clauses or not isinstance(statement, Select):
            return []
        columns = (column for source in internals.final_froms(statement) for column in _columns(source))
        hidden_columns = [column for column in columns if column.name in self.clauses]
        if not hidden_columns or is_distinct(statement) or merges_rows(statement, self.is_aggregate):
            return []
        return [clause for column in hidden_columns for clause in self.clauses[column.name](column)]


def relation_in_order(rows: Ordered, name: str, text: str) -> tuple[FromClause, CarriedOrders]:
    """The statement as a subquery with its order in hidden columns, and its columns under the names of the result.

    Args:
        text: every name and text in the outer statements. It does not contain the names of the hidden columns.
    """
    prefix = _free_prefix(["order", *(column.name for column in rows.shape.columns), text])
    orders = CarriedOrders(prefix)
    # An inexact or changing value still sorts within one statement; it only cannot continue a page in another one.
    sortable = rows.order.keys if rows.order.obstacle in ("", INEXACT, CLOCK) else ()
    keys = {orders.name(partial(_clauses, key, rows.capabilities)): key.expression for key in sortable}
    carried = all_rows(rows).add_columns(*(key.label(hidden) for hidden, key in keys.items()))
    free = FreeNames(carried)
    inner = carried.subquery(free.take(name))
    # SQLAlchemy may rename a column of a subquery: the text that reads it uses the result's names.
    labels = [*(column.name for column in rows.shape.columns), *keys]
    if [column.name for column in inner.c] != labels:
        columns = (column.label(label) for column, label in zip(inner.c, labels, strict=True))
        inner = select(*columns).subquery(free.take(name))
    return inner, orders


def _free_prefix(names: Sequence[str]) -> str:
    """A prefix that occurs in none of the names."""
    prefix, text = "order_", " ".join(names).lower()
    while prefix in text:
        prefix += "_"
    return prefix


def _modified(modifiers: Sequence[Any], column: Any) -> list[Any]:
    return [with_modifiers(column, modifiers)]


def _clauses(key: Key, capabilities: Capabilities, column: Any) -> list[Any]:
    return key._replace(expression=column, author_clause=None, is_nullable=True).clauses(capabilities)


def _columns(source: FromClause) -> Iterator[Any]:
    if isinstance(source, Join):
        yield from _columns(source.left)
        yield from _columns(source.right)
    else:
        yield from source.c
