"""Run work in a read-only session; the rule: a caller's cancellation stops the database, never the clean-up.

The session lives in a task of its own. A caller may be cancelled again and again while it unwinds (anyio's cancel
scopes do that), and each await of a clean-up would be cut short: a connection would go back to its pool still
busy, or still refusing writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.execute.failures import ran_too_long
from dualsql.execute.session import read_only
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

# The database's own limit comes first: it says what it did, and its connection stays good.
_GRACE = 0.25


async def in_session(source: Source, narrowing: Narrowing | None, work: Work[T], *, timeout: timedelta) -> T:
    """What `work` returns, given a read-only connection.

    The database stops a statement after `timeout`. Should it not, or should there be several statements, it is
    told to stop from here.

    Raises:
        QueryTimeoutError: `work` took longer than `timeout`; the database was told to stop.
        DatabaseBusyError: no connection was to be had; TooManyQueriesError: too many wait for one.
    """
    session = Session(source, narrowing, work, limit=timeout)
    try:
        async with asyncio.timeout(None) as deadline:
            session.allow(deadline, timeout.total_seconds() + _GRACE)
            return await asyncio.shield(session.task)
    except TimeoutError as error:
        if not deadline.expired():  # the driver's own
            raise
        await asyncio.shield(source.finish(session.stop()))
        raise ran_too_long(timeout) from error
    except asyncio.CancelledError:
        source.finish(session.stop())
        raise


class Session(Generic[T]):
    """One connection, the work on it, and the way to stop it.

    `limit` is how long the database lets one statement run; None is for a stream.
    """

    def __init__(
        self, source: Source, narrowing: Narrowing | None, work: Work[T], *, limit: timedelta | None = None
    ) -> None:
        self._source = source
        self._narrowing = narrowing
        self._work = work
        self._limit = limit
        self._working: asyncio.Future[T] | None = None
        self._deadline: tuple[asyncio.Timeout, float] | None = None
        self.connection: AsyncConnection | None = None
        self.task = asyncio.ensure_future(self._run())

    def allow(self, deadline: asyncio.Timeout, seconds: float) -> None:
        """Let `deadline` come so many seconds after the connection was made: waiting for one has its own bounds."""
        self._deadline = deadline, seconds

    async def _run(self) -> T:
        async with read_only(
            self._source, self._narrowing, limit=self._limit, on_connect=self._connected
        ) as connection:
            self._working = asyncio.ensure_future(self._work(connection))
            return await self._working

    def _connected(self, connection: AsyncConnection) -> None:
        self.connection = connection
        if self._deadline is not None:
            deadline, seconds = self._deadline
            deadline.reschedule(asyncio.get_running_loop().time() + seconds)

    async def stop(self) -> None:
        """End the work in the database, then wait until the connection is given back."""
        if self._working is None or self.connection is None:
            self.task.cancel()
        elif not self._working.done():  # else its session is about to end, and the connection may be closed
            try:
                await self._source.guard.stop(self.connection, self._working)
            except Exception:  # noqa: BLE001 - of driver or network; whatever it is, the task is cancelled
                self._working.cancel()
        with suppress(Exception, asyncio.CancelledError):
            await self.task
