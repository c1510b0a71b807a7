"""Migrates a database to the schema of this release. An upgrade runs in one transaction.

The scripts are in the folder `migrations_path()`. The table VERSION_TABLE holds their history.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from alembic import command, context
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, NullPool, inspect

from dualsql.databases.engines import new_engine
from dualsql.errors import ConfigurationError, StorageError
from dualsql.settings import TABLE_PREFIX
from dualsql.store.engines import for_operator, is_in_memory, is_there, lock, storage_errors, store_url
from dualsql.store.tables import VERSION_TABLE, metadata, resources

T = TypeVar("T")

URL_VARIABLE = "DUALSQL_STORE"

# Of a lock, because two processes that start together would both create the tables.
_LOCK = 7237118250


def migrations_path() -> Path:
    """The folder of the Alembic scripts: in the package when installed, beside it in a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "migrations", package.parent / "migrations"):
        if (folder / "versions" / "0001_resources.py").exists():
            return folder
    raise ConfigurationError(
        "dualsql was installed without its migrations.", hint="Reinstall dualsql from its wheel."
    )


def upgrade(database: str | URL | Connection, revision: str = "head") -> None:
    """Upgrade the database to `revision`; does nothing if it is there already.

    Give a URL, also inside a running event loop, which then waits; or a connection, whose transaction, once
    begun, stays yours to commit: `async with engine.begin() as c: await c.run_sync(upgrade)`.

    Raises:
        StorageError: the database failed.
        ConfigurationError: the URL cannot be used, or the database was migrated by a newer dualsql.
    """
    with _revision_errors():
        command.upgrade(alembic_config(database), revision)


def downgrade(database: str | URL | Connection, revision: str = "base") -> None:
    """Downgrade the database to `revision`; "base" removes every table of dualsql with its content.

    Arguments and errors are those of `upgrade`.
    """
    with _revision_errors():
        command.downgrade(alembic_config(database), revision)


def current_revision(database: str | URL) -> str | None:
    """The current revision of the database; None if dualsql never migrated it. Errors are those of `upgrade`."""
    url = store_url(database)
    with _revision_errors():
        return _run_in_thread(_with_connection(url, _read_revision)) if is_there(url) else None


def is_migrated(database: str | URL) -> bool:
    """Whether the database is at this release's revision. Errors are those of `upgrade`."""
    scripts = ScriptDirectory.from_config(alembic_config(database))
    return current_revision(database) == scripts.get_current_head()


def alembic_config(database: str | URL | Connection) -> Config:
    """The configuration for Alembic's own commands on this database."""
    config = Config()
    # ConfigParser reads a lone % as the start of a name.
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.attributes["database"] = database if isinstance(database, Connection) else store_url(database)
    return config


def migrate() -> None:
    """Run the migrations of an Alembic command; only migrations/env.py calls it."""
    database = _database()
    if context.is_offline_mode():
        _write_sql(database)
    elif isinstance(database, Connection):
        _migrate(database)
    else:
        _run_in_thread(_with_connection(database, _lock_and_migrate))


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether autogenerate compares the object. The application's tables may be in the same database."""
    return kind != "table" or (name or "").startswith(TABLE_PREFIX)


_OPTIONS: dict[str, Any] = {
    "target_metadata": metadata,
    "version_table": VERSION_TABLE,
    "include_name": _is_ours,
    "render_as_batch": True,  # SQLite alters a column by copying its table
}


def _database() -> Connection | URL:
    database: Connection | URL | None = context.config.attributes.get("database")
    if database is not None:
        return database
    url = context.get_x_argument(as_dictionary=True).get("url") or os.environ.get(URL_VARIABLE)
    return store_url(url or context.config.get_main_option("sqlalchemy.url") or "")


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """The result of the coroutine, run in another thread, because this one may be running an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def _with_connection(url: URL, work: Callable[[Connection], T]) -> T:
    if not is_there(url) and not is_in_memory(url):
        # It holds what all callers asked: for its owner alone. SQLite makes its other files with the same mode.
        try:
            os.close(os.open(str(url.database), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass  # of another process
        except OSError as error:
            raise ConfigurationError(
                f"The file of the resource store cannot be made: {error.strerror}.",
                hint="Check the path in the URL, and the rights on its folder.",
            ) from error
    async with new_engine(url, poolclass=NullPool).begin() as connection:
        return await connection.run_sync(work)


def _read_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE}
    ).get_current_revision()


def _lock_and_migrate(connection: Connection) -> None:
    lock(connection, _LOCK)
    # Without the version table, the migration would create the tables again.
    if _read_revision(connection) is None and inspect(connection).has_table(resources.name):
        raise ConfigurationError(
            f"The table {resources.name} was not made by `dualsql migrate`.",
            hint="An application has mounted these migrations: run that application's Alembic.",
        )
    _migrate(connection)


def _migrate(connection: Connection) -> None:
    context.configure(connection=connection, **_OPTIONS)
    with context.begin_transaction():
        context.run_migrations()


def _write_sql(database: Connection | URL) -> None:
    """Print the statements instead of running them (`alembic upgrade head --sql`)."""
    dialect = database.dialect.name if isinstance(database, Connection) else database.get_backend_name()
    context.configure(dialect_name=dialect, literal_binds=True, **_OPTIONS)
    with context.begin_transaction():
        context.run_migrations()


@contextmanager
def _revision_errors() -> Iterator[None]:
    try:
        with storage_errors():
            yield
    except StorageError as error:
        raise for_operator(error) from error.__cause__
    except CommandError as error:
        raise ConfigurationError(
            "The database's revision, or the requested one, is unknown to this release of dualsql.",
            hint="Install the dualsql that migrated it, or a newer one.",
        ) from error
