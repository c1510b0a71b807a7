"""What the store needs of the two databases that can hold it: engines, failures and locks."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.util import await_only

from dualsql.databases.engines import async_url, new_engine
from dualsql.databases.guard import Refusal
from dualsql.databases.sqlite.connection import SQLiteGuard
from dualsql.errors import ConfigurationError, DualResponseError, StorageError
from dualsql.store.protocol import MIGRATE_HINT
from dualsql.store.rows import already_stored

_OPENED = "dualsql_opened_file"


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
        record.info[_OPENED] = identity_of(str(path))

    def compare_file(_connection: Any, record: Any, _proxy: Any) -> None:
        if record.info.get(_OPENED) != identity_of(str(path)):
            raise InvalidatePoolError("The SQLite file was removed or replaced.")

    event.listen(engine, "do_connect", refuse_to_create)
    event.listen(engine, "connect", remember_file)
    event.listen(engine, "checkout", compare_file)


class MissingFileError(OSError):
    """The database's file is not in its folder."""


def identity_of(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - at each read
    except OSError:
        return None
    return status.st_dev, status.st_ino


# undefined_table, undefined_column, invalid_schema_name: PostgreSQL, appendix A.
_MISSING_STATES = frozenset({"42P01", "42703", "3F000"})

# SQLite has one code for all errors of statements, so the message is tested.
_MISSING_WORDS = ("no such table", "no such column", "has no column named")


def reading_any_text(connection: AsyncConnection) -> AbstractContextManager[None]:
    """In the block, SQLite's texts that are not UTF-8 are read as values of another type.

    The driver's own error would look like an outage, and quote the text.
    """
    return (
        SQLiteGuard().tolerant_reading(connection) if connection.dialect.name == "sqlite" else nullcontext()
    )


def works_in_thread(engine: AsyncEngine) -> bool:
    """Whether statements run in a thread, which cannot be cancelled: those of SQLite."""
    return engine.dialect.name == "sqlite"


@contextmanager
def storage_errors(url: URL | None = None) -> Iterator[None]:
    """Raise StorageError for every failure of the database or its connection in the block.

    The driver's message is not passed on: it can contain a URL, a password or another tenant's value.

    Args:
        url: of the database, for the developer's hint.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise _explained(error, url) from error
    except MissingFileError as error:
        raise _not_migrated("The file of the resource store does not exist.", url) from error
    except OSError as error:  # asyncpg does not wrap a refused or timed out connection
        raise StorageError("The resource store cannot be reached.") from error


def _explained(error: SQLAlchemyError, url: URL | None) -> StorageError:
    if isinstance(error, IntegrityError):
        return already_stored()
    if isinstance(error, DBAPIError) and _is_schema_missing(error):
        return _not_migrated("The tables of the resource store are missing or outdated.", url)
    return StorageError("The resource store failed.")


def _not_migrated(message: str, url: URL | None) -> StorageError:
    # str() of a URL hides its password.
    command = (
        ""
        if url is None
        else f"Run: dualsql migrate --create --store {url.set(drivername=url.get_backend_name())}"
    )
    return StorageError(message, hint=MIGRATE_HINT, developer_hint=command)


def for_operator(error: StorageError) -> DualResponseError:
    """The error in words for the operator of the store, who sees its cause; callers see StorageError."""
    from dualsql.databases.postgresql import PostgreSQLGuard
    from dualsql.databases.reach import refusal_of

    if error.hint == MIGRATE_HINT:
        return ConfigurationError(error.message, hint=error.hint, developer_hint=error.developer_hint)
    cause = error.__cause__
    reason = refusal_of(PostgreSQLGuard(), cause.orig if isinstance(cause, DBAPIError) else cause)
    if reason is None:
        return error
    refusal, message, hint = reason
    kind = StorageError if refusal is Refusal.HOST else ConfigurationError
    return kind(f"The resource store: {message}", hint=hint)


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
    if url.get_backend_name() == "postgresql":
        from dualsql.databases.postgresql import PREFER_PRIMARY, has_several_hosts

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
        "skip_autocommit_rollback": True,
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
    if is_in_memory(url):
        # Callers would share one connection, and a rollback of one would undo the work of another.
        raise ConfigurationError(
            "Resources cannot be kept in a SQLite database in memory.", hint="Use a file, or MemoryStore."
        )


def is_there(url: URL) -> bool:
    """Whether the database may be there; False for a SQLite file that connecting would make.

    Raises:
        ConfigurationError: the folder of the SQLite file does not exist.
    """
    name = url.database or ""
    if url.get_backend_name() != "sqlite" or name.startswith("file:"):
        return True
    folder = Path(name).parent
    if not folder.is_dir():
        raise ConfigurationError(
            f"The folder of the resource store does not exist: {folder}",
            hint="Create it, or name another file.",
        )
    return Path(name).exists()


def is_in_memory(url: URL) -> bool:
    if url.get_backend_name() != "sqlite":
        return False
    return url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"


def has_clock(engine: AsyncEngine) -> bool:
    """Whether the database has a clock of its own."""
    return engine.dialect.name == "postgresql"


_LOCKS = {
    "postgresql": "SELECT pg_advisory_xact_lock({})",
    "sqlite": "BEGIN IMMEDIATE",
}


def lock(connection: Connection, number: int) -> None:
    """Wait for the lock with this number, and hold it until the transaction ends.

    SQLite has one lock for the file. CREATE and DROP are part of the transaction that BEGIN IMMEDIATE begins.
    """
    if statement := _LOCKS.get(connection.dialect.name):
        connection.exec_driver_sql(statement.format(number))
