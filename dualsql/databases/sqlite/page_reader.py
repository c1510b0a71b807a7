"""Reads pages of a SQLite file on the event loop, and by a process while there are many of them."""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections import OrderedDict, deque
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, cast

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.driver import DriverStatement, driver_of, require_described
from dualsql.databases.fetch import Fetch
from dualsql.databases.sqlite.callbacks import MATCH
from dualsql.databases.sqlite.connection import LOOP_LIMIT, TimeLimit, connect, next_rows
from dualsql.formats.cells import processed
from dualsql.formats.writer import Rows

if TYPE_CHECKING:
    from dualsql.databases.sqlite.file_processes import FileProcesses

_QUICK = 0.002
"""Seconds of work below which a thread switch costs more than it saves."""

_MOST_KNOWN = 1_000

_LONGEST = 20_000
"""Characters of a statement."""

_UNBOUNDED = re.compile(
    rf"\|\||\b(?:LIKE|GLOB)\b|\b(?:{MATCH}|format|group_concat|hex|instr|json\w*|l?trim|printf|quote|replace|rtrim"
    r"|string_agg|zeroblob)\s*\(",
    re.IGNORECASE,
)
"""Their time is not linear in a text, or they return a longer one. A statement that was fast may be slow with other
values, and nothing stops a call."""

_BUSY_PAGES, _BUSY_SECONDS = 100, 1.0
"""So many pages in so many seconds, and a process reads them."""


class FileReader:
    """Reads fast pages with a connection of the event loop's own; by a process, once there are many of them.

    A page costs less than two thread switches. Only a statement that was fast in a session runs on the event loop:
    SQLite can stop it between instructions, and one of them may work on a long text for seconds. If it is slow there (a
    cold disk, a lock), it is stopped after `LOOP_LIMIT` seconds, and a session runs it again and finds its time, or its
    error.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._path = str(Path(str(engine.url.database)).resolve())
        self._opened: tuple[sqlite3.Connection, TimeLimit] | None = None
        self._thread = 0
        self._is_fast: OrderedDict[str, bool] = OrderedDict()
        # Settings of the URL are for this process's SQLite.
        self._may_have_processes = not engine.url.query
        self._processes: FileProcesses | None = None
        self._recent: deque[float] = deque(maxlen=_BUSY_PAGES)

    def reads(self, sent: DriverStatement) -> bool:
        """See `PageReader.reads`."""
        return self._is_fast.get(sent.sql, False)

    def learn(self, sql: str, work: float, seconds: float) -> None:
        """Note how long a statement took, here or in a session, of work and in all; the event loop reads fast ones."""
        # Nothing stops the preparation of a long statement.
        may_be_fast = self._is_fast.get(sql) or (len(sql) <= _LONGEST and _UNBOUNDED.search(sql) is None)
        self._is_fast[sql] = may_be_fast and work <= _QUICK and seconds <= LOOP_LIMIT
        self._is_fast.move_to_end(sql)
        if len(self._is_fast) > _MOST_KNOWN:
            self._is_fast.popitem(last=False)

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """See `PageReader.fetch`."""
        rows = None
        if self._processes is not None:
            rows = await self._processes.page(sent, limit)
        return self.fetch_at_once(sent, limit) if rows is None else rows

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement, read by the event loop; None if it failed, or the event loop is another one."""
        if self._opened is None:
            self._opened, self._thread = connect(self._engine, on_event_loop=True), get_ident()
            with suppress(sqlite3.Error):  # reads the schema, which the first statement has not to answer for
                self._opened[0].execute("SELECT 1 FROM sqlite_master LIMIT 1").close()
        if self._thread != get_ident():
            return None
        (connection, clock), rows = self._opened, None
        begun, worked = time.monotonic(), time.thread_time()
        clock.ends_at = begun + min(LOOP_LIMIT, limit.total_seconds())
        with suppress(sqlite3.Error):
            rows = _read(connection, sent)
        now, work = time.monotonic(), time.thread_time() - worked
        self.learn(sent.sql, work, math.inf if rows is None else now - begun)
        self._recent.append(now)
        if len(self._recent) == _BUSY_PAGES and now - self._recent[0] < _BUSY_SECONDS:
            self._recent.clear()
            if self.processes is not None:
                self.processes.start_for_pages()
        return rows

    @property
    def processes(self) -> FileProcesses | None:
        """The reader processes of the file; None where apsw, their library, is not installed."""
        if self._may_have_processes and self._processes is None:
            self._may_have_processes = find_spec("apsw") is not None
            if self._may_have_processes:
                from dualsql.databases.sqlite.file_processes import FileProcesses

                self._processes = FileProcesses(self._path)
        return self._processes

    def close(self) -> None:
        """Close the connection, if this thread opened it, and end the processes."""
        self._may_have_processes = False
        if self._processes is not None:
            self._processes.close()
        if self._opened is not None and self._thread == get_ident():
            self._opened[0].close()
        self._opened = None


def file_reader(engine: Engine) -> FileReader | None:
    """A reader of the same file, for an engine that was made here; None if it is not a file read through aiosqlite."""
    path = engine.url.database or ":memory:"
    is_file = engine.dialect.driver == "aiosqlite" and path != ":memory:" and not path.startswith("file:")
    return FileReader(engine) if is_file else None


async def fetch_in_thread(fetch: Fetch, connection: AsyncConnection) -> Rows:
    """All rows of a statement, with one switch to the connection's thread, which finds whether it is fast."""
    reader, sent = fetch.source.fast, fetch.sent(connection.dialect)
    if not isinstance(reader, FileReader) or sent is None:
        return cast("Rows", (await fetch.execute(connection)).all())
    driver = driver_of(connection)

    def read() -> Rows:
        begun, worked = time.monotonic(), time.thread_time()
        rows = _read(driver._conn, sent)
        reader.learn(sent.sql, time.thread_time() - worked, time.monotonic() - begun)
        return rows

    rows: Rows = await driver._execute(read)
    return rows


def _read(connection: sqlite3.Connection, sent: DriverStatement) -> Rows:
    cursor = connection.execute(sent.sql, sent.parameters)
    require_described([column[0] for column in cursor.description], sent.described)
    return processed(next_rows(cursor), sent.processors())
