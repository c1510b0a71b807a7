"""The planner's row estimate and the types of the columns of a statement, without its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.own_types import SQLType
from dualsql.databases.driver import driver_statement
from dualsql.databases.session import database_errors, in_session
from dualsql.databases.source import Source
from dualsql.freeze.document import AnySelect
from dualsql.tenancy import ActiveRules


async def fetch_estimate(
    source: Source, statement: AnySelect, rules: ActiveRules, *, timeout: timedelta
) -> int | None:
    """The planner's row estimate for `statement` under `rules`; None if the database has none.

    Raises:
        QueryTimeoutError, DatabaseBusyError: planning took longer than `timeout`, or no connection was free.
        QueryExecutionError: the database refused.
    """
    estimate = source.capabilities.row_estimate
    if estimate is None:
        return None
    # EXPLAIN is put before the compiled text, which has the rules of the tables in it.
    with database_errors(source, limit=timeout):
        dialect = rules.dialect(source.engine.dialect)
        explained = driver_statement(dialect, statement, rules.values, source.compiled, ())
        if explained is None:
            return None

        async def fetch(connection: AsyncConnection) -> Any:
            result = await connection.exec_driver_sql(estimate.explain + explained.sql, explained.parameters)
            return result.scalar_one()

        plan = await in_session(source, rules, fetch, timeout=timeout)
    return estimate.rows(_parse(plan))


def _parse(plan: Any) -> Any:
    """The plan as data; None if it is not valid JSON: MariaDB does not escape a backslash in a condition."""
    if not isinstance(plan, str | bytes):
        return plan
    try:
        return json.loads(plan)
    except ValueError:
        return None


async def described_types(
    source: Source, statement: Executable, rules: ActiveRules, *, timeout: timedelta
) -> Sequence[SQLType]:
    """The types of the columns of `statement` as its database describes them; empty where it describes none.

    NullType stands for a type that has no form in answers.

    Raises:
        QueryTimeoutError, DatabaseBusyError, QueryExecutionError: see `Fetch.rows`.
    """
    type_of = source.backend.described_type
    if type_of is None:
        return ()

    def describe(opened: Connection) -> Sequence[SQLType]:
        options = {"compiled_cache": source.compiled}
        result = opened.execute(statement, rules.values, execution_options=options)
        assert result.cursor is not None
        return [type_of(column[1]) for column in result.cursor.description]

    return await in_session(source, rules, lambda connection: connection.run_sync(describe), timeout=timeout)
