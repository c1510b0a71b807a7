"""Connections to SQLite: read-only mode, time limit, and reading rows of pages and streams.

Sessions have PRAGMA query_only, an authorizer and a time limit.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import sqlite3
import sys
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.backends import (
    DriverStatement,
    FailureKind,
    Guard,
    PageReaderBusyError,
    SessionTerms,
    TableName,
    driver_of,
    memory_of,
    repeat_until_done,
    require_described,
)
from dualsql.databases.sqlite.callbacks import FUNCTIONS, MATCH
from dualsql.databases.sqlite.processes import (
    PAGE_SECONDS,
    READING,
    PageProcess,
    ReaderProcesses,
    by_reader_process,
    folder_of_apsw,
    request_for,
)
from dualsql.databases.streams import Pace, Put, StreamBackend, StreamJob, next_chunk
from dualsql.formats.arrow import BatchWriter
from dualsql.formats.cells import Unfit, processed
from dualsql.formats.writer import Rows
from dualsql.freeze.row_number import ROW_NUMBERS

# A call takes the GIL: at this pace, some hundred times a second.
_INSTRUCTIONS = 100_000

LOOP_LIMIT = 0.005
"""Seconds that an event loop may wait for SQLite itself."""

# Less than a millisecond.
_INSTRUCTIONS_ON_LOOP = 10_000


class TimeLimit:
    """The time, by `time.monotonic`, at which a connection's statement must end.

    SQLite has no time limit. It calls a progress handler after a number of instructions, in the thread of the
    statement, and the handler can stop the statement. So a blocked event loop does not keep a query running.
    """

    __slots__ = ("ends_at",)

    def __init__(self, ends_at: float = math.inf) -> None:
        self.ends_at = ends_at

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

LARGEST_VALUE = 64 * 1024 * 1024
"""Bytes of one value that SQLite makes or reads."""

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}
)
# These are left to query_only, whose error is clearer: CREATE, DROP, DELETE, INSERT, UPDATE, ALTER and similar.
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

_FAULTS_BY_MESSAGE: Mapping[str, FailureKind] = {
    "misuse of aggregate": FailureKind.GROUPING,
    "HAVING clause on a non-aggregate query": FailureKind.GROUPING,
    "misuse of window function": FailureKind.WINDOW,
    "integer overflow": FailureKind.OVERFLOW,
    "malformed JSON": FailureKind.ARGUMENT,
    "user-defined function raised exception": FailureKind.ARGUMENT,
}
"""Errors with the code of any other error, by the beginning of their message."""


_TABLES = """
SELECT listed.name, (SELECT group_concat(lower(name), char(10)) FROM pragma_table_xinfo(listed.name))
FROM pragma_table_list AS listed WHERE listed.schema = 'main' AND listed.type = 'table' AND NOT listed.wr
"""
"""Tables, without views, virtual tables and those WITHOUT ROWID, and the names of their columns."""


class SQLiteGuard(Guard):
    """For aiosqlite, and sqlite3 in a thread."""

    def prepare(self, engine: Engine) -> None:
        """See `Guard.prepare`."""
        event.listen(engine, "connect", _forbid_writes)

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`. On a connection that is always read-only, nothing is sent."""
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

    async def row_numbers(self, connection: AsyncConnection) -> Mapping[TableName, str]:
        """See `Guard.row_numbers`. A column may have one of the names, and SQLite before 3.37 does not tell."""
        if sqlite3.sqlite_version_info < (3, 37):
            return {}
        rows: Any = await connection.exec_driver_sql(_TABLES)
        found: dict[TableName, str] = {}
        for name, columns in rows:
            free = [each for each in ROW_NUMBERS if each not in columns.split("\n")]
            if free:
                found[None, name] = found["main", name] = free[0]
        return found

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`."""
        reading = memory_of(connection).get(READING)
        if reading is not None:
            reading.stop()
        await repeat_until_done(working, driver_of(connection).interrupt)

    @contextmanager
    def tolerant_reading(self, connection: AsyncConnection) -> Iterator[None]:
        """See `Guard.tolerant_reading`. A tenth of a microsecond for each text."""
        driver = driver_of(connection)
        if driver.text_factory is not str:  # the application's own
            yield
            return
        driver.text_factory = readable_text
        try:
            yield
        finally:
            driver.text_factory = str

    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        """See `Guard.failure_kind`."""
        code = getattr(error, "sqlite_errorcode", None)
        message = str(error)
        for beginning, fault in _FAULTS_BY_MESSAGE.items():
            if message.startswith(beginning):
                return fault
        return None if code is None else _FAULTS.get(code & 0xFF)


def readable_text(stored: bytes) -> Any:
    """A text of the database; an Unfit if it is not valid UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return Unfit(stored.decode("utf-8", "backslashreplace"))


async def _clock_of(connection: AsyncConnection) -> TimeLimit:
    """The time limit of the connection, installed once."""
    memory = memory_of(connection)
    if _CLOCK not in memory:
        clock, driver = TimeLimit(), driver_of(connection)
        # On a connection of the application, where `regexp` stays its own.
        arguments, function = FUNCTIONS[MATCH]
        for installed in (
            clock.install(driver),
            driver.create_function(MATCH, arguments, function, deterministic=True),
        ):
            if inspect.isawaitable(installed):
                await installed
        memory[_CLOCK] = clock
    found: TimeLimit = memory[_CLOCK]
    return found


async def _refuses_writes(connection: AsyncConnection) -> bool:
    """Whether the connection was read-only before; checked once."""
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
    """The next rows of a cursor, at most so many, or all; see `readable_text`.

    sqlite3 decodes texts in C, and fails at invalid UTF-8 without leaving the row. That row and the rest of these rows
    are then decoded in Python.
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
    """Whether the engine reads a file through aiosqlite, not a database in memory."""
    path = engine.url.database or ":memory:"
    return engine.dialect.driver == "aiosqlite" and path != ":memory:" and not path.startswith("file:")


def connect(engine: Engine, *, on_event_loop: bool = False) -> tuple[sqlite3.Connection, TimeLimit]:
    """A connection for the calling thread, and its time limit.

    Args:
        on_event_loop: it is for the event loop: the time is checked more often, and it does not wait for locks.
    """
    arguments: Any
    arguments, options = engine.dialect.create_connect_args(engine.url)
    own: dict[str, Any] = {**options, "check_same_thread": True, "isolation_level": None}
    connection = sqlite3.connect(*arguments, **own | ({"timeout": 0} if on_event_loop else {}))
    prepare: Any = engine.dialect.on_connect()
    if prepare is not None:  # the functions that its SQL relies on
        prepare(connection)
    connection.execute(FORBID_WRITES).close()
    confine(connection)
    clock = TimeLimit()
    clock.install(connection, on_event_loop=on_event_loop)
    return connection, clock


_QUICK = 0.002
"""Seconds of work below which a thread switch costs more than it saves."""

_MOST_KNOWN = 1_000


def fetched(connection: sqlite3.Connection, sent: DriverStatement) -> Rows:
    """All rows of a statement from sqlite3; see `require_described`."""
    cursor = connection.execute(sent.sql, sent.parameters)
    require_described([column[0] for column in cursor.description], sent.described)
    return next_rows(cursor)


class EventLoopReader:
    """A connection of the event loop's own, and the statements that may use it.

    A page costs less than two thread switches. A statement that was fast in the thread runs on the event loop the next
    time. If it is slow there (another offset, a cold disk, a lock), SQLite stops it after `LOOP_LIMIT` seconds, and the
    thread runs it again.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opened: tuple[sqlite3.Connection, TimeLimit] | None = None
        self._thread = 0
        self._quick: OrderedDict[str, None] = OrderedDict()

    def learn(self, sent: DriverStatement, work: float, wait: float) -> None:
        """Record the time of a statement in the thread: seconds of work, and seconds in total."""
        # With another pattern or text, a match may take longer, and nothing stops it.
        if work > _QUICK or wait > LOOP_LIMIT or f"{MATCH}(" in sent.sql:
            self.forget(sent)
            return
        self._quick[sent.sql] = None
        self._quick.move_to_end(sent.sql)
        if len(self._quick) > _MOST_KNOWN:
            self._quick.popitem(last=False)

    def is_quick(self, sent: DriverStatement) -> bool:
        """Whether the statement may use this connection."""
        return sent.sql in self._quick

    def forget(self, sent: DriverStatement) -> None:
        """Let the statement run in the thread again, which finds its time or its error."""
        self._quick.pop(sent.sql, None)

    def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement; None if it must run in the thread, also to report its error."""
        if not self.is_quick(sent):
            return None
        begun = time.monotonic()
        try:
            found = self._fetch(sent, begun + min(LOOP_LIMIT, limit.total_seconds()))
        except sqlite3.Error:
            found = None
        if found is None or time.monotonic() - begun > LOOP_LIMIT:
            self.forget(sent)
        return found

    def _fetch(self, sent: DriverStatement, ends_at: float) -> Rows | None:
        if self._opened is None:
            self._opened, self._thread = connect(self._engine, on_event_loop=True), get_ident()
        if self._thread != get_ident():
            return None
        connection, clock = self._opened
        clock.ends_at = ends_at
        return processed(fetched(connection, sent), sent.processors())

    def close(self) -> None:
        """Close the connection, if it was opened by this thread."""
        if self._opened is not None and self._thread == get_ident():
            self._opened[0].close()
        self._opened = None


_HELD_UP = 0.02
"""Seconds after which a statement delays others too long."""

_LONGEST_WAIT = 0.1
"""Seconds that a statement waits for the thread."""

_MOST_WAITING = 32


_BUSY_PAGES, _BUSY_SECONDS = 100, 1.0
"""So many pages in so many seconds, and a process reads them."""

_MOST_FAILED_STARTS = 3


class FileReader:
    """A thread with its connection, both made at first use; a process, once there are many pages to read.

    Most of the cost of a page is not its query but the switches between event loop and thread: SQLAlchemy over
    aiosqlite makes five. Here the event loop compiles, and the thread executes, fetches and converts. There is one
    thread, because several would compete for Python's lock at each row. While a slow statement occupies it, pages use
    the pool.

    Attributes:
        processes: read streams.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._immediate = EventLoopReader(engine)
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._waiting = 0
        self._running_since: float | None = None
        self.processes = ReaderProcesses()
        self._page_process: PageProcess | None = None
        # Windows has no event loop that waits for pipes of another process.
        self._may_start_process = not engine.url.query and sys.platform != "win32"
        self._recent: deque[float] = deque(maxlen=_BUSY_PAGES)
        self._failed_starts = 0

    def _is_free(self) -> bool:
        """Whether the thread would start a statement at once, or almost."""
        since = self._running_since
        held_up = since is not None and time.monotonic() - since > _HELD_UP
        return self._waiting < _MOST_WAITING and not held_up

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement that is known to be fast; None for any other one, which `fetch` runs."""
        process = self._process_for(sent, limit)
        if process is not None and process.is_worth_asking():
            return None
        found = self._immediate.fetch(sent, limit)
        if found is not None:
            self._start_process_if_busy()
        return found

    def _process_for(self, sent: DriverStatement, limit: timedelta) -> PageProcess | None:
        """The process, if it reads this statement."""
        process = self._page_process
        if process is None or not process.takes(sent.sql) or not self._immediate.is_quick(sent):
            return None
        return process if limit.total_seconds() >= PAGE_SECONDS else None

    def _start_process_if_busy(self) -> None:
        """Start a process after many pages in a short time. Until it answers, pages are read without it."""
        former = self._page_process
        if not self._may_start_process or (former is not None and former.is_open):
            return
        self._recent.append(now := time.monotonic())
        if len(self._recent) < _BUSY_PAGES or now - self._recent[0] > _BUSY_SECONDS:
            return
        self._recent.clear()
        self._failed_starts += former is not None and not former.was_ready
        folder = folder_of_apsw()
        if folder is None or self._failed_starts >= _MOST_FAILED_STARTS:
            self._may_start_process = False
            return
        path = str(Path(str(self._engine.url.database)).resolve())
        # Without a process where there are too many, or too many open files.
        with suppress(OSError):
            self._page_process = PageProcess(self.processes.take(folder), path)

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows:
        """All rows of a statement, with the time limit `limit`.

        Raises:
            PageReaderBusyError: the statement was not started in time, and will not be started.
            QueryExecutionError: it has other columns than described.
            sqlite3.Error: the error of the database.
        """
        process = self._process_for(sent, limit)
        if process is not None:
            found = await process.fetch(sent)
            if found is not None:
                return found
            self._immediate.forget(sent)
        if not self._is_free():
            raise PageReaderBusyError
        # A daemon: a process that ends does not wait for a statement.
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="dualsql-pages", daemon=True)
            self._thread.start()
        task = _Task(sent, limit)
        self._waiting += 1
        self._tasks.put(task)
        withdrawal = asyncio.get_running_loop().call_later(_LONGEST_WAIT, task.withdraw)
        try:
            rows = await task.answer
            # What was fast in the thread may run on the event loop the next time.
            self._immediate.learn(sent, *task.took)
            return rows
        except asyncio.CancelledError:
            task.abandon()
            raise
        finally:
            withdrawal.cancel()
            self._waiting -= 1

    def abandon(self) -> None:
        """Stop the thread without waiting for it."""
        self._close_processes()
        self._immediate.close()
        self._tasks.put(None)

    async def close(self) -> None:
        """Stop the thread and wait for it."""
        self._close_processes()
        self._immediate.close()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._tasks.put(None)
            await asyncio.to_thread(thread.join)

    def _close_processes(self) -> None:
        self._may_start_process = False
        self.processes.close()
        if self._page_process is not None:
            self._page_process.close()

    def _serve(self) -> None:
        connection = clock = None
        while (task := self._tasks.get()) is not None:
            try:
                # In this thread, on the first statement: a connection of sqlite3 belongs to one thread.
                if connection is None or clock is None:
                    connection, clock = connect(self._engine)
                self._running_since = time.monotonic()
                task.run(connection, clock)
            # The caller gets any error; the thread continues.
            except BaseException as error:  # noqa: BLE001
                task._deliver(task.answer.set_exception, error)
            self._running_since = None
        if connection is not None:
            connection.close()


class _Task:
    """A statement on its way from the event loop to the thread and back."""

    def __init__(self, sent: DriverStatement, limit: timedelta) -> None:
        self._sent = sent
        self._limit = limit.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._running: tuple[sqlite3.Connection, TimeLimit] | None = None
        self._has_begun = self._is_abandoned = False
        self.took = (0.0, 0.0)  # seconds of work, and in all
        self.answer: asyncio.Future[Rows] = self._loop.create_future()

    def run(self, connection: sqlite3.Connection, clock: TimeLimit) -> None:
        """In the thread: execute, fetch, convert."""
        with self._lock:
            # The caller left while this waited in the queue.
            if self._is_abandoned:
                return
            self._has_begun, self._running = True, (connection, clock)
            begun, worked = time.monotonic(), time.thread_time()
            clock.ends_at = begun + self._limit
        try:
            rows = fetched(connection, self._sent)
        finally:
            # From here on an interrupt would hit the next statement of the connection.
            with self._lock:
                self._running = None
        found = processed(rows, self._sent.processors())
        self.took = (time.thread_time() - worked, time.monotonic() - begun)
        self._deliver(self.answer.set_result, found)

    def _deliver(self, say: Callable[[Any], None], what: Any) -> None:
        """In the thread: report the result to the event loop, if the loop still runs."""

        def heard() -> None:
            if not self.answer.done():
                say(what)

        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(heard)

    def withdraw(self) -> None:
        """On the event loop: give up if the statement was not started."""
        with self._lock:
            if self._has_begun or self.answer.done():
                return
            self._is_abandoned = True
        self.answer.set_exception(PageReaderBusyError())

    def abandon(self) -> None:
        """On the event loop: stop this statement in the database, and no other one."""
        with self._lock:
            self._is_abandoned = True
            if self._running is not None:
                connection, clock = self._running
                connection.interrupt()
                # An interrupt has no effect while SQLite prepares the statement; the time limit applies once it runs.
                clock.ends_at = 0.0


def file_reader(engine: Engine) -> FileReader | None:
    """A reader of the same file, for an engine that was made here; None if it is not a file."""
    return FileReader(engine) if is_file(engine) else None


async def choose_stream(job: StreamJob, connection: AsyncConnection, sent: DriverStatement) -> StreamBackend:
    """The stream backend for a statement on aiosqlite.

    A reader process makes batches of the rows of a file that dualsql opened itself: an engine of the application may
    have tables and files of its own. With `text_columns`, texts that are not valid UTF-8 are shown, which the process
    cannot read.
    """
    plain, reader, folder = by_sqlite_thread(sent), job.source.quick, folder_of_apsw()
    if folder is None or not isinstance(reader, FileReader) or not isinstance(job.writer, BatchWriter):
        return plain
    url, most = job.source.engine.url, getattr(internals.limit_clause(job.statement), "value", None)
    is_short = most is not None and most <= _FEW
    if url.query or job.writer.arrow.texts or is_short:
        return plain
    seconds = (await _clock_of(connection)).ends_at - time.monotonic()
    request = request_for(str(url.database), sent, seconds, LARGEST_VALUE)
    if request is None:
        return plain
    return by_reader_process(reader.processes, folder, request, sent, plain)


_FEW = 10_000
"""Rows that are read before a process has started."""


def by_sqlite_thread(sent: DriverStatement) -> StreamBackend:
    """Fetch and encode in the thread of aiosqlite's connection, with one thread switch and bytes for each batch."""

    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        driver = driver_of(connection)
        cursor = await driver._execute(driver._conn.execute, sent.sql, sent.parameters)
        fetching = partial(next_chunk, job, Pace(), partial(next_rows, cursor), sent.processors())
        try:
            require_described([column[0] for column in cursor.description], sent.described)
            while (chunk := await driver._execute(fetching)) is not None:
                await put(chunk)
        finally:
            await driver._execute(cursor.close)

    return backend
