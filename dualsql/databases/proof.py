"""What a server checks of its databases when it starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from secrets import token_hex
from typing import Any

from sqlalchemy import Connection, Table, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.guard import FailureKind
from dualsql.databases.session import in_session
from dualsql.databases.source import Source
from dualsql.errors import ConfigurationError, DualResponseError

logger = logging.getLogger(__name__)


async def prove(source: Source, secured: Sequence[Any]) -> None:
    """Check a source, and ask for the constraints and row numbers of its tables: orders rely on them.

    Args:
        secured: the tables that the database's own policies restrict.

    Raises:
        ConfigurationError: a check failed.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done.
    """
    await prove_read_only(source)
    from dualsql.databases.claims import heed_constraints

    await heed_constraints(source)
    if source.role is None and not secured:
        return
    from dualsql.databases.rights import prove_role, prove_row_security

    if source.role is not None:
        await prove_role(source)
    if secured:
        await prove_row_security(source, secured)


async def prove_read_only(source: Source) -> None:
    """Try CREATE TABLE, which the database must refuse.

    Nothing is tried where sessions are not read-only: an error could mean anything, and a success leaves a table behind
    if the user may create tables and not drop them.

    Raises:
        ConfigurationError: the table was created.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done.
    """
    if not source.backend.has_read_only_sessions:
        return
    if not await in_session(source, None, partial(_is_refused, source)):
        raise ConfigurationError(
            f"A read-only session could create a table in the database {source.name!r}.",
            hint="Use a database user that may only read.",
        )


async def _is_refused(source: Source, connection: AsyncConnection) -> bool:
    # 30 characters, as the longest name of Oracle 12.1 and Firebird 3.
    table = f"dualsql_probe_{token_hex(8)}"
    try:
        await connection.execute(text(f"CREATE TABLE {table} (x INTEGER)"))
    except DBAPIError as error:
        if source.failure_kind(error) is FailureKind.WRITE:
            return True
        raise
    await connection.execute(text(f"DROP TABLE {table}"))
    return False


async def missing_tables(source: Source) -> list[str]:
    """The registered tables that the database does not have, by name; none where it will not tell."""

    async def missing(connection: AsyncConnection) -> list[str]:
        return await connection.run_sync(partial(_missing, source))

    try:
        return await in_session(source, None, missing)
    except DualResponseError as error:
        logger.debug("the tables of %r could not be listed", source.name, exc_info=error)
        return []


def _missing(source: Source, connection: Connection) -> list[str]:
    inspector = inspect(connection)
    tables = [table for table in source.registry.tables.values() if isinstance(table, Table)]
    names = {schema: set(inspector.get_table_names(schema)) for schema in {table.schema for table in tables}}
    return [
        table.fullname
        for table in tables
        # A view, or another spelling, which lists of tables do not have.
        if table.name not in names[table.schema] and not inspector.has_table(table.name, table.schema)
    ]
