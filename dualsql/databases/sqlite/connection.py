"""Connections to SQLite: read-only mode, time limit, and the rows of their statements.

Sessions have PRAGMA query_only, an authorizer and a time limit.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.driver import ON_STOP, DriverStatement, driver_of, memory_of
from dualsql.databases.guard import (
    FailureKind,
    Guard,
    SessionTerms,
    TableName,
    repeat_until_done,
    run_or_close,
)
from dualsql.databases.sqlite.callbacks import FUNCTIONS, LARGEST_VALUE, MATCH
from dualsql.databases.streams import StreamBackend, StreamJob
from dualsql.errors import ConfigurationError
from dualsql.formats.writer import Rows
from dualsql.freeze.row_number import ROW_NUMBERS

if TYPE_CHECKING:
    from dualsql.databases.fetch import Fetch

# A call takes the GIL: at this pace, some hundred times a second.
_INSTRUCTIONS = 100_000

LOOP_LIMIT = 0.005
"""Seconds that an event loop may wait for SQLite itself."""

# A fifth of a millisecond, unless each copies a long text.
_INSTRUCTIONS_ON_LOOP = 2_000


class TimeLimit:
    """The time, by `time.monotonic`, at which a connection's statement must end.

    SQLite has no time limit. It calls a progress handler after a number of instructions, in the thread of the
    statement, and the handler can stop the statement. So a blocked event loop does not keep a query running.
    """

    __slots__ = ("ends_at",)

    def __init__(self) -> None:
        self.ends_at = math.inf

    def is_over(self) -> bool:
        """SQLite's progress handler: true stops the statement."""
        return time.monotonic() > self.ends_at

    def install(self, driver: Any, *, on_event_loop: bool = False) -> Any:
        """Install the progress handler on a connection of sqlite3 or aiosqlite; for aiosqlite, await the result.

        Args:
            on_event_loop: check so often that a statement can be stopped within `LOOP_LIMIT`.
        """
        every = _INSTRUCTIONS_ON_LOOP if on_event_loop else _INSTRUCTIONS
        return driver.set_progress_handler(self.is_over, every)


REFUSED = 23
"""SQLITE_AUTH, the code of what is refused here."""

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}
)
# These are left to query_only, whose error is clearer: CREATE, DROP, DELETE, INSERT, UPDATE, ALTER and similar.
_LEFT_TO_QUERY_ONLY = frozenset({*range(1, 19), sqlite3.SQLITE_UPDATE, 26, 27, 28, 29, 30}) - {19}
_SETTINGS = frozenset({
    "data_version", "database_list", "encoding", "foreign_keys", "query_only", "read_uncommitted", "user_version",
})  # fmt: skip
_ABOUT_TABLES = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)
_CODE = frozenset({"edit", "fts3_tokenizer", "load_extension", "readfile", "writefile"})


def confine(connection: sqlite3.Connection) -> None:
    """Restrict a connection that dualsql made: it only reads, values have a largest size, Python functions are ours."""
    for name, (arguments, function) in FUNCTIONS.items():
        connection.create_function(name, arguments, function, deterministic=True)
    connection.set_authorizer(authorize)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)


