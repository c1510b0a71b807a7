"""Run one statement and take its rows; the rule: its errors say nothing of the data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import QueryExecutionError
from dualsql.execute.failures import database_errors
from dualsql.execute.lanes.statement import driver_statement, is_listened_to, require_described
from dualsql.execute.lanes.unreadable import are_cut, are_read_otherwise, fetch_readably
from dualsql.execute.metering import metered
from dualsql.execute.running import in_session
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing

Rows = Sequence[Sequence[Any]]


async def fetch_rows(
    source: Source,
    statement: Executable,
    narrowing: Narrowing,
    *,
    described: Sequence[str],
    timeout: timedelta,
    failure: type[QueryExecutionError] = QueryExecutionError,
) -> Rows:
    """All rows of `statement` under `narrowing`, each a sequence of values in column order.

    Args:
        described: the names of its columns; see `dualsql.columns.driver_names`.

    Raises:
        QueryTimeoutError: it ran longer than `timeout`; the database was told to stop.
        LimitExceededError: its rows are larger than `Settings.maximum_page_bytes`.
        DatabaseBusyError: no connection was to be had, or something was in the way for the moment.
        QueryExecutionError: it has other columns than are described; anything else, as an error of the class `failure`.
    """

    async def fetch(connection: AsyncConnection) -> Rows:
        with metered(connection, source.limits.page_bytes), source.guard.reading(connection):
            return await _rows(source, statement, narrowing, connection, described)

    with database_errors(source, failure, limit=timeout):
        return await in_session(source, narrowing, fetch, timeout=timeout)


async def _rows(
    source: Source,
    statement: Executable,
    narrowing: Narrowing,
    connection: AsyncConnection,
    described: Sequence[str],
) -> Rows:
    opened = connection.sync_connection
    assert opened is not None
    # Where somebody listens, only SQLAlchemy executes.
    may_read_again = connection.dialect.driver == "asyncpg" and not is_listened_to(opened.engine, opened)
    try:
        result: Any = await connection.execute(
            statement, narrowing.values, execution_options={"compiled_cache": source.compiled}
        )
        require_described(list(result.keys()), described)
        codes = _codes(result) if may_read_again else []
        if not are_read_otherwise(codes):
            found: Rows = result.all()
            if not are_cut(found, codes, connection.dialect):
                return found
    except (ValueError, OverflowError):  # asyncpg's, of a value that Python has no class for
        if not may_read_again:
            raise
    sent = driver_statement(opened.dialect, statement, narrowing.values, source.compiled, described)
    if sent is None:
        raise QueryExecutionError(
            "A value of the result cannot be read.", hint="CAST its column to text: a date, or an interval."
        )
    return await fetch_readably(connection, sent)


def _codes(result: Any) -> list[Any]:
    return [described[1] for described in result.cursor.description or ()]
