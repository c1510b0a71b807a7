"""The engine of a store, its failures, and SQLite files that are removed while open."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only

from dualsql.databases.engines import PREFER_PRIMARY, async_url, has_several_hosts, new_engine
from dualsql.errors import ConfigurationError, StorageError

_OPENED = "dualsql_opened_file"


class MissingFileError(OSError):
    """The database's file is not in its folder."""


def watch_file(engine: Engine) -> None:
    """Close the engine's connections when their file is removed, and make none while the file is missing.

    A connection to a removed file would continue to write to it, and a new connection would create an empty file."""
    path = Path(str(engine.url.database))
    if engine.url.database is None or str(path).startswith("file:"):
        return

    def refuse_to_create(*_connecting: Any) -> None:
        # Without the folder SQLite fails by itself.
        if path.parent.is_dir() and not path.exists():
            raise MissingFileError("The SQLite file does not exist.")

    def remember_file(_connection: Any, record: Any) -> None:
        record.info[_OPENED] = _identity(path)

    def compare_file(_connection: Any, record: Any, _proxy: Any) -> None:
        if record.info.get(_OPENED) != _identity(path):
            raise InvalidatePoolError("The SQLite file was removed or replaced.")

    event.listen(engine, "do_connect", refuse_to_create)
    event.listen(engine, "connect", remember_file)
    event.listen(engine, "checkout", compare_file)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


MIGRATE_HINT = "Run `dualsql migrate --database URL`."

# undefined_table, undefined_column, invalid_schema_name: PostgreSQL, appendix A.
_MISSING_STATES = frozenset({"42P01", "42703", "3F000"})

# SQLite has one code for all errors of statements, so the message is tested.
_MISSING_WORDS = ("no such table", "no such column", "has no column named")


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise StorageError for every failure of the database or its connection in the block.

    The driver's message is not passed on: it can contain a URL, a password or another tenant's value."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _explained(error) from error
    except MissingFileError as error:
        raise StorageError("The file of the resource store does not exist.", hint=MIGRATE_HINT) from error
    except OSError as error:  # asyncpg does not wrap a refused or timed out connection
        raise StorageError("The resource store cannot be reached.") from error


def already_stored() -> StorageError:
    """The error for an id that is already in use."""
    return StorageError("A resource with this id is already stored.", hint="Store it under a fresh id.")


def _explained(error: SQLAlchemyError) -> StorageError:
    if isinstance(error, IntegrityError):
        return already_stored()
    if isinstance(error, DBAPIError) and _is_schema_missing(error):
        return StorageError("The tables of the resource store are missing or outdated.", hint=MIGRATE_HINT)
    return StorageError("The resource store failed.")


def is_read_only(error: DBAPIError) -> bool:
    """Whether the server refused to write because it is a standby, or was made read-only."""
    return getattr(error.orig, "sqlstate", None) == "25006"


def _is_schema_missing(error: DBAPIError) -> bool:
    if getattr(error.orig, "sqlstate", None) in _MISSING_STATES:
        return True
    return any(words in str(error.orig) for words in _MISSING_WORDS)


_DATABASES = ("postgresql", "sqlite")

# In WAL mode, readers and the single writer work at the same time, in all processes. With NORMAL, a killed process
# loses nothing, and a crash of the machine loses at most the last transactions.
_SQLITE_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")

_PAUSE = 0.01
"""Seconds between two attempts to change the journal mode."""


def store_url(database: URL | str) -> URL:
    """The async URL of a database that can hold resources; ConfigurationError for any other."""
    url = async_url(database)
    _check(url)
    if has_several_hosts(url) and "target_session_attrs" not in url.query:
        # The first host that answers may be a standby, which accepts no resources. While there is no other, stored
        # ones can be read from it.
        url = url.update_query_dict({"target_session_attrs": PREFER_PRIMARY})
    return url


def own_engine(database: URL | str, timeout: timedelta) -> AsyncEngine:
    """An engine for the store only. Each statement is a transaction, and every wait is bounded.

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
    """Execute with retries. If two connections change the journal mode at once, SQLite refuses one at once,
    whatever its busy timeout is."""
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
        # Callers would share one connection, and a rollback of one would undo the work of another.
        raise ConfigurationError(
            "Resources cannot be kept in a SQLite database in memory.", hint="Use a file, or MemoryStore."
        )


def require_folder(url: URL) -> None:
    """Refuse a SQLite file in a folder that does not exist: SQLite creates files, but not folders."""
    name = url.database or ""
    folder = Path(name).parent
    if url.get_backend_name() == "sqlite" and not name.startswith("file:") and not folder.is_dir():
        raise ConfigurationError(
            f"The folder of the resource store does not exist: {folder}",
            hint="Create it, or name another file.",
        )


def _is_in_memory(url: URL) -> bool:
    if url.get_backend_name() != "sqlite":
        return False
    return url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"
