"""Cut a page out of a Select; the rule: the same offset always means the same row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlalchemy import select

from dualsql.dialects import Capabilities
from dualsql.plan.keys import Order
from dualsql.plan.options import with_criteria_of
from dualsql.plan.order import IsMasked, never, order_of
from dualsql.plan.shape import Shape
from dualsql.plan.ties import distinct_on
from dualsql.statement import AnySelect
from dualsql_client.wire import SortKey


@dataclass(frozen=True)
class Ordered:
    """A statement with the order that its rows are read in."""

    shape: Shape
    order: Order
    capabilities: Capabilities

    @cached_property
    def arranged(self) -> AnySelect:
        """The statement in this order, without a window."""
        return self.shape.select.order_by(None).order_by(*self.order.clauses(self.capabilities))


def ordered(
    shape: Shape, capabilities: Capabilities, *, sort: Sequence[SortKey] = (), is_masked: IsMasked = never
) -> Ordered:
    """The statement in its author's order, or as `sort` asks.

    Raises:
        UnknownColumnError: a sort key names no column of the result.
    """
    if sort and (shape.is_cut or distinct_on(shape.select)):
        shape = _nested(shape, capabilities)
    return Ordered(shape, order_of(shape, capabilities, sort=sort, is_masked=is_masked), capabilities)


def page(rows: Ordered, *, offset: int, limit: int | None) -> AnySelect:
    """At most `limit` rows (None for all) from the row `offset` on, counted from 0 inside the author's own window."""
    shape = rows.shape
    return rows.arranged.limit(_remaining(shape, offset, limit)).offset(shape.offset + offset)


def whole(rows: Ordered) -> AnySelect:
    """All rows of the statement, in an order only where it decides which rows there are."""
    shape = rows.shape
    if shape.is_cut:
        return page(rows, offset=0, limit=None)
    return rows.arranged if distinct_on(shape.select) else shape.select.order_by(None)


def _remaining(shape: Shape, offset: int, limit: int | None) -> int | None:
    if shape.limit is None:
        return limit
    left = max(0, shape.limit - offset)
    return left if limit is None else min(limit, left)


def _nested(shape: Shape, capabilities: Capabilities) -> Shape:
    """The same rows as a subquery: another order must not change which rows the author's limit keeps."""
    cut = whole(ordered(shape, capabilities))
    inner = cut.subquery("result")
    columns = tuple(
        column.moved(expression) for column, expression in zip(shape.columns, inner.c, strict=True)
    )
    return Shape(with_criteria_of(cut, select(*inner.c)), columns)
