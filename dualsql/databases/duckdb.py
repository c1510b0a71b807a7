"""DuckDB: opened READ_ONLY, without files and network, with its configuration locked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.guard import (
    FailureKind,
    Guard,
    SessionTerms,
    driver_of,
    memory_of,
    repeated_until_over,
)
from dualsql.errors import ConfigurationError

CONNECT_ARGUMENTS: dict[str, Any] = {
    "read_only": True,
    "config": {"enable_external_access": "false", "lock_configuration": "true", "memory_limit": "25%"},
}
"""How a database is opened that dualsql opens itself; the URL may ask for another `memory_limit`.

DuckDB runs in the server's process. By itself it takes 80 % of the memory for one pair of tables that nothing joins,
and two such processes are more than there is. What does not fit is written to files beside the database.
"""

_UNSUITED = frozenset(
    {"BinderException", "ConversionException", "InvalidTypeException", "TypeMismatchException"}
)
"""Names of errors of a statement whose values have no such operation; a column that is gone is "not found"."""

_IS_CLOSED = "dualsql_is_closed"
_ASK = "SELECT current_setting('enable_external_access'), current_setting('lock_configuration')"


class DuckDBGuard(Guard):
    """Through duckdb-sqlalchemy, in a thread."""

    @asynccontextmanager
    async def kept(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.kept`. DuckDB knows no time limit: what runs too long is interrupted by `stop`."""
        await _require_closed(connection)
        # SQLAlchemy begins a transaction by itself, which cannot be made read-only any more.
        await connection.exec_driver_sql("ROLLBACK")
        await connection.exec_driver_sql("BEGIN TRANSACTION READ ONLY")
        yield

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`."""
        await repeated_until_over(working, driver_of(connection).interrupt)

    def fault_of(self, error: BaseException | None) -> FailureKind | None:
        """See `Guard.fault_of`."""
        # The driver has neither numbers nor SQLSTATEs.
        kind = type(error).__name__
        if kind == "InterruptException":
            return FailureKind.TIMEOUT
        if kind == "OutOfMemoryException":
            return FailureKind.FULL
        if kind == "IOException":
            return FailureKind.UNREACHABLE
        if kind in _UNSUITED and "not found" not in str(error):
            return FailureKind.UNSUITED
        return FailureKind.WRITE if "read-only mode" in str(error) else None


async def _require_closed(connection: AsyncConnection) -> None:
    memory = memory_of(connection)
    if _IS_CLOSED not in memory:
        row: Any = (await connection.exec_driver_sql(_ASK)).one()
        memory[_IS_CLOSED] = not row[0] and bool(row[1])
    if not memory[_IS_CLOSED]:
        raise ConfigurationError(
            "This DuckDB engine can read and write files.",
            hint=f"Pass the URL itself, or connect_args={{'config': {CONNECT_ARGUMENTS['config']}}}.",
        )
