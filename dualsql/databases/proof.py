"""Checks at start that a source is read-only and that row-level security is active."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from secrets import token_hex
from typing import Any

from sqlalchemy import Connection, Table, inspect, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.guard import FailureKind
from dualsql.databases.session import database_errors, in_session
from dualsql.databases.source import Source, with_connection
from dualsql.errors import ConfigurationError, DualResponseError

logger = logging.getLogger(__name__)


async def prove(source: Source, secured: Sequence[Any], *, timeout: timedelta) -> None:
    """Check a source; `secured` are the tables that its own policies restrict.

    Raises:
        ConfigurationError: a check failed.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done.
    """
    await prove_read_only(source, timeout=timeout)
    await learn_row_numbers(source, timeout=timeout)
    if source.role is not None:
        await prove_role(source, timeout=timeout)
    if secured:
        await prove_row_security(source, secured, timeout=timeout)


async def prove_read_only(source: Source, *, timeout: timedelta) -> None:
    """Try CREATE TABLE, which the database must refuse.

    Nothing is tried where sessions are not read-only: an error could mean anything, and a success leaves a table behind
    if the user may create tables and not drop them.

    Raises:
        ConfigurationError: the table was created.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done.
    """
    if not source.backend.has_read_only_sessions:
        return
    with database_errors(source):
        refused = await in_session(source, None, partial(_is_refused, source), timeout=timeout)
    if not refused:
        raise ConfigurationError(
            f"A read-only session could create a table in the database {source.name!r}.",
            hint="Use a database user that may only read.",
        )


async def learn_row_numbers(source: Source, *, timeout: timedelta) -> None:
    """Ask the database which tables have numbered rows. Rows of other tables are ordered by all columns.

    Raises:
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the database could not be asked.
    """
    with database_errors(source):
        names = await in_session(source, None, source.guard.row_numbers, timeout=timeout)
    source.row_numbers.learn(source.backend.capabilities, names)


def unproved_notice(source: Source) -> str | None:
    """What an operator is told of a source whose sessions cannot be proved read-only; None of all others."""
    if source.backend.has_read_only_sessions:
        return None
    return (
        f"No read-only sessions of {source.capabilities.name} are known: nothing proves that the database "
        f"{source.name!r} is only read (unproved_read_only). Its user must have no right to write."
    )


async def _is_refused(source: Source, connection: AsyncConnection) -> bool:
    table = f"dualsql_probe_{token_hex(8)}"  # 30 characters: the longest name of Oracle 12.1 and Firebird 3 has 30
    try:
        await connection.execute(text(f"CREATE TABLE {table} (x INTEGER)"))
    except DBAPIError as error:
        if source.guard.failure_kind(error.orig) is FailureKind.WRITE:
            return True
        raise
    await connection.execute(text(f"DROP TABLE {table}"))
    return False


async def missing_tables(source: Source, *, timeout: timedelta) -> list[str]:
    """The registered tables that the database does not have, by name; none where it will not tell."""
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            return await with_connection(source.engine, partial(_missing, source))
    except (SQLAlchemyError, NotImplementedError, TimeoutError) as error:
        logger.debug("the tables of %r could not be listed", source.name, exc_info=error)
        return []


def _missing(source: Source, connection: Connection) -> list[str]:
    inspector = inspect(connection)
    wanted = [table for table in source.registry.tables.values() if isinstance(table, Table)]
    listed = {schema: set(inspector.get_table_names(schema)) for schema in {table.schema for table in wanted}}
    return [
        table.fullname
        for table in wanted
        # A view, or another spelling, which lists of tables do not have.
        if table.name not in listed[table.schema] and not inspector.has_table(table.name, table.schema)
    ]


async def connection_limit(source: Source, *, timeout: timedelta) -> int | None:
    """How many connections the database allows this user; None where it has no limit or does not tell."""
    try:
        with database_errors(source):
            return await in_session(source, None, source.guard.connection_limit, timeout=timeout)
    except DualResponseError as error:
        logger.debug("the limit of connections of %r could not be read", source.name, exc_info=error)
        return None


async def prove_row_security(source: Source, tables: Sequence[Any], *, timeout: timedelta) -> None:
    """Check that the database's policies apply to this user on all `tables`.

    Raises:
        ConfigurationError: the database or a table has no policies, or they do not apply to the user.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done.
    """
    if not source.capabilities.has_row_security:
        raise ConfigurationError(f"The database {source.name!r} has no row-level security.")

    async def bypassed(connection: AsyncConnection) -> list[str]:
        return [str(table) for table in await source.guard.tables_without_policies(connection, tables)]

    with database_errors(source):
        found = await in_session(source, None, bypassed, timeout=timeout)
    if found:
        raise ConfigurationError(
            f"Row-level security does not apply to the user of {source.name!r} on: {', '.join(found)}."[
                :1000
            ],
            hint="ENABLE ROW LEVEL SECURITY on each table, and use a user that neither owns them nor has BYPASSRLS.",
        )


async def has_policies(source: Source, *, timeout: timedelta) -> bool:
    """Whether policies of the database restrict this user, declared or not.

    Raises:
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the database did not tell.
    """
    if not source.capabilities.has_row_security:
        return False
    with database_errors(source):
        return await in_session(source, None, source.guard.has_policies, timeout=timeout)


async def prove_role(source: Source, *, timeout: timedelta) -> None:
    """Check that the role of `source` could not change a table even without read-only sessions.

    Raises:
        ConfigurationError: it could change a table.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the check could not be done; the role may not exist.
    """

    async def writable(connection: AsyncConnection) -> Sequence[str]:
        tables = [table for table in source.registry.tables.values() if isinstance(table, Table)]
        found = await source.guard.writable_tables(connection, tables)
        if found is None:
            raise NotImplementedError("a database that has roles must tell which tables they may change")
        return found

    with database_errors(source):
        found = await in_session(source, None, writable, timeout=timeout)
    if found:
        raise ConfigurationError(
            f"The role {source.role!r} can change: {', '.join(found)}."[:1000],
            hint="Use a role that has only SELECT and is not a superuser.",
        )
