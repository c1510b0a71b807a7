"""Derive count, sample and page. A Select in, a Select out, never a connection.

    entities  mapped classes as the columns that their rows have
    shape     any statement as a plain Select, its author's limit set aside
    order     the keys its rows are put in order by; ties, constancy: what makes the order total, what spoils it
    page      rows from an offset on
    keyset    rows beside a place; places: the gaps between rows; beyond: the conditions
    count     how many there are
    nesting   the statement as a subquery of its own
    carrying  the order of a subquery, kept by the statements around it
    sampling  rows that are not the first ones

READ IN THIS ORDER.
"""

from dualsql.plan.entities import written_out
from dualsql.plan.keyset import (
    KeyedSelect,
    KeysetPosition,
    keyed_page,
    page_beside,
    position_ahead,
    position_behind,
    require_keyset,
    rows_beside,
)
from dualsql.plan.order import require_order
from dualsql.plan.page import Ordered, count, ordered, page, uncounted, whole
from dualsql.plan.sampling import even_ranks, scattered, spread, tail
from dualsql.plan.shape import Shape, at_most, shape, with_criteria_of
from dualsql.plan.subqueries import CarriedOrders, named, nested, reads_plainly, relation_in_order

__all__ = [
    "CarriedOrders",
    "KeyedSelect",
    "KeysetPosition",
    "Ordered",
    "Shape",
    "at_most",
    "count",
    "even_ranks",
    "keyed_page",
    "named",
    "nested",
    "ordered",
    "page",
    "page_beside",
    "position_ahead",
    "position_behind",
    "reads_plainly",
    "relation_in_order",
    "require_keyset",
    "require_order",
    "rows_beside",
    "scattered",
    "shape",
    "spread",
    "tail",
    "uncounted",
    "whole",
    "with_criteria_of",
    "written_out",
]
