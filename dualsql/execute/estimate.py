"""Ask a database how many rows it expects; the rule: the statement that is explained is the one that would run."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.execute.failures import database_errors
from dualsql.execute.lanes.statement import driver_statement
from dualsql.execute.running import in_session
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing
from dualsql.statement import AnySelect


async def fetch_estimate(
    source: Source, statement: AnySelect, narrowing: Narrowing, *, timeout: timedelta
) -> int | None:
    """The planner's expectation for `statement` under `narrowing`; None where the database has none to tell.

    Raises:
        QueryTimeoutError, DatabaseBusyError: planning took longer than `timeout`, or had no connection.
        QueryExecutionError: the database refused.
    """
    planner = source.capabilities.planner
    if planner is None:
        return None
    with database_errors(source, limit=timeout):
        dialect = narrowing.dialect(source.engine.dialect)
        sent = driver_statement(dialect, statement, narrowing.values, source.compiled, ())
        if sent is None:
            return None

        async def fetch(connection: AsyncConnection) -> Any:
            result = await connection.exec_driver_sql(planner.explain + sent.sql, sent.parameters)
            return result.scalar_one()

        plan = await in_session(source, narrowing, fetch, timeout=timeout)
    return planner.rows(_parsed(plan))


def _parsed(plan: Any) -> Any:
    """The plan as data; None for one that is no JSON: MariaDB writes a backslash of a condition as it is."""
    if not isinstance(plan, str | bytes):
        return plan
    try:
        return json.loads(plan)
    except ValueError:
        return None
