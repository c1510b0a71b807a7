"""A result in a requested order."""

from __future__ import annotations

from collections.abc import Sequence

from dualsql.capabilities import Capabilities
from dualsql.plan.order import IsMasked, order_of
from dualsql.plan.page import Ordered
from dualsql.plan.shape import Shape, distinct_on
from dualsql_client.wire import SortKey


def ordered(
    shape: Shape,
    capabilities: Capabilities,
    *,
    sort: Sequence[SortKey] = (),
    is_masked: IsMasked = lambda _: False,
) -> Ordered:
    """The statement in the order of `sort`, then in its author's order; raises what `order_of` raises."""
    if sort and (shape.is_cut or distinct_on(shape.select)):
        from dualsql.plan.derived import nested

        # As a subquery: another order must not change which rows the author's limit keeps.
        shape = nested(shape, capabilities, is_descending=sort[-1].get("order") == "desc")
    return Ordered(shape, order_of(shape, capabilities, sort, is_masked), capabilities)