def authorize(action: int, one: str | None, other: str | None, _database: Any, _trigger: Any) -> int:
    """SQLITE_OK for actions that read; all others are refused when the statement is prepared.

    `PRAGMA query_only` protects tables, but allows ATTACH, which creates files, other pragmas, which could turn it off,
    and functions that load code. See https://www.sqlite.org/c3ref/set_authorizer.html.
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
_STATE = "dualsql_state"

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

_FAULTS_BY_MESSAGE: Mapping[str, FailureKind] = {
    "misuse of aggregate": FailureKind.GROUPING,
    "HAVING clause on a non-aggregate query": FailureKind.GROUPING,
    "misuse of window function": FailureKind.WINDOW,
    "integer overflow": FailureKind.OVERFLOW,
    "parser stack overflow": FailureKind.DEPTH,
    "malformed JSON": FailureKind.DOCUMENT,
    "user-defined function raised exception": FailureKind.CALLBACK,
}
"""Errors with the code of any other error, by the beginning of their message."""


_TABLES = """
SELECT t.schema, t.name, group_concat(lower(c.name), char(10)) FROM pragma_table_list AS t,
pragma_table_xinfo(t.name, t.schema) AS c WHERE t.type = 'table' AND NOT t.wr GROUP BY t.schema, t.name
HAVING max(c.pk) = 0 OR max(c.pk AND NOT c."notnull")
AND EXISTS (SELECT 1 FROM pragma_index_list(t.name, t.schema) WHERE origin = 'pk')
"""
"""Tables with numbered rows, if their key may be NULL: one without an index is the number itself; and their columns."""


class SQLiteGuard(Guard):
    """For aiosqlite, and sqlite3 in a thread."""

    def prepare(self, engine: Engine) -> None:
        event.listen(engine, "connect", _forbid_writes)

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`. On a connection that is always read-only, nothing is sent."""
        clock, refuses_writes = await _state_of(connection)
        if not refuses_writes:
            await connection.exec_driver_sql(FORBID_WRITES)
        clock.ends_at = time.monotonic() + terms.limit.total_seconds()
        try:
            yield
        except BaseException:
            # If the event loop ends, a statement goes on in the thread, and the connection waits for it.
            clock.ends_at = 0.0
            raise
        finally:
            if not refuses_writes:
                await run_or_close(connection, "PRAGMA query_only = OFF")
            elif clock.ends_at == 0.0:
                with suppress(Exception):  # it ends behind the statement in the thread, if there is one
                    await connection.exec_driver_sql("SELECT 1")
            # The connection may be the application's, which has no limit.
            clock.ends_at = math.inf

    async def renew_limit(self, connection: AsyncConnection, terms: SessionTerms, *, is_new: bool) -> None:
        (await _state_of(connection)).clock.ends_at = time.monotonic() + terms.limit.total_seconds()

    async def row_numbers(self, connection: AsyncConnection) -> Mapping[TableName, str]:
        """See `Guard.row_numbers`. A column may have one of the names, and SQLite before 3.37 does not tell."""
        if sqlite3.sqlite_version_info < (3, 37):
            return {}
        rows: Any = await connection.exec_driver_sql(_TABLES)
        return {
            (key, name): next((each for each in ROW_NUMBERS if each not in columns.split("\n")), "")
            for schema, name, columns in rows
            for key in {schema, None if schema == "main" else schema}
        }

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        stop_elsewhere = memory_of(connection).get(ON_STOP)
        if stop_elsewhere is not None:
            stop_elsewhere()
        await repeat_until_done(working, driver_of(connection).interrupt)

    def require_size(self, rows: Rows, most: int) -> None:
        from dualsql.databases.sqlite.rows import require_size

        require_size([*map(tuple, rows)], most)

    @contextmanager
    def tolerant_reading(self, connection: AsyncConnection) -> Iterator[None]:
        """See `Guard.tolerant_reading`. A tenth of a microsecond for each text."""
        driver = driver_of(connection)
        if driver.text_factory is not str:  # the application's own
            yield
            return
        from dualsql.databases.sqlite.rows import readable_text

        driver.text_factory = readable_text
        try:
            yield
        finally:
            with suppress(ValueError):  # a cancellation has closed it
                driver.text_factory = str

    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        code = getattr(error, "sqlite_errorcode", None)
        message = str(error)
        for beginning, fault in _FAULTS_BY_MESSAGE.items():
            if message.startswith(beginning):
                return fault
        return None if code is None else _FAULTS.get(code & 0xFF)


class _State(NamedTuple):
    """What is known of a driver's connection.

    Attributes:
        refuses_writes: it was read-only before, as those are that dualsql made.
    """

    clock: TimeLimit
    refuses_writes: bool


