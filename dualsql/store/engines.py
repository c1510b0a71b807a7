"""The engine a store works on, its own or the application's; the rule: the application's is not altered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import URL, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.engines import new_engine
from dualsql.errors import ConfigurationError
from dualsql.store.files import watch_file
from dualsql.urls import async_url

_DATABASES = ("postgresql", "sqlite")

# WAL lets readers and the one writer work at once, in every process; with it NORMAL loses nothing when a
# process dies, and at most the last moments when the machine does.
_SQLITE_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")


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
        event.listen(engine.sync_engine, "connect", _set_pragmas)
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


def _set_pragmas(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


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
