"""What queries over a result need: the statement as a subquery, and its order in the outer statement.

A relation has the keys of its order in hidden columns. A SELECT whose rows are rows of such relations keeps their
order, after its own ORDER BY if it has one, also through WITH and subqueries. Otherwise
`SELECT * FROM data LIMIT 15 OFFSET 15` would repeat rows of the first 15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlalchemy import Cast, FromClause, Join, Select, Subquery, TextualSelect, select, types
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BinaryExpression, ColumnClause
from sqlalchemy.sql.functions import FunctionElement

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.forecast import function_name
from dualsql.columns.result import ResultColumn
from dualsql.freeze.document import AnyCompound, AnySelect, Statement
from dualsql.freeze.names import FreeNames
from dualsql.plan.keys import Key, clauses_of, column_identity, split_modifiers, unlabelled, with_modifiers
from dualsql.plan.keyset import carried_around
from dualsql.plan.order import (
    CLOCK,
    INEXACT,
    is_distinct,
    is_table,
    leaves_of,
    merges_rows,
    reads_row_by_row,
    row_identity,
)
from dualsql.plan.other_statements import select_from_text
from dualsql.plan.outputs import with_criteria_of
from dualsql.plan.page import Ordered, all_rows, ordered
from dualsql.plan.shape import Shape, own_window


def reads_plainly(shape: Shape, columns: Iterable[ResultColumn]) -> bool:
    """Whether a condition on these columns can be added to the author's WHERE with the same effect."""
    if shape.is_cut or is_distinct(shape.select) or not reads_row_by_row(shape.select):
        return False
    return all(_is_stored(column.expression) for column in columns)


def converts_values(statement: AnySelect) -> bool:
    """Whether it computes values in a way that may fail for some rows, such as a CAST."""
    return any(map(_may_fail, internals.elements_of(statement)))


def _may_fail(part: Any) -> bool:
    if isinstance(part, Cast):
        return not isinstance(part.type, types.String)
    if isinstance(part, BinaryExpression):
        return not operators.is_comparison(part.operator)
    return isinstance(part, FunctionElement) and function_name(part) in _CONVERTING


_CONVERTING = frozenset(
    """json jsonb make_date make_interval make_time make_timestamp make_timestamptz strptime to_date to_number
    to_timestamp""".split()
)


def sole_key(select: AnySelect) -> Callable[[Any], bool] | None:
    """A function that recognizes columns with a different value in each row; None if there may be none."""
    leaves = list(leaves_of(select))
    if len(leaves) != 1 or not is_table(leaves[0]) or not row_identity(select):
        return None
    keys = list(leaves[0].primary_key)
    return lambda expression: (
        len(keys) == 1 and column_identity(unlabelled(expression)) == column_identity(keys[0])
    )


def at_most(statement: Statement, limit: int) -> Statement:
    """The first `limit` rows of the statement.

    Raises:
        NoTotalOrderError: its own limit is not a plain number.
    """
    plain = select_from_text(statement) if isinstance(statement, TextualSelect) else statement
    own, _ = own_window(plain)
    return plain.fetch(None).limit(limit if own is None else min(own, limit))


def nested(shape: Shape, capabilities: Capabilities) -> Shape:
    """The statement as a subquery, in its author's order if that can be expressed outside of it."""
    rows = ordered(shape, capabilities)
    outer = _outer(rows)
    inner = list(outer.selected_columns)
    columns = tuple(column.moved(element) for column, element in zip(shape.columns, inner, strict=True))
    return Shape(outer.with_only_columns(*(with_label(column) for column in columns)), columns)


def _outer(rows: Ordered) -> AnySelect:
    name = FreeNames(rows.shape.select).take("result")
    # Without keys, an outer statement cannot express the order. A LIMIT inside keeps its rows all the same.
    if rows.order.obstacle:
        cut = all_rows(rows)
        return with_criteria_of(cut, select(*cut.subquery(name).c))
    outer, keys = carried_around(rows, rows.order.keys, name)
    return outer.order_by(*clauses_of(keys, rows.capabilities))


def as_subquery(statement: AnySelect | AnyCompound, name: str) -> Subquery:
    """The statement as a subquery of that name, or of one like it that no source in the statement has."""
    return statement.subquery(FreeNames(statement).take(name))


def with_label(column: ResultColumn) -> Any:
    """The column under its unique name in the result."""
    own = getattr(column.expression, "name", None)
    return column.expression if own == column.name else column.expression.label(column.name)


def _is_stored(expression: Any) -> bool:
    bare = unlabelled(expression)
    return isinstance(bare, ColumnClause) and not bare.is_literal and bare.table is not None


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

    def in_order_unless_cut(self, statement: Any) -> Any:
        """As `in_order`, unless the statement has a limit, which was handled already."""
        return statement if internals.has_row_limit(statement) else self.in_order(statement)

    def carrying(self, statement: Any) -> Any:
        """The statement with its order in hidden columns, for an outer statement."""
        if not self._carried_order(statement):
            return statement
        new_columns = []
        for clause in internals.order_by_clauses(self.in_order_unless_cut(statement)):
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
    return replace(key, expression=column, author_clause=None, is_nullable=True).clauses(capabilities)


def _columns(source: FromClause) -> Iterator[Any]:
    if isinstance(source, Join):
        yield from _columns(source.left)
        yield from _columns(source.right)
    else:
        yield from source.c
