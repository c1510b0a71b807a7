"""A row of a SQLite file read on the event loop; the rule: a few milliseconds at most, or the long way.

Every request reads its resource by the primary key, which SQLite does in less time than a thread takes to wake up.
What goes wrong is not told here: the long way meets it too, and says what it is.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from threading import get_ident
from typing import Any

from sqlalchemy import URL, Executable, event
from sqlalchemy.exc import SQLAlchemyError

from dualsql.clocks import BLINK, Clock
from dualsql.engines import new_synchronous_engine
from dualsql.store.files import watch_file

_CLOSED = float("inf")
_REST = 1.0
"""Seconds without another try, once it went wrong."""


class Glance:
    """A connection of the event loop's own to the file of `url`."""

    def __init__(self, url: URL) -> None:
        self._engine = new_synchronous_engine(
            url.set(drivername="sqlite"),
            isolation_level="AUTOCOMMIT",
            connect_args={"timeout": 0},  # who holds a lock is waited for elsewhere
            pool_size=1,
            max_overflow=0,
        )
        self._clock = Clock()
        self._thread = 0
        self._rests_until = 0.0
        event.listen(self._engine, "connect", self._prepare)
        watch_file(self._engine)

    def rows(self, statement: Executable) -> list[dict[str, Any]] | None:
        """The rows of `statement`; None when they cannot be had in a few milliseconds, or at all."""
        now = time.monotonic()
        self._thread = self._thread or get_ident()
        if now < self._rests_until or self._thread != get_ident():
            return None
        self._clock.ends_at = now + BLINK
        # The database, its file, or a value that is none of its column's type.
        failures = suppress(SQLAlchemyError, sqlite3.Error, OSError, ValueError, TypeError, ArithmeticError)
        with failures, self._engine.connect() as connection:
            return [row._asdict() for row in connection.execute(statement)]
        self._rests_until = now + _REST
        return None

    def reopen(self) -> None:
        """Read in the thread of the event loop that runs now."""
        if self._thread != get_ident() or self._rests_until == _CLOSED:
            self._engine.dispose(close=self._thread == get_ident())
            self._thread, self._rests_until = 0, 0.0

    def close(self) -> None:
        """Close the connection, and read nothing any more."""
        self._rests_until = _CLOSED
        if self._thread == get_ident():
            self._engine.dispose()

    def _prepare(self, connection: Any, _record: object) -> None:
        connection.execute("PRAGMA query_only = ON").close()
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            # In other modes a reader waits for writers. The store sets this one when it opens the file.
            raise sqlite3.OperationalError("not in WAL mode yet")
        self._clock.install(connection, for_a_blink=True)
