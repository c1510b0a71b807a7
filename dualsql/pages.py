"""One page of a result; the rule: what it says of the rest was seen while reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dualsql.response import instant
from dualsql_client.wire import Column, Page, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """Rows `offset` to `offset + len(rows)` of a result.

    Attributes:
        rows: objects by column name; values are what `formats.json.dumps` takes.
        total_count: None when nobody counted. Exact as of this reading on the last page, else as of creation.
        has_next: a further row was there.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    total_count: int | None
    offset: int
    has_next: bool
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
            has_previous=self.offset > 0,
            has_prev=self.offset > 0,
            next_offset=following if self.has_next else None,
            expires_at=None if self.expires_at is None else instant(self.expires_at),
        )


def seen_total(*, known: int | None, offset: int, returned: int, has_next: bool) -> int | None:
    """The total, corrected by what a page showed: rows come and go after a result was counted."""
    end = offset + returned
    if has_next:
        return None if known is None else max(known, end + 1)
    return end if returned or not offset else known
