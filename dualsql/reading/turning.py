"""Turn to a page of a view, by offset or by cursor; the rule: has_next and has_previous are seen, never computed.

One row more than asked for tells whether there is a further page in the direction of reading. In the other
direction lies the row that the cursor was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dualsql import plan
from dualsql.execute import Rows
from dualsql.plan import KeyedSelect, Ordered, Place
from dualsql.reading.cursors import Cursor, Cursors, Scope
from dualsql.reading.view import View
from dualsql.resource import Principal
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
        is_cached: the rows are those of an earlier one.
        next_cursor, previous_cursor: None at the ends, and where no cursor can be given.
    """

    rows: Rows
    offset: int
    is_counted: bool
    is_cached: bool
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
    scope = Scope(resource_id=resource_id, order=rows.order.fingerprint, principal=principal)
    if asked.cursor is None:
        start = None
        select = plan.keyed_page(rows, offset=asked.offset, limit=asked.limit + 1)
    else:
        plan.require_keyset(rows)
        start = cursors.read(asked.cursor, scope)
        select = plan.page_beside(rows, start.place, limit=asked.limit + 1)
    found, is_cached = await view.turn(select)
    leaf = _leaf(found, asked, start)
    ahead, behind = _marks(leaf, select, rows, start)
    following, preceding = (behind, ahead) if leaf.is_backward else (ahead, behind)
    width = len(view.columns)
    return Turn(
        rows=[row[:width] for row in leaf.rows] if select.is_keyed else leaf.rows,
        offset=leaf.offset,
        is_counted=start is None,
        has_next=leaf.has_next,
        has_previous=leaf.has_previous,
        is_cached=is_cached,
        order="total" if rows.order.is_total else "partial",
        next_cursor=cursors.write(following, scope) if leaf.has_next else None,
        previous_cursor=cursors.write(preceding, scope) if leaf.has_previous else None,
    )


class _Leaf(NamedTuple):
    """The rows of a page in the result's order, without the one too many."""

    rows: Rows
    offset: int
    has_previous: bool
    has_next: bool
    is_backward: bool = False

    @property
    def end(self) -> int:
        return self.offset + len(self.rows)


def _leaf(found: Rows, asked: PageAsked, start: Cursor | None) -> _Leaf:
    rows, has_more = found[: asked.limit], len(found) > asked.limit
    if start is None:
        return _Leaf(rows, asked.offset, has_previous=asked.offset > 0, has_next=has_more)
    if not start.place.is_backward:
        return _Leaf(rows, start.row, has_previous=start.has_rows_behind, has_next=has_more)
    # Rows that came in since then would make the number negative.
    offset = max(start.row - len(rows), 0) if has_more else 0
    return _Leaf(rows[::-1], offset, has_previous=has_more, has_next=start.has_rows_behind, is_backward=True)


def _marks(
    leaf: _Leaf, select: KeyedSelect, rows: Ordered, start: Cursor | None
) -> tuple[Cursor | None, Cursor | None]:
    """The cursors to read on from the page, and to turn back before it."""
    far, near = (leaf.offset, leaf.end) if leaf.is_backward else (leaf.end, leaf.offset)
    if not leaf.rows:
        # What it was to lie beside has gone, and so has all beyond.
        return None, None if start is None else Cursor(start.place.reversed(), near, has_rows_behind=False)
    travelled = leaf.rows[::-1] if leaf.is_backward else leaf.rows
    if rows.order.is_unique:
        travelled = [travelled[0], travelled[-1]]
    values = [told for told in map(select.values_of, travelled) if told is not None]
    if len(values) < len(travelled):
        return None, None
    place = None if start is None else start.place
    if rows.order.is_unique:
        ahead = plan.place_ahead(values[1:], place, is_begun=True)
        behind = plan.place_behind(values[:1], place, is_begun=True)
        return _mark(ahead and ahead.as_of_one(), far), _mark(behind and behind.as_of_one(), near)
    is_begun = leaf.offset == 0
    ahead = plan.place_ahead(values, place, is_begun=is_begun)
    behind = plan.place_behind(values, place, is_begun=is_begun)
    return _mark(ahead, far), _mark(behind, near)


def _mark(place: Place | None, row: int) -> Cursor | None:
    return None if place is None else Cursor(place, row)