async def _state_of(connection: AsyncConnection) -> _State:
    """The time limit of the connection, installed once, and its mode, asked once."""
    memory = memory_of(connection)
    if _STATE not in memory:
        clock, driver = TimeLimit(), driver_of(connection)
        if not hasattr(driver, "set_progress_handler"):
            raise ConfigurationError(
                f"The driver {connection.dialect.driver[:40]} cannot be kept read-only: it is not SQLite's own.",
                hint="Use aiosqlite or sqlite3, or add a database whose dialect has a name of its own.",
            )
        # On a connection of the application, where `regexp` stays its own.
        arguments, function = FUNCTIONS[MATCH]
        install_match = partial(driver.create_function, MATCH, arguments, function, deterministic=True)
        try:
            for install in (partial(clock.install, driver), install_match):
                if inspect.isawaitable(installed := install()):
                    await installed
        finally:
            # Also if the event loop ends: the thread answers before the connection goes back to its pool.
            refuses_writes = bool((await connection.exec_driver_sql("PRAGMA query_only")).scalar())
        memory[_STATE] = _State(clock, refuses_writes)
    state: _State = memory[_STATE]
    return state


def _forbid_writes(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(FORBID_WRITES)
    cursor.close()
    if hasattr(connection, "set_authorizer"):
        confine(connection)
    else:
        # aiosqlite has no name for these: its thread does what it is given.
        connection.run_async(lambda driver: driver._execute(confine, driver._conn))
        connection.run_async(lambda driver: driver._execute(run_after_event_loop))


_LOWER = 5
"""How much lower the priority of a thread that runs statements is: it gets a third of what others get."""


def run_after_event_loop() -> None:
    """Let the event loop go before the statements of the present thread.

    Ten long statements and an event loop get an eleventh of the CPUs each. So pages of others took up to 1.4 s beside
    them, and take up to 0.1 s with this (99 of 100; tests/drills/test_crowds.py).
    """
    if _may_set_priority():
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _LOWER)


@cache
def _may_set_priority() -> bool:
    """Whether a thread has a priority of its own, and a process that sets one is not killed for it."""
    if sys.platform != "linux":
        return False
    if "\nSeccomp:\t0\n" in Path("/proc/self/status").read_text():
        return True
    # A filter of system calls is in force, such as systemd's SystemCallFilter: a process tries.
    trial = "import os; os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))"
    command = [sys.executable, "-S", "-E", "-c", trial]
    ended = subprocess.run(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, check=False)  # noqa: S603
    return ended.returncode == 0


async def choose_stream(
    job: StreamJob, connection: AsyncConnection, statement: DriverStatement
) -> StreamBackend:
    """The stream backend for a statement on aiosqlite: a reader process of the file, where it saves time."""
    from dualsql.databases.sqlite.rows import by_sqlite_thread

    thread, reader = by_sqlite_thread(statement), cast("Any", job.source.fast)
    if reader is None:
        return thread
    seconds = (await _state_of(connection)).clock.ends_at - time.monotonic()
    return cast("StreamBackend", reader.stream(job, statement, seconds, thread))


async def fetch_in_thread(fetch: Fetch, connection: AsyncConnection) -> Rows:
    """All rows of a statement, with one switch to the connection's thread, which finds whether it is fast."""
    reader, statement = cast("Any", fetch.source.fast), fetch.statement_for(connection.dialect)
    if statement is None or (reader is None and internals.logs(fetch.source.engine.sync_engine)):
        return await fetch.rows_of_sqlalchemy(connection)
    from dualsql.databases.sqlite.rows import read_all

    read = partial(read_all, most_bytes=fetch.source.limits.page_bytes) if reader is None else reader.read
    driver = driver_of(connection)
    return cast("Rows", await driver._execute(read, driver._conn, statement))
