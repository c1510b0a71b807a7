"""Prove that a source cannot be written to; the rule: only the database's own refusal counts."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from secrets import token_hex

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import ConfigurationError
from dualsql.execute.failures import database_errors
from dualsql.execute.running import in_session
from dualsql.execute.source import Source


async def prove_read_only(source: Source, *, timeout: timedelta) -> None:
    """Try to make a table, and be refused.

    Raises:
        ConfigurationError: the database let it be made.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: nothing could be proved.
    """
    with database_errors(source):
        refused = await in_session(source, partial(_is_refused, source), timeout=timeout)
    if not refused:
        raise ConfigurationError(
            f"The database {source.name!r} let a read-only session write.",
            hint="Give dualsql a database user that may only read.",
        )


async def _is_refused(source: Source, connection: AsyncConnection) -> bool:
    table = f"dualsql_write_probe_{token_hex(8)}"
    try:
        await connection.execute(text(f"CREATE TABLE {table} (x INTEGER)"))
    except DBAPIError as error:
        if source.capabilities.is_read_only_refusal(error.orig):
            return True
        raise
    await connection.execute(text(f"DROP TABLE {table}"))
    return False
