"""Reads pages of a SQLite file on the event loop, and by a process while there are many of them."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections import OrderedDict, deque
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, cast

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.driver import DriverStatement, driver_of, require_described
from dualsql.databases.fetch import Fetch
from dualsql.databases.sqlite.callbacks import MATCH
from dualsql.databases.sqlite.connection import (
    LOOP_LIMIT,
    TimeLimit,
    by_sqlite_thread,
    connect,
    is_file,
    next_rows,
    seconds_left,
)
from dualsql.databases.streams import StreamBackend, StreamJob
from dualsql.formats.cells import processed
from dualsql.formats.writer import BatchWriter, Rows

if TYPE_CHECKING:
    from dualsql.databases.sqlite.page_process import PageProcess
    from dualsql.databases.sqlite.processes import ReaderProcesses

_QUICK = 0.002
"""Seconds of work below which a thread switch costs more than it saves."""

_MOST_KNOWN = 1_000

_BUSY_PAGES, _BUSY_SECONDS = 100, 1.0
"""So many pages in so many seconds, and a process reads them."""

_MOST_FAILED_STARTS = 3

_FEW = 10_000
"""Rows of a stream that are read before a process has started."""


class FileReader:
    """A connection of the event loop's own, and the statements that may use it; a process, once there are many pages.

    A page costs less than two thread switches. A statement that was fast in a session runs on the event loop the next
    time. If it is slow there (another offset, a cold disk, a lock), SQLite stops it after `LOOP_LIMIT` seconds, and a
    session runs it again, which finds its time or its error.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path = str(Path(str(engine.url.database)).resolve())
        self._opened: tuple[sqlite3.Connection, TimeLimit] | None = None
        self._thread = 0
        self._quick: OrderedDict[str, None] = OrderedDict()
        self._may_have_processes = not engine.url.query
        self._processes: ReaderProcesses | None = None
        self._page_process: PageProcess | None = None
        # Windows has no event loop that waits for pipes of another process.
        self._may_start_process = self._may_have_processes and sys.platform != "win32"
        self._recent: deque[float] = deque(maxlen=_BUSY_PAGES)
        self._failed_starts = 0

    def learn(self, sql: str, work: float, wait: float) -> None:
        """Record the time of a statement in a thread: seconds of work, and seconds in total."""
        # With another pattern or text, a match may take longer, and nothing stops it.
        if work > _QUICK or wait > LOOP_LIMIT or f"{MATCH}(" in sql:
            self._quick.pop(sql, None)
            return
        self._quick[sql] = None
        self._quick.move_to_end(sql)
        if len(self._quick) > _MOST_KNOWN:
            self._quick.popitem(last=False)

    def reads(self, sent: DriverStatement) -> bool:
        """See `PageReader.reads`."""
        return sent.sql in self._quick

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """See `PageReader.fetch`."""
        process = self._page_process
        if (
            process is not None
            and process.takes(sent.sql)
            and limit >= process.limit
            and process.is_worth_asking()
        ):
            rows = await process.fetch(sent)
        else:
            rows = self.fetch_at_once(sent, limit)
            if rows is not None:
                self._start_process_if_busy()
        if rows is None:
            self._quick.pop(sent.sql, None)
        return rows

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement, read by the event loop; None if it failed, or the event loop is another one."""
        if self._opened is None:
            self._opened, self._thread = connect(self._engine, on_event_loop=True), get_ident()
        if self._thread != get_ident():
            return None
        connection, clock = self._opened
        begun = time.monotonic()
        clock.ends_at = begun + min(LOOP_LIMIT, limit.total_seconds())
        try:
            rows = processed(_fetched(connection, sent), sent.processors())
        except sqlite3.Error:
            return None
        if time.monotonic() - begun > LOOP_LIMIT:
            self._quick.pop(sent.sql, None)
        return rows

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

    def stream_backend(self, job: StreamJob, sent: DriverStatement, seconds: float) -> StreamBackend:
        """A backend for a writer of Arrow batches: a reader process makes them, if it can read the statement.

        With `text_columns`, texts that are not valid UTF-8 are shown, which the process cannot read.

        Args:
            seconds: the time that is left.
        """
        thread = by_sqlite_thread(sent)
        most = getattr(internals.limit_clause(job.statement), "value", None)
        is_short = most is not None and most <= _FEW
        if is_short or self.processes is None or cast("BatchWriter", job.writer).arrow.texts:
            return thread
        from dualsql.databases.sqlite.process_stream import by_reader_process

        return by_reader_process(self.processes, self._path, sent, seconds, thread)

    def close(self) -> None:
        """Close the connection, if this thread opened it, and end the processes."""
        self._may_start_process = self._may_have_processes = False
        if self._processes is not None:
            self._processes.close()
        if self._page_process is not None:
            self._page_process.close()
        if self._opened is not None and self._thread == get_ident():
            self._opened[0].close()
        self._opened = None


def file_reader(engine: Engine) -> FileReader | None:
    """A reader of the same file, for an engine that was made here; None if it is not a file."""
    return FileReader(engine) if is_file(engine) else None


async def fetch_in_thread(fetch: Fetch, connection: AsyncConnection) -> Rows:
    """All rows of a statement, with one switch to the connection's thread, which finds out whether it is fast."""
    reader, sent = fetch.source.fast, fetch.sent(connection.dialect)
    if not isinstance(reader, FileReader) or sent is None:
        return cast("Rows", (await fetch.execute(connection)).all())
    driver = driver_of(connection)

    def run() -> tuple[Rows, float, float]:
        begun, worked = time.monotonic(), time.thread_time()
        rows = processed(_fetched(driver._conn, sent), sent.processors())
        return rows, time.thread_time() - worked, time.monotonic() - begun

    found: tuple[Rows, float, float] = await driver._execute(run)
    rows, work, wait = found
    reader.learn(sent.sql, work, wait)
    return rows


def _fetched(connection: sqlite3.Connection, sent: DriverStatement) -> Rows:
    cursor = connection.execute(sent.sql, sent.parameters)
    require_described([column[0] for column in cursor.description], sent.described)
    return next_rows(cursor)


async def choose_stream(job: StreamJob, connection: AsyncConnection, sent: DriverStatement) -> StreamBackend:
    """The stream backend for a statement on aiosqlite: that of the file's reader, if it has one for the statement."""
    reader = job.source.fast
    if not isinstance(reader, FileReader) or not isinstance(job.writer, BatchWriter):
        return by_sqlite_thread(sent)
    return reader.stream_backend(job, sent, await seconds_left(connection))
