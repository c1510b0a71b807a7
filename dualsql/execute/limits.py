"""How many queries run at once; the rule: who cannot be served soon is told so at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from dualsql.errors import TooManyQueriesError
from dualsql.settings import Settings


class Limits:
    """The places for queries on one source.

    A stream takes a place for as long as its reader likes: streams have places of their own, so that slow readers
    never keep a page waiting. So have queries that may go on in the background, one for each.

    Attributes:
        patience: how long a session waits for a connection of the pool.
        page_bytes: what the rows of a page may weigh.
        longest_stream: how long a statement may run when its session names no limit of its own.
        background: the same for queries that may go on in the background; theirs is their own.
    """

    def __init__(self, settings: Settings) -> None:
        queue = _Queue(settings.maximum_queued_queries, settings.queue_timeout)
        self._queries = _Places(settings.maximum_concurrent_queries, queue)
        self._streams = _Places(settings.maximum_streams, queue)
        self.patience = settings.queue_timeout
        self.page_bytes = settings.maximum_page_bytes
        self.longest_stream = settings.maximum_stream_duration
        self.background: Limits = _Background(self, _Places(settings.maximum_pending, queue))

    @asynccontextmanager
    async def place(self, *, for_stream: bool = False) -> AsyncIterator[None]:
        """A place for one session, for the length of the block.

        Raises:
            TooManyQueriesError: too many wait already, or none became free in `Settings.queue_timeout`.
        """
        async with (self._streams if for_stream else self._queries).taken():
            yield

    def has_room(self) -> bool:
        """Whether a query would be served without waiting."""
        return self._queries.has_room()


class _Background(Limits):
    def __init__(self, limits: Limits, places: _Places) -> None:
        vars(self).update(vars(limits))
        self._queries, self.background = places, self

    def has_room(self) -> bool:
        """No: one that counted beside its sample would take the place of another."""
        return False


class _Queue:
    """Those who wait for a place, whichever it is."""

    def __init__(self, most: int, patience: timedelta) -> None:
        self._most = most
        self._seconds = patience.total_seconds()
        self._waiting = 0

    async def wait_for(self, places: asyncio.Semaphore) -> None:
        if self._waiting >= self._most:
            raise TooManyQueriesError("Too many queries run and wait at once.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._seconds):
                await places.acquire()
        except TimeoutError:
            raise TooManyQueriesError("Too many queries run at once; none ended in time.") from None
        finally:
            self._waiting -= 1


class _Places:
    """A number of places, taken in the order of asking."""

    def __init__(self, number: int, queue: _Queue) -> None:
        self._free = asyncio.Semaphore(number)
        self._queue = queue

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        if self._free.locked():
            await self._queue.wait_for(self._free)
        else:
            await self._free.acquire()  # at once: nobody waits
        try:
            yield
        finally:
            self._free.release()

    def has_room(self) -> bool:
        return not self._free.locked()
