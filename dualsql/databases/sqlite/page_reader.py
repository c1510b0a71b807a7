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
from dualsql.databases.driver import DriverStatement, require_described
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

_REST, _REST_OF_NEW = 1_000, 50
"""So many times as long as a slow read took, the event loop does not try its statement again, and no statement for the
first time: whatever callers ask, they hold it up for a fiftieth of its time at most."""

_MOST_KNOWN = 1_000

_LONGEST = 20_000
"""Characters of a statement."""

_BUSY_PAGES, _BUSY_SECONDS = 100, 1.0
"""So many pages in so many seconds, and a process reads them."""

_MOST_FAILED_STARTS = 3

_FEW = 10_000
"""Rows of a stream that are read before a process has started."""


class FileReader:
    """A connection of the event loop's own; a process, once there are many pages.

    A page costs less than two thread switches. If a statement is slow on the event loop (a cold disk, a lock), SQLite
    stops it after `LOOP_LIMIT` seconds, and a session runs it again, which reports its error, if it has one.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path = str(Path(str(engine.url.database)).resolve())
        self._opened: tuple[sqlite3.Connection, TimeLimit] | None = None
        self._thread = 0
        self._rests_until: OrderedDict[str, float] = OrderedDict()
        self._new_rest_until = 0.0
        self._may_have_processes = not engine.url.query
        self._processes: ReaderProcesses | None = None
        self._page_process: PageProcess | None = None
        # Windows has no event loop that waits for pipes of another process.
        self._may_start_process = self._may_have_processes and sys.platform != "win32"
        self._recent: deque[float] = deque(maxlen=_BUSY_PAGES)
        self._failed_starts = 0

    def reads(self, sent: DriverStatement) -> bool:
        """See `PageReader.reads`."""
        # Nothing stops a match in a long text, or the preparation of a long statement.
        if f"{MATCH}(" in sent.sql or len(sent.sql) > _LONGEST:
            return False
        return time.monotonic() >= self._rests_until.get(sent.sql, self._new_rest_until)

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """See `PageReader.fetch`."""
        process = self._page_process
        if process is None or limit < process.limit or sent.sql not in self._rests_until:
            return self.fetch_at_once(sent, limit)
        rows = None
        if process.takes(sent.sql) and process.is_worth_asking():
            rows = await process.fetch(sent)
        return self.fetch_at_once(sent, limit) if rows is None else rows

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement, read by the event loop; None if it failed, or the event loop is another one."""
        if self._opened is None:
            self._opened, self._thread = connect(self._engine, on_event_loop=True), get_ident()
        if self._thread != get_ident():
            return None
        (connection, clock), rows = self._opened, None
        begun, worked = time.monotonic(), time.thread_time()
        clock.ends_at = begun + min(LOOP_LIMIT, limit.total_seconds())
        with suppress(sqlite3.Error):
            cursor = connection.execute(sent.sql, sent.parameters)
            require_described([column[0] for column in cursor.description], sent.described)
            rows = processed(next_rows(cursor), sent.processors())
        now, work = time.monotonic(), time.thread_time() - worked
        seconds = now - begun
        is_slow = work > _QUICK or seconds > LOOP_LIMIT
        self._rests_until[sent.sql] = now + _REST * seconds if is_slow or rows is None else 0.0
        self._rests_until.move_to_end(sent.sql)
        if len(self._rests_until) > _MOST_KNOWN:
            self._rests_until.popitem(last=False)
        if is_slow:
            self._new_rest_until = now + _REST_OF_NEW * seconds
        elif rows is not None:
            self._start_process_if_busy(now)
        return rows

    def _start_process_if_busy(self, now: float) -> None:
        """Start a process after many pages in a short time. Until it answers, pages are read without it."""
        former = self._page_process
        if not self._may_start_process or (former is not None and former.is_open):
            return
        self._recent.append(now)
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


async def choose_stream(job: StreamJob, connection: AsyncConnection, sent: DriverStatement) -> StreamBackend:
    """The stream backend for a statement on aiosqlite: that of the file's reader, if it has one for the statement."""
    reader = job.source.fast
    if not isinstance(reader, FileReader) or not isinstance(job.writer, BatchWriter):
        return by_sqlite_thread(sent)
    return reader.stream_backend(job, sent, await seconds_left(connection))
