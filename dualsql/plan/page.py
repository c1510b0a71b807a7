"""Cut a page out of a Select; the rule: the same offset always means the same row."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from dualsql.columns import ResultColumn
from dualsql.dialects import Capabilities
from dualsql.errors import UnknownColumnError
from dualsql.plan.options import with_criteria_of
from dualsql.plan.order import distinct_on, requested_order, total_order
from dualsql.plan.shape import Shape
from dualsql.statement import AnySelect
from dualsql_client.wire import SortKey


def page(
    shape: Shape, capabilities: Capabilities, *, offset: int, limit: int | None, sort: Sequence[SortKey] = ()
) -> AnySelect:
    """At most `limit` rows (None for all) from the row `offset` on, counted from 0 inside the author's own window.

    Raises:
        UnknownColumnError: a sort key names no column of the result.
    """
    if sort and (shape.is_cut or distinct_on(shape.select)):
        shape = _nested(shape, capabilities)
    named = {column.name: column for column in shape.columns}
    _require_known(sort, named)
    keys = requested_order(shape, sort, named, capabilities) + total_order(shape, capabilities)
    ordered = shape.select.order_by(None).order_by(*keys)
    return ordered.limit(_remaining(shape, offset, limit)).offset(shape.offset + offset)


def _remaining(shape: Shape, offset: int, limit: int | None) -> int | None:
    if shape.limit is None:
        return limit
    left = max(0, shape.limit - offset)
    return left if limit is None else min(limit, left)


def _nested(shape: Shape, capabilities: Capabilities) -> Shape:
    """The same rows as a subquery: another order must not change which rows the author's limit keeps."""
    ordered = shape.select.order_by(None).order_by(*total_order(shape, capabilities))
    cut = ordered.limit(shape.limit).offset(shape.offset or None)
    inner = cut.subquery("result")
    columns = tuple(
        ResultColumn(column.name, expression, column.type)
        for column, expression in zip(shape.columns, inner.c, strict=True)
    )
    return Shape(with_criteria_of(cut, select(*inner.c)), columns)


def _require_known(sort: Sequence[SortKey], named: dict[str, ResultColumn]) -> None:
    for key in sort:
        if key["field"] not in named:
            raise UnknownColumnError(key["field"], list(named))
