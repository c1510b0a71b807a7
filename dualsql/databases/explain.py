"""The planner's row estimate and the types of the columns of a statement, without its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.own_types import SQLType
from dualsql.databases.driver import driver_statement
from dualsql.databases.source import Source
from dualsql.freeze.document import AnySelect
from dualsql.tenancy import ActiveRules


async def estimated_rows(
    source: Source, statement: AnySelect, rules: ActiveRules, connection: AsyncConnection
) -> int | None:
    """The planner's row estimate for `statement`, in a session under `rules`; None if the database has none."""
    estimate = source.capabilities.row_estimate
    # EXPLAIN is put before the compiled text, which has the rules of the tables in it.
    explained = driver_statement(connection.dialect, statement, rules.values, source.compiled, ())
    if estimate is None or explained is None:
        return None
    result = await connection.exec_driver_sql(estimate.explain + explained.sql, explained.parameters)
    return estimate.rows(_parse(result.scalar_one()))


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
