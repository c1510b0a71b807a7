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

from dualsql.errors import DatabaseBusyError, QueryTimeoutError
from dualsql.execute.session import read_only
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing

T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

_INTERRUPT_PAUSE = 0.01


async def in_session(source: Source, narrowing: Narrowing | None, work: Work[T], *, timeout: timedelta) -> T:
    """What `work` returns, given a read-only connection.

    Raises:
        QueryTimeoutError: it took longer than `timeout`; the database was told to stop.
        DatabaseBusyError: no connection was to be had in that time.
    """
    session = Session(source, narrowing, work)
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            return await asyncio.shield(session.task)
    except TimeoutError as error:
        if session.task.done():  # the driver's own
            raise
        was_waiting = session.connection is None
        await session.stop()
        if was_waiting:
            raise DatabaseBusyError("No database connection was to be had in time.") from error
        raise QueryTimeoutError(
            f"The query ran longer than {timeout.total_seconds():g} seconds and was stopped."
        ) from error
    except asyncio.CancelledError:
        source.finish(session.stop())
        raise


class Session(Generic[T]):
    """One connection, the work on it, and the way to stop it."""

    def __init__(self, source: Source, narrowing: Narrowing | None, work: Work[T]) -> None:
        self._source = source
        self._narrowing = narrowing
        self._work = work
        self._working: asyncio.Future[T] | None = None
        self.connection: AsyncConnection | None = None
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> T:
        async with read_only(self._source, self._narrowing) as connection:
            self.connection = connection
            self._working = asyncio.ensure_future(self._work(connection))
            return await self._working

    async def stop(self) -> None:
        """End the work in the database, then wait until the connection is given back."""
        if self._working is None or self.connection is None:
            self.task.cancel()
        elif self._source.capabilities.interrupts:
            await _interrupt(self.connection, self._working)
        else:
            self._working.cancel()
        with suppress(Exception, asyncio.CancelledError):
            await self.task


async def _interrupt(connection: AsyncConnection, working: asyncio.Future[T]) -> None:
    """Stop a statement in the driver's thread, which a cancelled task does not reach."""
    if working.done():
        return  # its session is over or about to be, and the connection may be closed
    raw = await connection.get_raw_connection()
    # Repeated, because what the thread has not begun yet cannot be interrupted.
    while not working.done():
        await raw.driver_connection.interrupt()  # type: ignore[union-attr]
        await asyncio.wait({working}, timeout=_INTERRUPT_PAUSE)
