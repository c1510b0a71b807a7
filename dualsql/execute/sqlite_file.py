"""A connection to a SQLite file outside of the pool; the rule: as SQLAlchemy would make it, but it cannot write."""

from __future__ import annotations

import sqlite3
from itertools import islice
from typing import Any

from sqlalchemy import Engine

from dualsql.clocks import Clock
from dualsql.execute.authorizer import confine
from dualsql.execute.guards.sqlite import FORBID_WRITES, readable_text


def next_rows(cursor: sqlite3.Cursor, most: int | None = None) -> list[Any]:
    """The next rows of a cursor, at most so many, or all of them; see `readable_text`.

    sqlite3 makes texts in C, and stops at one that is no UTF-8 without leaving its row: that row is read again, and
    the rest of these rows with it, by Python's code.
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
    """Whether the engine reads a file through aiosqlite, and no database in memory."""
    path = engine.url.database or ":memory:"
    return engine.dialect.driver == "aiosqlite" and path != ":memory:" and not path.startswith("file:")


def connect(engine: Engine, *, for_a_blink: bool = False) -> tuple[sqlite3.Connection, Clock]:
    """A connection for the thread that calls, and the clock it looks at.

    Args:
        for_a_blink: it is the event loop's: its clock is looked at more often, and no lock is waited for.
    """
    arguments: Any
    arguments, options = engine.dialect.create_connect_args(engine.url)
    own: dict[str, Any] = {**options, "check_same_thread": True, "isolation_level": None}
    connection = sqlite3.connect(*arguments, **own | ({"timeout": 0} if for_a_blink else {}))
    prepare: Any = engine.dialect.on_connect()
    if prepare is not None:  # the functions that its SQL relies on
        prepare(connection)
    connection.execute(FORBID_WRITES).close()
    confine(connection)
    clock = Clock()
    clock.install(connection, for_a_blink=for_a_blink)
    return connection, clock
