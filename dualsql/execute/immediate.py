"""What SQLite gives in a blink, read on the event loop; the rule: only what was quick before, and never for long.

A page costs less than its way to a thread and back: two threads of one Python wait for each other at every step.
So a statement that was quick in the thread is executed at once the next time. When it is not quick any more (another
offset, a cold disk, a writer's lock) SQLite stops it within `BLINK`, and the thread has it again.
"""

from __future__ import annotations

import sqlite3
import time
from collections import OrderedDict
from datetime import timedelta
from threading import get_ident

from sqlalchemy import Engine

from dualsql.clocks import BLINK, Clock
from dualsql.execute.lanes.statement import DriverStatement, fetched
from dualsql.execute.sqlite_file import connect
from dualsql.formats.processing import processed
from dualsql.formats.writer import Rows

_QUICK = 0.002
"""Seconds of work for which no thread is worth the way."""

_MOST_KNOWN = 1_000


class ImmediateReader:
    """A connection of the event loop's own, and the statements that may use it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opened: tuple[sqlite3.Connection, Clock] | None = None
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
