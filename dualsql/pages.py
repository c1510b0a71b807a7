"""One page of a result; the rule: what it says of the rest was seen while reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dualsql.response import instant
from dualsql_client.wire import Column, Page, PageOrder, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """Rows `offset` to `offset + len(rows)` of a result.

    Attributes:
        rows: objects by column name; values are what `formats.json.dumps` takes.
        total_count: None when nobody counted. Exact as of this reading on the last page by offset, else as of
            creation.
        offset: of a page by cursor, counted from the page that gave the cursor.
        has_next, has_previous: a further row was there.
        order: "partial" when the rows may be in another order at the next reading.
        next_cursor, previous_cursor: None at the ends, and where only offsets lead on.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    total_count: int | None
    offset: int
    has_next: bool
    has_previous: bool
    order: PageOrder
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
            returned_count=len(self.rows),
            offset=self.offset,
            skip=self.offset,
            has_next=self.has_next,
            has_previous=self.has_previous,
            has_prev=self.has_previous,
            next_offset=following if self.has_next else None,
            order=self.order,
            next_cursor=self.next_cursor,
            previous_cursor=self.previous_cursor,
            expires_at=None if self.expires_at is None else instant(self.expires_at),
        )


def seen_total(
    *, known: int | None, offset: int, returned: int, has_next: bool, is_counted: bool = True
) -> int | None:
    """The total, corrected by what a page showed: rows come and go after a result was counted.

    Args:
        is_counted: the offset was counted in this reading, from the first row on.
    """
    end = offset + returned
    if has_next or not is_counted:
        return None if known is None else max(known, end + has_next)
    return end if returned or not offset else known
