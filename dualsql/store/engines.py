"""The engine a store works on, its own or the application's; the rule: the application's is not altered."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import URL, event
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only

from dualsql.engines import new_engine
from dualsql.errors import ConfigurationError
from dualsql.store.files import watch_file
from dualsql.urls import async_url

_DATABASES = ("postgresql", "sqlite")

# WAL lets readers and the one writer work at once, in every process; with it NORMAL loses nothing when a
# process dies, and at most the last moments when the machine does.
_SQLITE_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")

_PAUSE = 0.01
"""Seconds between two tries to change the journal."""


def store_url(database: URL | str) -> URL:
    """The async URL of a database that can hold resources; ConfigurationError for any other."""
    url = async_url(database)
    _check(url)
    return url


def own_engine(database: URL | str, timeout: timedelta) -> AsyncEngine:
    """An engine for the store alone, each of its statements a transaction, none of its waits unbounded.

    Raises:
        ConfigurationError: resources cannot be kept there.
    """
    url = store_url(database)
    engine = new_engine(url, isolation_level="AUTOCOMMIT", **_options(url, timeout.total_seconds()))
    if url.get_backend_name() == "sqlite":
        event.listen(engine.sync_engine, "connect", partial(_set_pragmas, seconds=timeout.total_seconds()))
        watch_file(engine.sync_engine)
    return engine


def borrowed_engine(engine: AsyncEngine) -> AsyncEngine:
    """A view of the application's engine in which each statement is a transaction, on the same pool.

    Raises:
        ConfigurationError: resources cannot be kept there.
    """
    _check(engine.url)
    return engine.execution_options(isolation_level="AUTOCOMMIT")


def _options(url: URL, seconds: float) -> dict[str, Any]:
    connect_args: dict[str, dict[str, Any]] = {
        "aiosqlite": {"timeout": seconds},
        "asyncpg": {
            "timeout": seconds,
            "command_timeout": seconds,
            "server_settings": {"application_name": "dualsql"},
        },
    }
    return {
        "pool_timeout": seconds,
        "connect_args": connect_args.get(url.get_driver_name(), {}),
    }


def _set_pragmas(connection: DBAPIConnection, _record: object, *, seconds: float) -> None:
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        _execute_patiently(cursor, f"PRAGMA {pragma}", seconds)
    cursor.close()


def _execute_patiently(cursor: DBAPICursor, statement: str, seconds: float) -> None:
    """Of two that change the journal at once, SQLite refuses one without waiting, whatever its busy timeout is."""
    ends_at = time.monotonic() + seconds
    while True:
        try:
            cursor.execute(statement)
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > ends_at:
                raise
        await_only(asyncio.sleep(_PAUSE))


def _check(url: URL) -> None:
    if url.get_backend_name() not in _DATABASES:
        raise ConfigurationError(
            f"Resources cannot be kept in {url.get_backend_name()}.",
            hint="Keep them in PostgreSQL or SQLite; the data they query may be in another database.",
        )
    if _is_in_memory(url):
        # Callers would share one connection, and one's rollback undo another's work.
        raise ConfigurationError(
            "Resources cannot be kept in a SQLite database in memory.", hint="Use a file, or MemoryStore."
        )


def _is_in_memory(url: URL) -> bool:
    if url.get_backend_name() != "sqlite":
        return False
    return url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"
