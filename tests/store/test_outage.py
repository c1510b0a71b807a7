"""A store that is down says so in its own words, and works again as soon as the database does."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from anyio import CancelScope
from sqlalchemy import MetaData, event, make_url, text

from dualsql.errors import ConfigurationError, StorageError
from dualsql.store import ResourceChanges, SQLResourceStore, downgrade, upgrade
from dualsql.store.protocol import MIGRATE_HINT
from dualsql.testing.stores import NOW, resource
from tests import engines
from tests.servers import create_server
from tests.waiting import PATIENCE


@pytest.fixture
def postgresql_store_url(postgresql_url: str) -> str:
    """A database of its own for each test, which will break it."""
    upgrade(postgresql_url)
    return postgresql_url


async def _answers(store: SQLResourceStore) -> None:
    """Call each method once."""
    for call in CALLS:
        await call(store)


async def _refuses(store: SQLResourceStore, hint: str = StorageError.default_hint) -> None:
    """Call each method once; each says the same, and nothing of what the database says."""
    for call in CALLS:
        with pytest.raises(StorageError) as error:
            await call(store)
        assert error.value.hint == hint
        assert error.value.__cause__ is not None
        shown = f"{error.value.for_caller} {error.value.details}".lower().replace(MIGRATE_HINT.lower(), "")
        for secret in ("sql", "select", "insert", "hunter2", "relation", "postgres", "/tmp", "some-id"):
            assert secret not in shown


CALLS: list[Callable[[SQLResourceStore], Awaitable[object]]] = [
    lambda store: store.save(resource()),
    lambda store: store.get("some-id"),
    lambda store: store.update("some-id", ResourceChanges(accesses=1)),
    lambda store: store.delete("some-id"),
    lambda store: store.find_expired(before=NOW),
]


async def test_without_tables_the_hint_is_to_migrate(database_url: str) -> None:
    store = SQLResourceStore(database_url)
    await _refuses(store, MIGRATE_HINT)
    upgrade(database_url)
    await _answers(store)
    await store.close()


async def test_a_server_does_not_start_before_the_tables_and_names_the_command(database_url: str) -> None:
    server = create_server(
        "sqlite://",
        base_url="http://127.0.0.1/r",
        tables=MetaData(),
        store=SQLResourceStore(database_url),
        secrets=["s" * 32],
    )
    name = make_url(database_url).database
    with pytest.raises(ConfigurationError, match=rf"dualsql migrate --create --store \w+://.*{name}"):
        async with server.lifespan(None):
            pass
    await server.shutdown()


async def test_an_older_form_of_the_table_is_a_matter_of_migration_too(store_url: str) -> None:
    async with engines.opened(store_url) as engine, engine.begin() as connection:
        for column in ("expires_at", "access_count", "id"):
            await connection.execute(
                text(f"ALTER TABLE dualsql_resources RENAME COLUMN {column} TO former_{column}")
            )
    store = SQLResourceStore(store_url)
    await _refuses(store, MIGRATE_HINT)
    await store.close()


async def test_postgresql_goes_away_and_comes_back(
    postgresql_server: engines.PostgreSQL, postgresql_store_url: str
) -> None:
    name = make_url(postgresql_store_url).database
    store = SQLResourceStore(postgresql_store_url)
    saved = resource()
    await store.save(saved)
    postgresql_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgresql_server.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    for _ in range(2):
        await _refuses(store)
    postgresql_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    await _answers(store)
    assert await store.get(saved.id) == saved
    await store.close()


async def test_dead_connections_are_found_before_they_are_used(
    postgresql_server: engines.PostgreSQL, postgresql_store_url: str
) -> None:
    store = SQLResourceStore(postgresql_store_url)
    saved = resource()
    await store.save(saved)
    postgresql_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dualsql'"
    )
    assert await store.get(saved.id) == saved
    await store.close()


async def test_a_postgresql_that_is_not_there(tmp_path: Path) -> None:
    store = SQLResourceStore(f"postgresql://dualsql:hunter2@/nowhere?host={tmp_path}")
    await _refuses(store)
    await store.close()


async def test_a_postgresql_that_refuses_the_user(postgresql_url: str) -> None:
    store = SQLResourceStore(make_url(postgresql_url).set(username="nobody-known", password="hunter2"))
    await _refuses(store)
    await store.close()


async def test_a_lock_is_not_waited_for_without_end(postgresql_store_url: str) -> None:
    store = SQLResourceStore(postgresql_store_url, timeout=timedelta(seconds=0.1))
    async with engines.opened(postgresql_store_url) as engine, engine.begin() as connection:
        await connection.execute(text("LOCK TABLE dualsql_resources IN ACCESS EXCLUSIVE MODE"))
        await _refuses(store)
    assert await store.get("some-id") is None
    await store.close()


async def test_a_locked_sqlite_file(sqlite_store_url: str) -> None:
    store = SQLResourceStore(sqlite_store_url, timeout=timedelta(seconds=0.05))
    with closing(sqlite3.connect(str(make_url(sqlite_store_url).database))) as other:
        other.execute("BEGIN EXCLUSIVE")
        await _refuses(store)
        other.rollback()
    await _answers(store)
    await store.close()


async def test_a_sqlite_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"not a database, but the hunter2 of someone else" * 100)
    store = SQLResourceStore(f"sqlite:///{tmp_path}/store.sqlite")
    await _refuses(store)
    await store.close()


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    store = SQLResourceStore(f"sqlite:///{tmp_path}/missing/store.sqlite")
    await _refuses(store)
    (tmp_path / "missing").mkdir()
    upgrade(f"sqlite:///{tmp_path}/missing/store.sqlite")
    await _answers(store)
    await store.close()


async def test_tables_that_vanish_and_return(store_url: str) -> None:
    store = SQLResourceStore(store_url)
    await store.save(resource())
    downgrade(store_url)
    await _refuses(store, MIGRATE_HINT)
    upgrade(store_url)
    await store.save(resource())
    await store.close()


async def test_what_is_removed_is_not_written_to(sqlite_store_url: str, tmp_path: Path) -> None:
    """A connection to a removed file would go on, and its writes be seen by nobody."""
    store = SQLResourceStore(sqlite_store_url)
    saved = resource()
    await store.save(saved)
    _move_database(sqlite_store_url, tmp_path / "away")
    for _ in range(2):
        await _refuses(store, MIGRATE_HINT)
    assert not files_of(sqlite_store_url), "no empty file takes its place"
    _move_database(f"sqlite:///{tmp_path}/away", Path(str(make_url(sqlite_store_url).database)))
    assert await store.get(saved.id) == saved
    await _answers(store)
    await store.close()


async def test_a_file_that_was_replaced_is_read_anew(
    sqlite_store_url: str, migrated_sqlite: Path, tmp_path: Path
) -> None:
    store = SQLResourceStore(sqlite_store_url)
    saved = resource()
    await store.save(saved)
    _move_database(sqlite_store_url, tmp_path / "away")
    shutil.copy(migrated_sqlite, str(make_url(sqlite_store_url).database))
    assert await store.get(saved.id) is None
    await _answers(store)
    await store.close()


@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_locked_store_leaves_nothing_open(sqlite_store_url: str, is_warm: bool) -> None:
    threads = threading.enumerate()
    store = SQLResourceStore(sqlite_store_url, timeout=timedelta(seconds=0.05))
    if is_warm:
        await _answers(store)
    with closing(sqlite3.connect(str(make_url(sqlite_store_url).database))) as other:
        other.execute("BEGIN EXCLUSIVE")
        writes = [store.save(resource()) for _ in range(7)]
        refused = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(error, StorageError) for error in refused)
        await store.close()
        other.rollback()
    assert not _that_stay(threads)
    del refused, writes  # their tracebacks hold statements, and those their connection
    assert not _open_files(sqlite_store_url)


@pytest.mark.quick(2)
@pytest.mark.parametrize("steps", [0, 3, 9, 30])
async def test_closing_waits_for_what_is_at_work(store_url: str, steps: int) -> None:
    threads = threading.enumerate()
    store = SQLResourceStore(store_url)
    asking = [asyncio.create_task(store.get("some-id")) for _ in range(4)]
    for _ in range(steps):
        await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert all(answer is None or isinstance(answer, StorageError) for answer in answers)
    assert not _that_stay(threads)
    with pytest.raises(StorageError, match="was closed"):
        await store.get("some-id")


def files_of(url: str) -> list[Path]:
    """A SQLite database's file, its log and the log's index, as far as they are there."""
    name = str(make_url(url).database)
    return [file for file in map(Path, (name, f"{name}-wal", f"{name}-shm")) if file.exists()]


def _move_database(url: str, target: Path) -> None:
    name = str(make_url(url).database)
    for file in files_of(url):
        file.rename(f"{target}{str(file).removeprefix(name)}")


def _that_stay(before: list[threading.Thread]) -> list[threading.Thread]:
    """Threads that were not there `before` and do not end by themselves."""
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        thread.join(timeout=5)  # it tells that its connection is closed, and then ends
    return [thread for thread in new if thread.is_alive()]


def _open_files(url: str) -> list[Path]:
    """Those of the database's files that this process holds open (Linux)."""
    held = {entry.resolve() for entry in Path("/proc/self/fd").iterdir()}
    return [file for file in files_of(url) if file in held]


@pytest.mark.timeout(60)
def test_an_event_loop_ends_after_a_caller_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """anyio cancels again and again: a connection in use was given up, and its loop waited for it for ever."""
    url, failures = engines.sqlite_url_in(tmp_path), list[Any]()
    upgrade(url)
    monkeypatch.setattr(threading, "excepthook", failures.append)

    async def leave(holder: sqlite3.Connection) -> None:
        store = SQLResourceStore(url, timeout=timedelta(seconds=0.5))
        await store.open()
        holder.execute("BEGIN IMMEDIATE")
        with CancelScope() as scope:

            def cancel_soon(*_: object) -> None:
                asyncio.get_running_loop().call_soon(scope.cancel)  # while its thread waits for the lock

            event.listen(store._connections.engine.sync_engine, "before_cursor_execute", cancel_soon)
            await store.delete("x" * 20)
        assert scope.cancelled_caught
        await store.close()

    with closing(sqlite3.connect(make_url(url).database or "", isolation_level=None)) as holder:
        asyncio.run(leave(holder))
        for thread in threading.enumerate():
            if "_connection_worker_thread" in thread.name:
                thread.join(PATIENCE)
    assert failures == []
