"""Reads pages of a SQLite file without the pool: on the event loop, in a thread, or by a process beside the server."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Engine

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.backends import PageReaderBusyError
from dualsql.databases.driver import DriverStatement, require_described
from dualsql.databases.sqlite.callbacks import MATCH
from dualsql.databases.sqlite.connection import LOOP_LIMIT, TimeLimit, connect, is_file, next_rows
from dualsql.databases.streams import StreamBackend, StreamJob
from dualsql.formats.cells import processed
from dualsql.formats.writer import BatchWriter, Rows
from dualsql.threads import without_collector

if TYPE_CHECKING:
    from dualsql.databases.sqlite.page_process import PageProcess
    from dualsql.databases.sqlite.processes import ReaderProcesses

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

_FEW = 10_000
"""Rows of a stream that are read before a process has started."""


class FileReader:
    """A thread with its connection, both made at first use; a process, once there are many pages to read.

    Most of the cost of a page is not its query but the switches between event loop and thread: SQLAlchemy over
    aiosqlite makes five. Here the event loop compiles, and the thread executes, fetches and converts. There is one
    thread, because several would compete for Python's lock at each row. While a slow statement occupies it, pages use
    the pool.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path = str(Path(str(engine.url.database)).resolve())
        self._immediate = EventLoopReader(engine)
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._waiting = 0
        self._running_since: float | None = None
        self._may_have_processes = not engine.url.query
        self._processes: ReaderProcesses | None = None
        self._page_process: PageProcess | None = None
        # Windows has no event loop that waits for pipes of another process.
        self._may_start_process = self._may_have_processes and sys.platform != "win32"
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
        return process if limit >= process.limit else None

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
        if self.processes is None or self._failed_starts >= _MOST_FAILED_STARTS:
            self._may_start_process = False
            return
        from dualsql.databases.sqlite.page_process import PageProcess

        # Without a process where there are too many, or too many open files.
        with suppress(OSError):
            self._page_process = PageProcess(self.processes.take(), self._path)

    @property
    def processes(self) -> ReaderProcesses | None:
        """They read for streams, and pages of a busy server; None where apsw, their library, is not installed."""
        if self._processes is None and self._may_have_processes:
            from dualsql.databases.sqlite.processes import reader_processes

            self._processes = reader_processes()
            self._may_have_processes = self._processes is not None
        return self._processes

    def stream_backend(
        self, job: StreamJob, sent: DriverStatement, seconds: float, *, otherwise: StreamBackend
    ) -> StreamBackend:
        """See `PageReader.stream_backend`. A reader process makes the batches of Arrow, if it can read the statement.

        With `text_columns`, texts that are not valid UTF-8 are shown, which the process cannot read.
        """
        most = getattr(internals.limit_clause(job.statement), "value", None)
        is_short = most is not None and most <= _FEW
        if is_short or self.processes is None or cast("BatchWriter", job.writer).arrow.texts:
            return otherwise
        from dualsql.databases.sqlite.process_stream import by_reader_process

        return by_reader_process(self.processes, self._path, sent, seconds, otherwise)

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
        self._may_start_process = self._may_have_processes = False
        if self._processes is not None:
            self._processes.close()
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
        with without_collector():
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
