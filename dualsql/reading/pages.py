"""One page of a result; the rule: what it says of the rest was seen while reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dualsql.response import instant
from dualsql.totals import Total
from dualsql_client.wire import Column, Page, PageOrder, Row, TotalCountKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """Rows `offset` to `offset + len(rows)` of a result.

    Attributes:
        rows: objects by column name; values are what `formats.json.dumps` takes.
        total_count, total_count_kind: as of creation, or of a later count; of this reading where the page tells it,
            or tells better.
        offset: of a page by cursor, counted from the page that gave the cursor.
        has_next, has_previous: a further row was there.
        cached: the rows were read a short time ago, see `Settings.result_cache`.
        order: "partial" when the rows may be in another order at the next reading.
        next_cursor, previous_cursor: None at the ends, and where only offsets lead on.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    total_count: int | None
    total_count_kind: TotalCountKind
    offset: int
    has_next: bool
    has_previous: bool
    order: PageOrder
    cached: bool
    next_cursor: str | None
    previous_cursor: str | None
    expires_at: datetime | None

    def to_wire(self) -> Page:
        """The page as the REST endpoints answer it."""
        following = self.offset + len(self.rows)
        return Page(
            data=list(self.rows),
            columns=list(self.columns),
            total_count=self.total_count,
            total_count_kind=self.total_count_kind,
            returned_count=len(self.rows),
            offset=self.offset,
            skip=self.offset,
            has_next=self.has_next,
            has_previous=self.has_previous,
            has_prev=self.has_previous,
            next_offset=following if self.has_next else None,
            order=self.order,
            cached=self.cached,
            next_cursor=self.next_cursor,
            previous_cursor=self.previous_cursor,
            expires_at=None if self.expires_at is None else instant(self.expires_at),
        )


def seen_total(known: Total, *, offset: int, returned: int, has_next: bool, is_counted: bool = True) -> Total:
    """The total, corrected by what a page showed: rows come and go after a result was counted.

    Args:
        is_counted: the offset was counted in this reading, from the first row on.
    """
    end = offset + returned
    if has_next or not is_counted:
        return known.at_least(end + has_next)
    return Total(end, "exact") if returned or not offset else known.at_most(offset)
