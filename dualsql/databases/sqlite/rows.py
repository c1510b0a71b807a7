"""The rows of a cursor of SQLite: texts that are not UTF-8, and no more rows at once than memory has room for."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.exact import Unfit
from dualsql.databases.driver import DriverStatement, driver_of, require_described
from dualsql.databases.failures import too_large
from dualsql.databases.sqlite.callbacks import MATCH
from dualsql.databases.streams import PIECE_ROWS, Pace, Put, StreamBackend, StreamJob, next_chunk
from dualsql.formats.cells import processed
from dualsql.formats.row_objects import byte_length, read_rows
from dualsql.formats.writer import Rows

_PIECE_OF_PAGE = 25
_PIECE_OF_MADE_VALUES = 8
"""Rows of a statement that makes texts: each text may be as long as `LARGEST_VALUE`."""

MAKES_LONG_VALUES = re.compile(
    rf"\|\||\b(?:LIKE|GLOB)\b|\b(?:{MATCH}|format|group_concat|hex|instr|json\w*|l?trim|printf|quote|replace|rtrim"
    r"|string_agg|zeroblob)\s*\(",
    re.IGNORECASE,
)
"""Their time is not linear in a text, or they return a longer one. A statement that was fast may be slow with other
values, and nothing stops a call."""


def read_all(connection: sqlite3.Connection, statement: DriverStatement, most_bytes: int) -> Rows:
    """All rows of a statement, read by this thread.

    Raises:
        LimitExceededError: see `require_size`.
    """
    # Closed also after an error, whose traceback would keep the cursor and with it a lock on the file.
    with closing(connection.execute(statement.sql, statement.parameters)) as cursor:
        require_described([column[0] for column in cursor.description], statement.described)
        piece = min(_PIECE_OF_PAGE, piece_of(statement))
        rows = read_rows(partial(next_rows, cursor), sys.maxsize, most_bytes + 1, piece)
        if next_rows(cursor, 1):
            raise too_large()
        require_size(rows, most_bytes)
        return processed(rows, statement.processors())


def require_size(rows: Sequence[Sequence[Any]], most_bytes: int) -> None:
    """Raise LimitExceededError if the texts and bytes of rows are longer than that, without the last one.

    So every row can be read, and the row behind a page does not count. Their JSON cannot be shorter, and is written in
    a tenth of the time that it takes to look at each cell.
    """
    others, counted = 0, rows[:-1]

    def note(cell: Any) -> None:
        nonlocal others
        others += byte_length((cell,))

    # A document may be too deep for orjson, and a number in it too large.
    with suppress(TypeError):
        if len(orjson.dumps(counted, note, orjson.OPT_PASSTHROUGH_DATACLASS)) + others <= most_bytes:
            return
    if sum(map(byte_length, counted)) > most_bytes:
        raise too_large()


def piece_of(statement: DriverStatement) -> int:
    """The number of rows of a piece; see `read_rows`."""
    return PIECE_ROWS if MAKES_LONG_VALUES.search(statement.sql) is None else _PIECE_OF_MADE_VALUES


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


def readable_text(stored: bytes) -> Any:
    """A text of the database; an Unfit if it is not valid UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return Unfit(stored.decode("utf-8", "backslashreplace"))


def by_sqlite_thread(statement: DriverStatement) -> StreamBackend:
    """Fetch and encode in the thread of aiosqlite's connection, with one thread switch and bytes for each batch."""

    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        driver = driver_of(connection)
        cursor = await driver._execute(driver._conn.execute, statement.sql, statement.parameters)
        pace, more = Pace(piece_of(statement)), partial(next_rows, cursor)
        fetching = partial(next_chunk, job, pace, more, statement.processors())
        try:
            require_described([column[0] for column in cursor.description], statement.described)
            while (chunk := await driver._execute(fetching)) is not None:
                await put(chunk)
        finally:
            await driver._execute(cursor.close)

    return backend
