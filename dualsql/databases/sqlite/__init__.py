"""SQLite: opening a file, read-only mode, time limit, reading rows."""

from __future__ import annotations

import asyncio
from os import cpu_count
from os.path import isfile  # False where a folder is closed
from typing import Any

import aiosqlite
from sqlalchemy import URL, Engine

from dualsql.databases.backends import Backend, PageReader
from dualsql.databases.sqlite.capabilities import CAPABILITIES
from dualsql.databases.sqlite.connection import SQLiteGuard, choose_stream, fetch_in_thread
from dualsql.errors import ConfigurationError


def _require_file(url: URL) -> None:
    # SQLite would make an empty database of a misspelt path.
    path = url.database or ":memory:"
    if path != ":memory:" and not path.startswith("file:") and not isfile(path):  # noqa: PTH113
        raise ConfigurationError(
            f"There is no SQLite database at {path!r}.", hint="Check the path in the URL."
        )


async def _opened(*args: Any, **options: Any) -> aiosqlite.Connection:
    """A connection. If it cannot be opened, its thread has ended when the error is raised.

    aiosqlite itself does not wait for the thread, which fails if the event loop is closed before it reports its end.
    """
    connection = aiosqlite.connect(*args, **options)
    # Before aiosqlite 0.22, the connection object was the thread.
    thread: Any = getattr(connection, "_thread", connection)
    thread.daemon = True  # as SQLAlchemy's dialect sets it
    try:
        return await connection
    except BaseException:
        await asyncio.to_thread(thread.join)
        raise


def _file_reader(engine: Engine, page_bytes: int) -> PageReader | None:
    """A reader of the same file, for an engine that was made here; None if it is not a file read through aiosqlite."""
    path = engine.url.database or ":memory:"
    if engine.dialect.driver != "aiosqlite" or path == ":memory:" or path.startswith("file:"):
        return None
    from dualsql.databases.sqlite.file_reader import FileReader

    return FileReader(engine, page_bytes)


BACKEND = Backend(
    capabilities=CAPABILITIES,
    guard=SQLiteGuard(),
    driver="aiosqlite",
    package="aiosqlite",
    # They run in threads of the server. On two cores, with 15 of them pages of others took twice as long as with 6.
    most_statements=3 * (cpu_count() or 1),
    file_suffixes=(".db", ".sqlite", ".sqlite3"),
    # A statement alone is a transaction: ROLLBACK would only be another switch of threads.
    reading_options={"pool_reset_on_return": None},
    require_url=_require_file,
    arguments_beyond=lambda url: (
        {"async_creator_fn": _opened} if url.get_driver_name() == "aiosqlite" else {}
    ),
    has_pool=lambda url: (url.database or ":memory:") != ":memory:",
    page_reader=_file_reader,
    stream_backends={"aiosqlite": choose_stream},
    row_fetches={"aiosqlite": fetch_in_thread},
)
