"""Run one statement and take its rows; the rule: its errors say nothing of the data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import QueryExecutionError
from dualsql.execute.failures import database_errors
from dualsql.execute.lanes.statement import require_described
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
        with metered(connection, source.limits.page_bytes):
            result = await connection.execute(
                statement, narrowing.values, execution_options={"compiled_cache": source.compiled}
            )
            require_described(list(result.keys()), described)
            return result.all()

    with database_errors(source, failure, limit=timeout):
        return await in_session(source, narrowing, fetch, timeout=timeout)
