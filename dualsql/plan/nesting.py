"""A statement as a subquery of its own; the rule: the same rows and columns, in the same order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select
from sqlalchemy.sql.elements import ColumnClause

from dualsql.columns import ResultColumn
from dualsql.dialects import Capabilities
from dualsql.plan.keys import unlabelled
from dualsql.plan.keyset import carried_around
from dualsql.plan.options import with_criteria_of
from dualsql.plan.page import Ordered, ordered, whole
from dualsql.plan.shape import Shape
from dualsql.plan.ties import is_distinct, reads_row_by_row
from dualsql.statement import AnySelect


def reads_plainly(shape: Shape, columns: Iterable[ResultColumn]) -> bool:
    """Whether a condition on these columns can stand beside the author's own, and keeps the same rows there."""
    if shape.is_cut or is_distinct(shape.select) or not reads_row_by_row(shape.select):
        return False
    return all(_is_stored(column.expression) for column in columns)


def nested(shape: Shape, capabilities: Capabilities) -> Shape:
    """The statement as a subquery, in its author's order where that can be told from outside."""
    rows = ordered(shape, capabilities)
    outer = _outer(rows)
    inner = list(outer.selected_columns)
    columns = tuple(column.moved(element) for column, element in zip(shape.columns, inner, strict=True))
    return Shape(outer.with_only_columns(*(named(column) for column in columns)), columns)


def _outer(rows: Ordered) -> AnySelect:
    if rows.order.obstacle:
        cut = whole(rows)
        return with_criteria_of(cut, select(*cut.subquery("result").c))
    outer, keys = carried_around(rows, rows.order.keys)
    return outer.order_by(*(clause for key in keys for clause in key.clauses(rows.capabilities)))


def named(column: ResultColumn) -> Any:
    """The column under the name it has in the result, which told it from another one."""
    own = getattr(column.expression, "name", None)
    return column.expression if own == column.name else column.expression.label(column.name)


def _is_stored(expression: Any) -> bool:
    bare = unlabelled(expression)
    return isinstance(bare, ColumnClause) and not bare.is_literal and bare.table is not None
