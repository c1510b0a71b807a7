"""Prove that a source cannot be written to; the rule: only the database's own refusal counts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from secrets import token_hex

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from dualsql.errors import ConfigurationError, QueryTimeoutError
from dualsql.execute.failures import database_errors
from dualsql.execute.session import read_only
from dualsql.execute.source import Source


async def prove_read_only(source: Source, *, timeout: timedelta) -> None:
    """Try to make a table, and be refused.

    Raises:
        ConfigurationError: the database let it be made.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: nothing could be proved.
    """
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            with database_errors(source):
                refused = await _is_refused(source, f"dualsql_write_probe_{token_hex(8)}")
    except TimeoutError as error:
        raise QueryTimeoutError(f"The source {source.name!r} did not answer in time.") from error
    if not refused:
        raise ConfigurationError(
            f"The database {source.name!r} let a read-only session write.",
            hint="Give dualsql a database user that may only read.",
        )


async def _is_refused(source: Source, table: str) -> bool:
    async with read_only(source) as connection:
        try:
            await connection.execute(text(f"CREATE TABLE {table} (x INTEGER)"))
        except DBAPIError as error:
            if source.capabilities.is_read_only_refusal(error.orig):
                return True
            raise
        await connection.execute(text(f"DROP TABLE {table}"))
    return False
