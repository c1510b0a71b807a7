"""Reads fast pages of a SQLite file on the event loop, or by a process."""

from __future__ import annotations

import math
import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, util

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.driver import DriverStatement
from dualsql.databases.sqlite.connection import FORBID_WRITES, LOOP_LIMIT, TimeLimit, confine
from dualsql.databases.sqlite.rows import MAKES_LONG_VALUES, read_all
from dualsql.databases.streams import StreamBackend, StreamJob
from dualsql.formats.cells import without_collector
from dualsql.formats.writer import BatchWriter, LineWriter, PlainPage, Rows, WrittenRows

if sys.platform == "linux":
    from resource import RUSAGE_THREAD, getrusage

if TYPE_CHECKING:
    from dualsql.databases.sqlite.file_processes import FileProcesses

_QUICK = 0.002
"""Seconds below which a thread switch costs more than it saves."""

_MOST_KNOWN, _MOST_CREDIT = 1_000, 4
"""Statements, and the credit of one: a fast read adds 1, and a slow one halves it: one cold block is no reason."""

_LONGEST = 20_000
"""Characters of a statement."""

_MOST_BEFORE_START = 10_000
"""Rows of a stream that are read before a process has started."""

_BUSY_PAGES, _BUSY_SECONDS = 100, 1.0
"""So many pages in so many seconds, and a process reads them."""


def _disk_reads() -> float:
    """How often this thread has read from a disk; NaN, which equals nothing, where that is not known."""
    return getrusage(RUSAGE_THREAD).ru_inblock if sys.platform == "linux" else math.nan


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


class FileReader:
    """Reads fast pages with a connection of the event loop's own; by a process, once there are many of them.

    A page costs less than two thread switches. Only a statement that was fast in a session runs on the event loop:
    SQLite can stop it between instructions, and one of them may work on a long text for seconds. If it is slow there (a
    cold disk, a lock), it is stopped after `LOOP_LIMIT` seconds, and a session runs it again.
    """

    def __init__(self, engine: Engine, page_bytes: int) -> None:
        self._engine, self._page_bytes = engine, page_bytes
        self._path = str(Path(str(engine.url.database)).resolve())
        self._opened: tuple[sqlite3.Connection, TimeLimit] | None = None
        self._thread = 0
        self._credits: MutableMapping[str, int] = util.LRUCache(_MOST_KNOWN)
        # Settings of the URL are for this process's SQLite.
        self._may_have_processes = not engine.url.query
        self._processes: FileProcesses | None = None
        self._recent: deque[float] = deque(maxlen=_BUSY_PAGES)

    def reads(self, statement: DriverStatement) -> bool:
        return self._credits.get(statement.sql, 0) > 0

    def learn(self, sql: str, seconds: float) -> None:
        """Note how long a statement took, here or in a session. A fast one is read here until it is slow too often."""
        credit = self._credits.get(sql, 0)
        # Nothing stops the preparation of a long statement.
        may_be_fast = credit > 0 or (len(sql) <= _LONGEST and MAKES_LONG_VALUES.search(sql) is None)
        is_fast = seconds <= _QUICK and may_be_fast
        self._credits[sql] = min(credit + 1, _MOST_CREDIT) if is_fast else credit // 2

    def read(self, connection: sqlite3.Connection, statement: DriverStatement) -> Rows:
        """As `read_all`; learns how long the statement took."""
        reads, start, start_of_work, seconds = _disk_reads(), time.monotonic(), time.thread_time(), math.inf
        try:
            rows = read_all(connection, statement, self._page_bytes)
            # Python's lock and the processor are waited for because of others, for milliseconds each.
            is_in_memory = _disk_reads() == reads
            seconds = time.thread_time() - start_of_work if is_in_memory else time.monotonic() - start
        finally:
            self.learn(statement.sql, seconds)
        return rows

    async def fetch(
        self, statement: DriverStatement, limit: timedelta, page: PlainPage | None = None
    ) -> Rows | WrittenRows | None:
        written = None
        if page is not None and self._processes is not None:
            process = self._processes.page_process(statement, limit)
            written = None if process is None else await process.fetch(statement, page)
        return self.fetch_at_once(statement, limit) if written is None else written

    def fetch_at_once(self, statement: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement, read by the event loop; None if it failed, or the event loop is another one."""
        if self._opened is None:
            self._opened, self._thread = connect(self._engine, on_event_loop=True), threading.get_ident()
            with suppress(sqlite3.Error):  # reads the schema, which the first statement has not to answer for
                self._opened[0].execute("SELECT 1 FROM sqlite_master LIMIT 1").close()
        if self._thread != threading.get_ident():
            return None
        (connection, clock), rows = self._opened, None
        clock.ends_at = time.monotonic() + min(LOOP_LIMIT, limit.total_seconds())
        # A search for garbage takes up to 0.1 s, which would be the statement's.
        with suppress(sqlite3.Error), without_collector():
            rows = self.read(connection, statement)
        self._recent.append(time.monotonic())
        if len(self._recent) == _BUSY_PAGES and self._recent[-1] - self._recent[0] < _BUSY_SECONDS:
            self._recent.clear()
            if self.processes is not None:
                self.processes.start_for_pages()
        return rows

    def stream(
        self, job: StreamJob, statement: DriverStatement, seconds: float, thread: StreamBackend
    ) -> StreamBackend:
        """A reader process for batches of Arrow and for many lines; `thread` for others and what it cannot read.

        Args:
            seconds: the time that is left.
        """
        writer, limit = job.writer, getattr(internals.limit_clause(job.statement), "value", None)
        is_long = limit is None or limit > _MOST_BEFORE_START
        if not isinstance(writer, BatchWriter):
            is_long &= isinstance(writer, LineWriter) and (job.expected_rows or 0) > _MOST_BEFORE_START
        processes = self.processes if is_long else None
        return thread if processes is None else processes.stream(job, statement, seconds, thread)

    @property
    def processes(self) -> FileProcesses | None:
        """The reader processes of the file; None where apsw, their library, is not installed."""
        if self._may_have_processes and self._processes is None:
            self._may_have_processes = find_spec("apsw") is not None
            if self._may_have_processes:
                from dualsql.databases.sqlite.file_processes import FileProcesses

                self._processes = FileProcesses(self._path, self._page_bytes)
        return self._processes

    def close(self) -> None:
        """Close the connection, if this thread opened it, and end the processes."""
        self._may_have_processes = False
        if self._processes is not None:
            self._processes.close()
        if self._opened is not None and self._thread == threading.get_ident():
            self._opened[0].close()
        self._opened = None
