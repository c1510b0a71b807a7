"""SQLite: PRAGMA query_only, an authorizer, and a clock its virtual machine looks at; the rule: it stops in its thread.

SQLite knows no time limit. Its progress handler is called every so many instructions, in the thread that runs
the statement, and can stop it there: a stopped event loop does not keep a query alive.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.clocks import Clock
from dualsql.execute.authorizer import REFUSED, confine
from dualsql.execute.guards.guard import (
    Fault,
    Guard,
    Terms,
    driver_of,
    memory_of,
    repeated_until_over,
)
from dualsql.formats.cells import Unfit

FORBID_WRITES = "PRAGMA query_only = ON"
_ALLOW_WRITES = "PRAGMA query_only = OFF"
_REFUSES_WRITES = "dualsql_refuses_writes"
_CLOCK = "dualsql_clock"

# Result codes; an extended one has its own bits above these. https://www.sqlite.org/rescode.html
_FAULTS = {
    8: Fault.WRITE,
    REFUSED: Fault.WRITE,
    9: Fault.TIMEOUT,
    18: Fault.SIZE,
    5: Fault.BUSY,
    6: Fault.BUSY,
    7: Fault.FULL,
    10: Fault.BROKEN,
    13: Fault.FULL,
    14: Fault.UNREACHABLE,
}


class SQLiteGuard(Guard):
    """Through aiosqlite, or sqlite3 in a thread."""

    def prepare(self, engine: Engine) -> None:
        """See `Guard.prepare`."""
        event.listen(engine, "connect", _forbid_writes)

    @asynccontextmanager
    async def kept(self, connection: AsyncConnection, terms: Terms) -> AsyncIterator[None]:
        """See `Guard.kept`. On a connection that is read-only by itself, nothing is sent."""
        clock = await _clock_of(connection)
        is_ours = not await _refuses_writes(connection)
        if is_ours:
            await connection.exec_driver_sql(FORBID_WRITES)
        clock.ends_at = time.monotonic() + terms.limit.total_seconds()
        try:
            yield
        finally:
            clock.ends_at = math.inf
            if is_ours:
                await _allow_writes(connection)

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`."""
        await repeated_until_over(working, driver_of(connection).interrupt)

    @contextmanager
    def reading(self, connection: AsyncConnection) -> Iterator[None]:
        """See `Guard.reading`. A tenth of a microsecond for each text."""
        driver = driver_of(connection)
        if driver.text_factory is not str:  # the application's own
            yield
            return
        driver.text_factory = readable_text
        try:
            yield
        finally:
            driver.text_factory = str

    def fault_of(self, error: BaseException | None) -> Fault | None:
        """See `Guard.fault_of`."""
        code = getattr(error, "sqlite_errorcode", None)
        return None if code is None else _FAULTS.get(code & 0xFF)


def readable_text(stored: bytes) -> Any:
    """A text of a database, or an Unfit of one that is no UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return Unfit(stored.decode("utf-8", "backslashreplace"))


async def _clock_of(connection: AsyncConnection) -> Clock:
    """The connection's clock, installed once in its life."""
    memory = memory_of(connection)
    if _CLOCK not in memory:
        clock = Clock()
        installed = clock.install(driver_of(connection))
        if inspect.isawaitable(installed):
            await installed
        memory[_CLOCK] = clock
    found: Clock = memory[_CLOCK]
    return found


async def _refuses_writes(connection: AsyncConnection) -> bool:
    """Whether the connection is read-only without us; asked once in its life."""
    memory = memory_of(connection)
    if _REFUSES_WRITES not in memory:
        memory[_REFUSES_WRITES] = bool((await connection.exec_driver_sql("PRAGMA query_only")).scalar())
    return bool(memory[_REFUSES_WRITES])


async def _allow_writes(connection: AsyncConnection) -> None:
    # The application's engine must not get a connection back that still refuses writes.
    restored = False
    try:
        await connection.exec_driver_sql(_ALLOW_WRITES)
        restored = True
    finally:
        if not restored:
            await connection.invalidate()


def _forbid_writes(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(FORBID_WRITES)
    cursor.close()
    if hasattr(connection, "set_authorizer"):
        confine(connection)
    else:
        # aiosqlite has no name for these: its thread does what it is given.
        connection.run_async(lambda driver: driver._execute(confine, driver._conn))  # noqa: SLF001
