"""SQLite: PRAGMA query_only, an authorizer, a time limit, and connections beside the pool."""

from __future__ import annotations

import asyncio
import inspect
import math
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.guard import (
    FailureKind,
    Guard,
    SessionTerms,
    driver_of,
    memory_of,
    repeated_until_over,
)
from dualsql.formats.cells import Unfit

# A call takes the GIL: at this pace, some hundred times a second.
_INSTRUCTIONS = 100_000

BLINK = 0.005
"""Seconds that an event loop may wait for SQLite itself."""

# Less than a millisecond.
_INSTRUCTIONS_IN_A_BLINK = 10_000


class TimeLimit:
    """The instant a connection's statement has to end at, on the clock of `time.monotonic`.

    SQLite has no time limit. It calls a progress handler every so many instructions, in the thread that runs the
    statement, and stops the statement when told to. A blocked event loop therefore does not keep a query running.
    """

    __slots__ = ("ends_at",)

    def __init__(self, ends_at: float = math.inf) -> None:
        self.ends_at = ends_at

    def is_over(self) -> bool:
        """SQLite's progress handler: true stops the statement."""
        return time.monotonic() > self.ends_at

    def install(self, driver: Any, *, for_a_blink: bool = False) -> Any:
        """Make `driver`, sqlite3's connection or aiosqlite's, look at this clock. The latter's must be awaited.

        Args:
            for_a_blink: look so often that a statement can be stopped within `BLINK`.
        """
        every = _INSTRUCTIONS_IN_A_BLINK if for_a_blink else _INSTRUCTIONS
        return driver.set_progress_handler(self.is_over, every)


REFUSED = 23
"""SQLITE_AUTH, the code of what is refused here."""

LARGEST_VALUE = 64 * 1024 * 1024
"""Bytes of one value that SQLite makes or reads."""

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}
)
# These reach query_only, whose refusal says what it is: CREATE, DROP and DELETE, INSERT, UPDATE, ALTER and the like.
_LEFT_TO_QUERY_ONLY = frozenset({*range(1, 19), sqlite3.SQLITE_UPDATE, 26, 27, 28, 29, 30}) - {19}
_SETTINGS = frozenset(
    {
        "data_version",
        "database_list",
        "encoding",
        "foreign_keys",
        "query_only",
        "read_uncommitted",
        "user_version",
    }
)
_ABOUT_TABLES = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)
_CODE = frozenset({"edit", "fts3_tokenizer", "load_extension", "readfile", "writefile"})


def confine(connection: sqlite3.Connection) -> None:
    """Let a connection of dualsql's own only read, and make no value that nobody could hold."""
    connection.set_authorizer(authorize)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)


def authorize(action: int, one: str | None, other: str | None, _database: Any, _trigger: Any) -> int:
    """SQLITE_OK for what reads; anything else is refused when it is prepared.

    `PRAGMA query_only` protects tables, but allows ATTACH, which makes files, other pragmas, which could end it, and
    functions that load code. See https://www.sqlite.org/c3ref/set_authorizer.html.
    """
    if action in _READS or action in _LEFT_TO_QUERY_ONLY:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        name = (one or "").lower()
        is_harmless = (name in _SETTINGS and other is None) or name in _ABOUT_TABLES
        return sqlite3.SQLITE_OK if is_harmless else sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (other or "").lower() not in _CODE:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


FORBID_WRITES = "PRAGMA query_only = ON"
_ALLOW_WRITES = "PRAGMA query_only = OFF"
_REFUSES_WRITES = "dualsql_refuses_writes"
_CLOCK = "dualsql_clock"

# Result codes; an extended one has its own bits above these. https://www.sqlite.org/rescode.html
_FAULTS = {
    8: FailureKind.WRITE,
    REFUSED: FailureKind.WRITE,
    9: FailureKind.TIMEOUT,
    18: FailureKind.SIZE,
    5: FailureKind.BUSY,
    6: FailureKind.BUSY,
    7: FailureKind.FULL,
    10: FailureKind.BROKEN,
    13: FailureKind.FULL,
    14: FailureKind.UNREACHABLE,
}


class SQLiteGuard(Guard):
    """Through aiosqlite, or sqlite3 in a thread."""

    def prepare(self, engine: Engine) -> None:
        """See `Guard.prepare`."""
        event.listen(engine, "connect", _forbid_writes)

    @asynccontextmanager
    async def kept(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
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

    def fault_of(self, error: BaseException | None) -> FailureKind | None:
        """See `Guard.fault_of`."""
        code = getattr(error, "sqlite_errorcode", None)
        return None if code is None else _FAULTS.get(code & 0xFF)


def readable_text(stored: bytes) -> Any:
    """A text of a database, or an Unfit of one that is no UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return Unfit(stored.decode("utf-8", "backslashreplace"))


async def _clock_of(connection: AsyncConnection) -> TimeLimit:
    """The connection's clock, installed once in its life."""
    memory = memory_of(connection)
    if _CLOCK not in memory:
        clock = TimeLimit()
        installed = clock.install(driver_of(connection))
        if inspect.isawaitable(installed):
            await installed
        memory[_CLOCK] = clock
    found: TimeLimit = memory[_CLOCK]
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
        connection.run_async(lambda driver: driver._execute(confine, driver._conn))


def next_rows(cursor: sqlite3.Cursor, most: int | None = None) -> list[Any]:
    """The next rows of a cursor, at most so many, or all of them; see `readable_text`.

    sqlite3 makes texts in C, and stops at one that is no UTF-8 without leaving its row: that row is read again, and
    the rest of these rows with it, by Python's code.
    """
    rows: list[Any] = []
    try:
        rows.extend(islice(cursor, most))
    except sqlite3.OperationalError as error:
        connection = cursor.connection
        if "decode to UTF-8" not in str(error) or connection.text_factory is not str:
            raise
        connection.text_factory = readable_text
        try:
            rows.extend(islice(cursor, None if most is None else most - len(rows)))
        finally:
            connection.text_factory = str
    return rows


def is_file(engine: Engine) -> bool:
    """Whether the engine reads a file through aiosqlite, and no database in memory."""
    path = engine.url.database or ":memory:"
    return engine.dialect.driver == "aiosqlite" and path != ":memory:" and not path.startswith("file:")


def connect(engine: Engine, *, for_a_blink: bool = False) -> tuple[sqlite3.Connection, TimeLimit]:
    """A connection for the thread that calls, and the clock it looks at.

    Args:
        for_a_blink: it is the event loop's: its clock is looked at more often, and no lock is waited for.
    """
    arguments: Any
    arguments, options = engine.dialect.create_connect_args(engine.url)
    own: dict[str, Any] = {**options, "check_same_thread": True, "isolation_level": None}
    connection = sqlite3.connect(*arguments, **own | ({"timeout": 0} if for_a_blink else {}))
    prepare: Any = engine.dialect.on_connect()
    if prepare is not None:  # the functions that its SQL relies on
        prepare(connection)
    connection.execute(FORBID_WRITES).close()
    confine(connection)
    clock = TimeLimit()
    clock.install(connection, for_a_blink=for_a_blink)
    return connection, clock
