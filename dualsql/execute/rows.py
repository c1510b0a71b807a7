"""Run one statement and take its rows; the rule: it ends in time, and its errors say nothing of the data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import DatabaseBusyError, DualResponseError, QueryExecutionError, QueryTimeoutError
from dualsql.execute.session import read_only
from dualsql.execute.source import Source

logger = logging.getLogger(__name__)

Rows = Sequence[Sequence[Any]]

_INTERRUPT_PAUSE = 0.01


async def fetch_rows(
    source: Source,
    statement: Executable,
    *,
    timeout: timedelta,
    failure: type[QueryExecutionError] = QueryExecutionError,
) -> Rows:
    """All rows of `statement`, each a sequence of values in column order.

    Raises:
        QueryTimeoutError: it ran longer than `timeout`; the database was told to stop.
        DatabaseBusyError: all connections are in use.
        QueryExecutionError: anything else, as an error of the class `failure`.
    """
    try:
        async with read_only(source) as connection:
            return await _within(timeout, source, connection, statement)
    except DualResponseError:
        raise
    except PoolTimeoutError as error:
        raise DatabaseBusyError("No database connection became free in time.") from error
    # A driver, a type's own processor or the network may raise anything, and its text may hold data.
    except Exception as error:
        logger.warning("A stored statement failed on %r.", source.name, exc_info=True)
        raise failure(
            "The database could not run the query.",
            hint="Check the query against the current tables; the server's log has the cause.",
        ) from error


async def _within(
    timeout: timedelta, source: Source, connection: AsyncConnection, statement: Executable
) -> Rows:
    running = asyncio.ensure_future(_all(source, connection, statement))
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            return await asyncio.shield(running)
    except TimeoutError as error:
        await _stop(running, source, connection)
        raise QueryTimeoutError(
            f"The query ran longer than {timeout.total_seconds():g} seconds and was stopped."
        ) from error
    except asyncio.CancelledError:
        await _stop(running, source, connection)
        raise


async def _all(source: Source, connection: AsyncConnection, statement: Executable) -> Rows:
    result = await connection.execute(statement, execution_options={"compiled_cache": source.compiled})
    return result.all()


async def _stop(running: asyncio.Future[Rows], source: Source, connection: AsyncConnection) -> None:
    if source.capabilities.interrupts:
        await _interrupt(running, connection)
    else:
        running.cancel()
    with suppress(Exception, asyncio.CancelledError):
        await running


async def _interrupt(running: asyncio.Future[Rows], connection: AsyncConnection) -> None:
    """Stop a statement in the driver's thread, which a cancelled task does not reach."""
    raw = await connection.get_raw_connection()
    # Repeated, because what the thread has not begun yet cannot be interrupted.
    while not running.done():
        await raw.driver_connection.interrupt()  # type: ignore[union-attr]
        await asyncio.wait({running}, timeout=_INTERRUPT_PAUSE)
