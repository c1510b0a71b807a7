"""Derive count, sample and page; the rule: a Select in, a Select out, never a connection.

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

from dualsql.plan.carrying import CarriedOrders, relation_in_order
from dualsql.plan.count import count, uncounted
from dualsql.plan.entities import written_out
from dualsql.plan.keyset import KeyedSelect, keyed_page, page_beside, require_keyset, rows_beside
from dualsql.plan.nesting import named, nested, reads_plainly
from dualsql.plan.options import with_criteria_of
from dualsql.plan.order import require_order
from dualsql.plan.page import Ordered, ordered, page, whole
from dualsql.plan.places import Place, place_ahead, place_behind
from dualsql.plan.sampling import even_ranks, scattered, spread, tail
from dualsql.plan.shape import Shape, at_most, shape

__all__ = [
    "CarriedOrders",
    "KeyedSelect",
    "Ordered",
    "Place",
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
    "place_ahead",
    "place_behind",
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
