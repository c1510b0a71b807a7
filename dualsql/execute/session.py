"""Open a database for reading: the one place; the rule: nothing is changed, and nothing is read but under the rules.

Whatever runs a caller's SQL comes through here, in one of three ways:

    the connection yielded by `read_only`          rows by SQLAlchemy
    `driver_of(connection)` of that connection     the driver's own calls, in the same transaction
    `apart(source, narrowing, limit)`              a connection the lane makes itself, on the terms that are yielded
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import DatabaseBusyError, DatabaseUnreachableError, DualResponseError
from dualsql.execute.guards import Fault, Terms
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing


def _unheard(_: AsyncConnection) -> None:
    """For those who need not know when the connection is there."""


@asynccontextmanager
async def read_only(
    source: Source,
    narrowing: Narrowing | None,
    *,
    limit: timedelta | None = None,
    on_connect: Callable[[AsyncConnection], None] = _unheard,
) -> AsyncIterator[AsyncConnection]:
    """A connection in a read-only transaction, rolled back at the end, that compiles under `narrowing`.

    Args:
        narrowing: None is for statements of dualsql's own, which prove what the database does.
        limit: how long the database lets one statement run; None for a stream, which is bounded otherwise.
        on_connect: told of the connection before anything is sent on it.

    Raises:
        TooManyQueriesError: there was no place for one more session.
        DatabaseBusyError: no connection of the pool became free in `Settings.queue_timeout`;
            DatabaseUnreachableError: none could be opened.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(source.limits.place(for_stream=limit is None))
        connection = await _connected(source, stack)
        on_connect(connection)
        await stack.enter_async_context(source.guard.kept(connection, _terms(source, narrowing, limit)))
        if narrowing is not None:
            _narrow(connection, narrowing)
        yield connection


@asynccontextmanager
async def apart(
    source: Source, narrowing: Narrowing, *, limit: timedelta | None = None
) -> AsyncIterator[Terms]:
    """A place for a lane with a connection of its own, and the terms that it must put on that connection.

    Raises:
        TooManyQueriesError: there was no place for one more session.
    """
    async with source.limits.place(for_stream=limit is None):
        yield _terms(source, narrowing, limit)


def _terms(source: Source, narrowing: Narrowing | None, limit: timedelta | None) -> Terms:
    settings = () if narrowing is None else tuple(narrowing.settings)
    if source.role is not None:
        settings = (("role", source.role), *settings)
    return Terms(limit=source.limits.longest_stream if limit is None else limit, settings=settings)


async def _connected(source: Source, stack: AsyncExitStack) -> AsyncConnection:
    """A connection of the source's pool, given back when `stack` ends."""
    try:
        async with asyncio.timeout(source.limits.patience.total_seconds()):
            if source.turn is not None:
                await stack.enter_async_context(source.turn)
            return await stack.enter_async_context(source.engine.connect())
    except (TimeoutError, PoolTimeoutError) as error:
        raise DatabaseBusyError("No database connection became free in time.") from error
    except DualResponseError:
        raise
    # A driver, a resolver or the network may raise anything. None of it is the fault of the caller's query.
    except Exception as error:
        fault = source.guard.fault_of(error.orig if isinstance(error, DBAPIError) else error)
        if fault is Fault.BUSY:
            raise DatabaseBusyError("The database takes no more connections now.") from error
        raise DatabaseUnreachableError("The database could not be reached.") from error


def _narrow(connection: AsyncConnection, narrowing: Narrowing) -> None:
    opened = connection.sync_connection
    assert opened is not None
    opened.dialect = narrowing.dialect(opened.engine.dialect)
