"""Count the rows of a Select; the rule: it has one row, one column, and no ORDER BY to pay for."""

from __future__ import annotations

from sqlalchemy import func, select

from dualsql.plan.options import with_criteria_of
from dualsql.plan.shape import Shape
from dualsql.statement import AnySelect


def count(shape: Shape) -> AnySelect:
    """SELECT count(*) over the statement, inside its author's own limit and offset."""
    # Which rows a LIMIT keeps depends on the order; how many does not.
    unordered = shape.select.order_by(None)
    if shape.is_cut:
        unordered = unordered.limit(shape.limit).offset(shape.offset or None)
    counted = select(func.count()).select_from(unordered.subquery("result"))
    return with_criteria_of(unordered, counted)
