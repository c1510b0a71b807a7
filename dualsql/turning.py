"""Turn to a page of a view, by offset or by cursor; the rule: has_next and has_previous are seen, never computed.

One row more than asked for tells whether there is a further page in the direction of reading. In the other
direction lies the row that the cursor was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dualsql import plan
from dualsql.cursors import Cursor, Cursors, Scope
from dualsql.execute import Rows
from dualsql.plan import KeyedSelect, Place
from dualsql.resource import Principal
from dualsql.view import View
from dualsql_client.wire import PageOrder, SortKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAsked:
    """Which rows are asked for.

    Attributes:
        cursor: as a page gave it, instead of an offset.
    """

    limit: int
    offset: int = 0
    sort: Sequence[SortKey] = ()
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The rows of one page, and where it stands.

    Attributes:
        offset: number of the first row; by a cursor, counted from the page that gave it.
        is_counted: the offset was counted from the first row, in this reading.
        next_cursor, previous_cursor: None at the ends, and where no cursor can be given.
    """

    rows: Rows
    offset: int
    is_counted: bool
    has_next: bool
    has_previous: bool
    order: PageOrder
    next_cursor: str | None
    previous_cursor: str | None


async def turn_to(
    asked: PageAsked, view: View, cursors: Cursors, *, resource_id: str, principal: Principal | None
) -> Turn:
    """The page that is asked for.

    Raises:
        UnknownColumnError: a sort key names no column of the result.
        NoTotalOrderError, BadCursorError: a cursor was given, and there can be none, or it is not a good one.
        QueryExecutionError, QueryTimeoutError, DatabaseBusyError: the database refused, or took too long.
    """
    rows = view.ordered(asked.sort)
    scope = Scope(resource_id=resource_id, order=rows.order.fingerprint(), principal=principal)
    if asked.cursor is None:
        start = None
        select = plan.keyed_page(rows, offset=asked.offset, limit=asked.limit + 1)
    else:
        plan.require_keyset(rows)
        start = cursors.read(asked.cursor, scope)
        select = plan.page_beside(rows, start.place, limit=asked.limit + 1)
    found = await view.fetch(select.select)
    leaf = _leaf(found, asked, start)
    width = len(view.columns)
    return Turn(
        rows=[row[:width] for row in leaf.rows] if select.is_keyed else leaf.rows,
        offset=leaf.offset,
        is_counted=start is None,
        has_next=leaf.has_next,
        has_previous=leaf.has_previous,
        order="total" if rows.order.is_total else "partial",
        next_cursor=cursors.write(_next(leaf, select, start), scope),
        previous_cursor=cursors.write(_previous(leaf, select, start), scope),
    )


class _Leaf(NamedTuple):
    rows: Rows
    offset: int
    has_previous: bool
    has_next: bool


def _leaf(found: Rows, asked: PageAsked, start: Cursor | None) -> _Leaf:
    """The rows in the order of reading, without the one too many, and where they are."""
    rows, has_more = found[: asked.limit], len(found) > asked.limit
    if start is None:
        return _Leaf(rows, asked.offset, has_previous=asked.offset > 0, has_next=has_more)
    place = start.place
    if not place.is_backward:
        offset = start.row if place.is_included else start.row + 1
        return _Leaf(rows, offset, has_previous=not place.is_included, has_next=has_more)
    end = start.row + 1 if place.is_included else start.row
    # Rows that came in before it since then would make the number negative.
    offset = max(end - len(rows), 0) if has_more else 0
    return _Leaf(rows[::-1], offset, has_previous=has_more, has_next=not place.is_included)


def _next(leaf: _Leaf, select: KeyedSelect, start: Cursor | None) -> Cursor | None:
    if not leaf.has_next:
        return None
    if not leaf.rows:
        return _back_from(start)
    values = select.values_of(leaf.rows[-1])
    return None if values is None else Cursor(Place(values=values), leaf.offset + len(leaf.rows) - 1)


def _previous(leaf: _Leaf, select: KeyedSelect, start: Cursor | None) -> Cursor | None:
    if not leaf.has_previous:
        return None
    if not leaf.rows:
        return _back_from(start)
    values = select.values_of(leaf.rows[0])
    return None if values is None else Cursor(Place(values=values, is_backward=True), leaf.offset)


def _back_from(start: Cursor | None) -> Cursor | None:
    """The way back from an empty page: what it was beside, and that row itself."""
    if start is None:
        return None
    place = replace(
        start.place, is_backward=not start.place.is_backward, is_included=not start.place.is_included
    )
    return replace(start, place=place)
