"""Pages of a SQLite file, read on the event loop or in a thread with a connection of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import Any

from sqlalchemy import Engine

from dualsql.databases.backends import HeldUpError
from dualsql.databases.driver import DriverStatement, require_described
from dualsql.databases.sqlite.connection import BLINK, TimeLimit, connect, is_file, next_rows
from dualsql.formats.cells import processed
from dualsql.formats.writer import Rows

_QUICK = 0.002
"""Seconds of work for which no thread is worth the way."""

_MOST_KNOWN = 1_000


def fetched(connection: sqlite3.Connection, sent: DriverStatement) -> Rows:
    """All rows of a statement from sqlite3; see `require_described`."""
    cursor = connection.execute(sent.sql, sent.parameters)
    require_described([column[0] for column in cursor.description], sent.described)
    return next_rows(cursor)


class EventLoopReader:
    """A connection of the event loop's own, and the statements that may use it.

    A page costs less than its way to a thread and back. A statement that was quick in the thread runs on the event loop
    the next time. When it is slow there (another offset, a cold disk, a lock), SQLite stops it after `BLINK` seconds,
    and the thread runs it again.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opened: tuple[sqlite3.Connection, TimeLimit] | None = None
        self._thread = 0
        self._quick: OrderedDict[str, None] = OrderedDict()

    def learn(self, sent: DriverStatement, work: float, wait: float) -> None:
        """Note what a statement took in the thread: seconds of work there, and seconds in all."""
        if work > _QUICK or wait > BLINK:
            self._quick.pop(sent.sql, None)
            return
        self._quick[sent.sql] = None
        self._quick.move_to_end(sent.sql)
        if len(self._quick) > _MOST_KNOWN:
            self._quick.popitem(last=False)

    def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement; None for one that has to take the long way, if only to say there why it fails."""
        if sent.sql not in self._quick:
            return None
        begun = time.monotonic()
        try:
            found = self._fetch(sent, begun + min(BLINK, limit.total_seconds()))
        except sqlite3.Error:
            found = None
        if found is None or time.monotonic() - begun > BLINK:
            self._quick.pop(sent.sql, None)
        return found

    def _fetch(self, sent: DriverStatement, ends_at: float) -> Rows | None:
        if self._opened is None:
            self._opened, self._thread = connect(self._engine, for_a_blink=True), get_ident()
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
"""Seconds after which a statement keeps others waiting for too long."""

_PATIENCE = 0.1
"""Seconds that a statement waits to be begun."""

_MOST_WAITING = 32


class FileReader:
    """The thread and its connection, both made when they are first asked for something.

    The cost of a page is not its query, but each change between the event loop and a thread: SQLAlchemy over aiosqlite
    makes five. Here the event loop compiles; the thread executes, fetches and makes the values. There is one thread, as
    several would contend for Python's lock at each row. While a slow statement occupies it, pages use the pool.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._immediate = EventLoopReader(engine)
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._waiting = 0
        self._running_since: float | None = None

    def _is_free(self) -> bool:
        """Whether the thread would serve a statement at once, or nearly so."""
        since = self._running_since
        held_up = since is not None and time.monotonic() - since > _HELD_UP
        return self._waiting < _MOST_WAITING and not held_up

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement that is known to be quick; None for another, which `fetch` takes."""
        return self._immediate.fetch(sent, limit)

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows:
        """All rows of a statement, which SQLite stops after `limit`.

        Raises:
            HeldUpError: it was not begun in time, and is not going to be.
            QueryExecutionError: it has other columns than are described.
            sqlite3.Error: what the database says.
        """
        if not self._is_free():
            raise HeldUpError
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="dualsql-pages", daemon=True)
            self._thread.start()
        task = _Task(sent, limit)
        self._waiting += 1
        self._tasks.put(task)
        patience = asyncio.get_running_loop().call_later(_PATIENCE, task.withdraw)
        try:
            rows = await task.answer
            self._immediate.learn(sent, *task.took)
            return rows
        except asyncio.CancelledError:
            task.abandon()
            raise
        finally:
            patience.cancel()
            self._waiting -= 1

    def abandon(self) -> None:
        """End the thread, and do not wait for it."""
        self._immediate.close()
        self._tasks.put(None)

    async def close(self) -> None:
        """End the thread, and wait for it."""
        self._immediate.close()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._tasks.put(None)
            await asyncio.to_thread(thread.join)

    def _serve(self) -> None:
        connection = clock = None
        while (task := self._tasks.get()) is not None:
            try:
                if connection is None or clock is None:
                    connection, clock = connect(self._engine)
                self._running_since = time.monotonic()
                task.run(connection, clock)
            # Whatever was raised is the caller's to know: the thread must go on.
            except BaseException as error:  # noqa: BLE001
                task.tell(task.answer.set_exception, error)
            self._running_since = None
        if connection is not None:
            connection.close()


class _Task:
    """One statement, from the loop to the thread and back."""

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
        """In the thread: execute, fetch, make the values."""
        with self._lock:
            if self._is_abandoned:
                return
            self._has_begun, self._running = True, (connection, clock)
            begun, worked = time.monotonic(), time.thread_time()
            clock.ends_at = begun + self._limit
        try:
            rows = fetched(connection, self._sent)
        finally:
            with self._lock:
                self._running = None
        found = processed(rows, self._sent.processors())
        self.took = (time.thread_time() - worked, time.monotonic() - begun)
        self.tell(self.answer.set_result, found)

    def tell(self, say: Callable[[Any], None], what: Any) -> None:
        """In the thread: let the loop hear of it, if anybody still listens."""

        def heard() -> None:
            if not self.answer.done():
                say(what)

        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(heard)

    def withdraw(self) -> None:
        """On the loop: do not wait any longer for what was not begun."""
        with self._lock:
            if self._has_begun or self.answer.done():
                return
            self._is_abandoned = True
        self.answer.set_exception(HeldUpError())

    def abandon(self) -> None:
        """On the loop: stop it in the database; no other statement is hit."""
        with self._lock:
            self._is_abandoned = True
            if self._running is not None:
                connection, clock = self._running
                connection.interrupt()
                # A statement that SQLite is still preparing does not hear of that; its clock is looked at once it runs.
                clock.ends_at = 0.0


def file_reader(engine: Engine) -> FileReader | None:
    """A reader of the same file, for an engine that was made here; None when it is no file."""
    return FileReader(engine) if is_file(engine) else None
