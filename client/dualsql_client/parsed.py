"""A dual response in the application's hands; the rule: pages joined are the result, each row once."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dualsql_client.answers import FetchResult, ResourceMetadata, read_metadata, read_page
from dualsql_client.errors import NotConfiguredError, ResourceExpiredError, ResourceNotFoundError
from dualsql_client.instants import read_instant
from dualsql_client.transport import Transport
from dualsql_client.wire import Column, PageRequest, Row, SortKey

OnProgress = Callable[[int, int | None], Awaitable[object] | object]
"""Called with the rows fetched so far and the total, None when unknown; may be a coroutine function."""


@dataclass(slots=True, kw_only=True, eq=False)
class ParsedDualResponse:
    """The sample a model saw, and the way to every row.

    Attributes:
        sample: the rows in the tool result, as JSON has them; empty when it held only a link.
        total_count: all rows of the result; None when the server did not count them.
        resource_uri: the resource as the tool result names it, such as `resource://abc123`.
        resource_url: where the rows are fetched: `base_url` and the resource's id. Without a `base_url` it is
            what the tool result says, untrusted and never fetched.
        columns: of the sample; a page brings its own. Empty when only a link was found.
        executed_at: when the query ran.
        expires_at: when the resource expires, brought up to date by every fetch and by `pin`; None for a
            pinned one, or when it is not known.
    """

    name: str
    sample: list[Row]
    total_count: int | None
    resource_uri: str
    resource_url: str | None
    columns: list[Column]
    executed_at: datetime | None
    expires_at: datetime | None
    _transport: Transport | None = field(default=None, repr=False)

    def is_expired(self) -> bool:
        """Whether the resource has expired, by this computer's clock."""
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)

    async def fetch(
        self,
        *,
        offset: int = 0,
        limit: int | None = None,
        sort: SortKey | Sequence[SortKey] | None = None,
        typed: bool = False,
        cursor: str | None = None,
    ) -> FetchResult:
        """Fetch one page.

        Args:
            offset: position of its first row, from 0.
            limit: the most rows it may have; None for the server's default.
            sort: one key or several, the first decides first: `{"field": "enrollment", "order": "desc"}`.
            typed: values as Decimal, datetime, date, time, timedelta, UUID and bytes instead of JSON's.
            cursor: `next_cursor` or `previous_cursor` of a page, in place of an offset; with the same sort.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            FetchError: see `dualsql_client.errors`.
            ParseError: with `typed`, a value is not what its column says.
        """
        start = PageRequest(offset=offset) if cursor is None else _beside(cursor, offset)
        answer = await self._configured().send("POST", self.resource_uri, _page_request(start, limit, sort))
        asked = offset if cursor is None else None
        page = read_page(answer, offset=asked, known_columns=self.columns, typed=typed)
        self._note_expiry(answer)
        return page

    async def fetch_stream(
        self,
        *,
        batch_size: int = 500,
        sort: SortKey | Sequence[SortKey] | None = None,
        typed: bool = False,
    ) -> AsyncGenerator[list[Row], None]:
        """All rows in order, in batches of up to `batch_size`; the server may send smaller ones.

        Raises what `fetch` raises.
        """
        async for page in self._pages(batch_size, sort, typed=typed):
            yield page.data

    async def fetch_all(
        self,
        *,
        batch_size: int = 500,
        on_progress: OnProgress | None = None,
        sort: SortKey | Sequence[SortKey] | None = None,
        typed: bool = False,
    ) -> list[Row]:
        """All rows in one list; `fetch_stream` is for results that do not fit in memory.

        Raises what `fetch` raises.
        """
        rows: list[Row] = []
        async for page in self._pages(batch_size, sort, typed=typed):
            rows += page.data
            if on_progress is not None:
                told = on_progress(len(rows), page.total_count)
                if inspect.isawaitable(told):
                    await told
        return rows

    async def get_metadata(self) -> ResourceMetadata:
        """What the server says about the resource now.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self._configured().send("GET", self.resource_uri)
        metadata = read_metadata(answer)
        self._note_expiry(answer)
        return metadata

    async def pin(self) -> bool:
        """Keep the resource until it is deleted. A resource that is gone already is an error.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        await self._configured().send("PUT", self.resource_uri)
        self.expires_at = None
        return True

    async def delete(self) -> bool:
        """Delete the resource; False when it was gone already.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        try:
            await self._configured().send("DELETE", self.resource_uri)
        except (ResourceNotFoundError, ResourceExpiredError):
            return False
        return True

    async def _pages(
        self, batch_size: int, sort: SortKey | Sequence[SortKey] | None, *, typed: bool
    ) -> AsyncGenerator[FetchResult, None]:
        offset: int | None = 0
        while offset is not None:
            page = await self.fetch(offset=offset, limit=batch_size, sort=sort, typed=typed)
            if page.data:
                yield page
            offset = page.next_offset

    def _note_expiry(self, answer: Mapping[str, Any]) -> None:
        if "expires_at" in answer:
            self.expires_at = read_instant(answer["expires_at"])

    def _configured(self) -> Transport:
        if self._transport is None:
            raise NotConfiguredError(
                "The client has no base_url, and fetches only from an address it was given."
            )
        return self._transport


def _beside(cursor: str, offset: int) -> PageRequest:
    if offset:
        raise ValueError("Give a cursor or an offset: they are two ways to say one thing.")
    return PageRequest(cursor=cursor)


def _page_request(
    start: PageRequest, limit: int | None, sort: SortKey | Sequence[SortKey] | None
) -> PageRequest:
    request = start.copy()
    if limit is not None:
        request["limit"] = limit
    if sort is not None:
        request["sort"] = sort if isinstance(sort, dict) else list(sort)
    return request
