"""MariaDB: tx_read_only and max_statement_time. A statement that was left running is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.guard import (
    FailureKind,
    Guard,
    SessionTerms,
    driver_of,
    repeated_until_over,
    spare_connection,
)

_KEPT = ("tx_read_only", "max_statement_time")
_ENTER = ", ".join(f"@dualsql_{name} = @@{name}" for name in _KEPT)
_LEAVE = ", ".join(f"SESSION {name} = @dualsql_{name}" for name in _KEPT)

# https://mariadb.com/kb/en/mariadb-error-code-reference/
_FAULTS = {
    1792: FailureKind.WRITE,  # ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
    1969: FailureKind.TIMEOUT,  # ER_STATEMENT_TIMEOUT
    1317: FailureKind.TIMEOUT,  # ER_QUERY_INTERRUPTED
    1205: FailureKind.BUSY,  # ER_LOCK_WAIT_TIMEOUT
    1213: FailureKind.BUSY,  # ER_LOCK_DEADLOCK
    1040: FailureKind.BUSY,  # ER_CON_COUNT_ERROR
    1053: FailureKind.UNREACHABLE,  # ER_SERVER_SHUTDOWN
    1021: FailureKind.FULL,  # ER_DISK_FULL
    1037: FailureKind.FULL,  # ER_OUTOFMEMORY
    1041: FailureKind.FULL,  # ER_OUT_OF_RESOURCES
    1114: FailureKind.FULL,  # ER_RECORD_FILE_FULL
    2003: FailureKind.UNREACHABLE,  # CR_CONN_HOST_ERROR
    2006: FailureKind.BROKEN,  # CR_SERVER_GONE_ERROR
    2013: FailureKind.BROKEN,  # CR_SERVER_LOST
    1267: FailureKind.UNSUITED,  # ER_CANT_AGGREGATE_2COLLATIONS
    1271: FailureKind.UNSUITED,  # ER_CANT_AGGREGATE_NCOLLATIONS
    4078: FailureKind.UNSUITED,  # ER_ILLEGAL_PARAMETER_DATA_TYPES2_FOR_OPERATION
    4079: FailureKind.UNSUITED,  # ER_ILLEGAL_PARAMETER_DATA_TYPE_FOR_OPERATION
}


class MariaDBGuard(Guard):
    """Through asyncmy, aiomysql, or PyMySQL in a thread."""

    @asynccontextmanager
    async def kept(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.kept`. Two round trips before the block and two after it."""
        for statement in _enter(terms):
            await connection.exec_driver_sql(statement)
        try:
            yield
        finally:
            await _leave(connection)

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`."""
        statement = f"KILL QUERY {int(driver_of(connection).thread_id())}"
        async with spare_connection(connection) as run:
            await repeated_until_over(working, lambda: run(statement))

    @contextmanager
    def held(self, connection: AsyncConnection) -> Iterator[None]:
        """See `Guard.held`. asyncmy takes what comes, whether anyone reads it or not: 200 MB in a second."""
        transport = getattr(driver_of(connection), "_transport", None)
        if transport is None or not transport.is_reading():
            yield
            return
        transport.pause_reading()
        try:
            yield
        finally:
            if not transport.is_closing():
                transport.resume_reading()

    async def put_away(self, result: Any) -> None:
        """See `Guard.put_away`. A result that was left is not closed: its driver would read it to its end."""

    def fault_of(self, error: BaseException | None) -> FailureKind | None:
        """See `Guard.fault_of`."""
        code = error.args[0] if error is not None and error.args else None
        return _FAULTS.get(code) if isinstance(code, int) else None


def _enter(terms: SessionTerms) -> tuple[str, ...]:
    limit = f"{terms.milliseconds / 1000:.3f}"
    return (
        f"SET {_ENTER}, SESSION tx_read_only = 1, SESSION max_statement_time = {limit}",
        "START TRANSACTION READ ONLY",
    )


async def _leave(connection: AsyncConnection) -> None:
    driver = driver_of(connection)
    if _has_unread_rows(driver):
        # A driver reads a result to its end before it sends anything else, be it millions of rows; its cursor does so
        # when it is collected, unless the result is not the connection's any longer.
        driver._result = None
        await connection.invalidate()
        return
    # The application's engine must not get a connection back with our settings on it.
    restored = False
    try:
        for statement in ("ROLLBACK", f"SET {_LEAVE}"):
            await connection.exec_driver_sql(statement)
        restored = True
    finally:
        if not restored:
            await connection.invalidate()


def _has_unread_rows(driver: Any) -> bool:
    result = getattr(driver, "_result", None)
    return bool(getattr(result, "unbuffered_active", False))
