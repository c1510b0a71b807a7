"""SQLite: opening a file, read-only mode, time limit, reading rows."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from dualsql.databases.backends import Backend
from dualsql.databases.sqlite.capabilities import CAPABILITIES
from dualsql.databases.sqlite.connection import (
    LOOP_LIMIT,
    SQLiteGuard,
    TimeLimit,
    choose_stream,
    connect,
    file_reader,
)
from dualsql.errors import ConfigurationError

__all__ = ["BACKEND", "LOOP_LIMIT", "SQLiteGuard", "TimeLimit", "connect"]


def _is_in_memory(url: URL) -> bool:
    return (url.database or ":memory:") == ":memory:"


def _require_file(url: URL) -> None:
    # SQLite would make an empty database of a misspelt path.
    path = url.database or ":memory:"
    if path != ":memory:" and not path.startswith("file:") and not Path(path).is_file():
        raise ConfigurationError(
            f"There is no SQLite database at {path!r}.", hint="Check the path in the URL."
        )


BACKEND = Backend(
    capabilities=CAPABILITIES,
    guard=SQLiteGuard(),
    driver="aiosqlite",
    package="aiosqlite",
    file_suffixes=(".db", ".sqlite", ".sqlite3"),
    require_url=_require_file,
    has_pool=lambda url: not _is_in_memory(url),
    page_reader=file_reader,
    stream_backends={"aiosqlite": choose_stream},
)
