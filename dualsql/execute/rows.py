"""Run one statement and take its rows; the rule: it ends in time, and its errors say nothing of the data."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import QueryExecutionError, QueryTimeoutError
from dualsql.execute.failures import database_errors
from dualsql.execute.session import read_only
from dualsql.execute.source import Source

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
    with database_errors(source, failure):
        async with read_only(source) as connection:
            return await _within(timeout, source, connection, statement)


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
