"""The planner's row estimate, what is counted without one, and the types of the columns of a statement."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import plan
from dualsql.columns.own_types import SQLType
from dualsql.databases.driver import driver_statement
from dualsql.databases.source import Source
from dualsql.errors import DatabaseBusyError, QueryExecutionError, QueryTimeoutError
from dualsql.resource import UNCOUNTED, CountMethod, Total
from dualsql.tenancy import ActiveRules

if TYPE_CHECKING:
    from dualsql.databases.fetch import RowCounter

Run = Callable[[Callable[[AsyncConnection], Awaitable[int | None]]], Awaitable[int | None]]


async def estimated_total(counter: RowCounter, method: CountMethod, run: Run) -> Total:
    """The planner's estimate, where it may be shown; else, or if "auto" finds it too small, a count up to a cap.

    Args:
        run: runs work in a session.
    """
    estimate, cap = await _estimated_rows(counter, run), counter.settings.count_cap
    # So few rows would have been counted in time: the planner is wrong, or the database was busy.
    if estimate is None or (method.way == "auto" and estimate <= cap):
        with suppress(QueryTimeoutError, DatabaseBusyError):
            return await counter.total_of(counter.fetch(CountMethod("auto", cap)).rows(), cap)
    return UNCOUNTED if estimate is None else Total(estimate, "estimated")


async def _estimated_rows(counter: RowCounter, run: Run) -> int | None:
    source, shape, rules, rows = counter.source, counter.shape, counter.rules, None
    estimate = source.capabilities.row_estimate
    if not counter.may_estimate or estimate is None:
        return None

    async def explain(connection: AsyncConnection) -> int | None:
        # EXPLAIN is put before the compiled text, which has the rules of the tables in it.
        statement = plan.uncounted(shape)
        explained = driver_statement(
            connection.dialect, statement, rules.values, source.compiled, (), drafts={}
        )
        if explained is None:
            return None
        result = await connection.exec_driver_sql(estimate.explain + explained.sql, explained.parameters)
        return estimate.rows(_parse(result.scalar_one()))

    # Only the plan was requested: an error here says nothing about the rows.
    with suppress(QueryTimeoutError, DatabaseBusyError, QueryExecutionError):
        rows = await run(explain)
    # Not every planner looks at LIMIT.
    return rows if rows is None or shape.limit is None else min(rows, shape.limit)


def _parse(plan: Any) -> Any:
    """The plan as data; None if it is not valid JSON: MariaDB does not escape a backslash in a condition."""
    if not isinstance(plan, str | bytes):
        return plan
    try:
        return json.loads(plan)
    except ValueError:
        return None


async def described_types(
    source: Source, statement: Executable, rules: ActiveRules, connection: AsyncConnection
) -> Sequence[SQLType]:
    """The types of the columns of `statement` as its database describes them; empty where it describes none.

    NullType stands for a type that has no form in answers.
    """
    type_of = source.backend.described_type
    if type_of is None:
        return ()

    def describe(sync_connection: Connection) -> Sequence[SQLType]:
        options = {"compiled_cache": source.compiled}
        result = sync_connection.execute(statement, rules.values, execution_options=options)
        assert result.cursor is not None
        return [type_of(column[1]) for column in result.cursor.description]

    return await connection.run_sync(describe)
