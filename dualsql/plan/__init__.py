"""Derives counts, samples and pages from a Select. Each function takes a Select and returns one, without a connection.

    normal_form       one form of a Select, cache keys that differ
    joins             the left side of a join that SQLAlchemy would guess
    words             DISTINCT as a prefix or a function, text around the columns
    entities          the columns that the rows of mapped classes have, written out
    other_statements  set operations and text() as a Select
    keys              sort keys and their order
    shape             any statement as a plain Select of unique names, its author's limit, how it reads its sources
    order             a total order: the requested keys, the author's, and those that break ties
    page              a statement and its order, rows from an offset on, the count
    keyset            rows before or after a keyset position, and the seek predicate that finds them
    requested         a result in a requested order
    derived           a result as a subquery in its own order, with some of its columns, or with types of the database
    sampling          rows that are not the first ones

Read in this order.
"""

from dualsql.plan.keyset import (
    KeysetPosition as KeysetPosition,
    page_beside as page_beside,
    position_ahead as position_ahead,
    position_behind as position_behind,
    require_keyset as require_keyset,
    rows_beside as rows_beside,
)
from dualsql.plan.page import (
    KeyedSelect as KeyedSelect,
    Ordered as Ordered,
    all_rows as all_rows,
    count as count,
    page as page,
    page_parameters as page_parameters,
    uncounted as uncounted,
    windowed as windowed,
)
from dualsql.plan.requested import ordered as ordered
from dualsql.plan.shape import Shape as Shape, shape as shape, written_out as written_out
