"""The store's own engine and the application's: who makes it, who disposes it, what each statement costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.errors import ConfigurationError
from dualsql.store import ResourceChanges, SQLResourceStore
from dualsql.testing.stores import NOW, resource
from tests import engines


@contextmanager
def _statements(engine: AsyncEngine) -> Iterator[list[str]]:
    """The statements the engine sends in the block."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine.sync_engine, "before_cursor_execute", note)


async def test_each_method_is_one_statement(
    store_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    engine = make_engine(store_url)
    store = SQLResourceStore(engine)
    saved = resource()
    everything = ResourceChanges(accesses=1, accessed_at=NOW, extend_to=NOW, pin=True, now=NOW)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.save(saved),
        lambda: store.get(saved.id),
        lambda: store.update(saved.id, everything),
        lambda: store.find_expired(before=NOW),
        lambda: store.delete(saved.id, "another", expired_before=NOW),
    ]
    await store.get("first-connection-asks-for-its-settings")
    for call in calls:
        with _statements(engine) as seen:
            await call()
        assert len(seen) == 1, seen


async def test_an_application_keeps_its_engine_and_its_settings(
    store_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    engine = make_engine(store_url)
    async with engine.connect() as connection:
        before = await connection.get_isolation_level()
    store = SQLResourceStore(engine)
    await store.save(resource())
    await store.close()
    async with engine.connect() as connection:
        assert await connection.get_isolation_level() == before
        await connection.execute(text("UPDATE dualsql_resources SET name = 'not committed'"))
    async with engine.connect() as connection:
        names = (await connection.execute(text("SELECT name FROM dualsql_resources"))).scalars().all()
    assert names == ["Institution Search Results"]


async def test_an_application_s_sqlite_file_keeps_its_journal(
    sqlite_store_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    engine = make_engine(sqlite_store_url)
    await SQLResourceStore(engine).save(resource())
    async with engine.connect() as connection:
        assert await connection.scalar(text("PRAGMA journal_mode")) == "delete"


async def test_an_own_sqlite_file_is_in_wal_mode(sqlite_store_url: str) -> None:
    store = SQLResourceStore(sqlite_store_url)
    await store.get("anything")
    async with engines.opened(sqlite_store_url) as engine, engine.connect() as connection:
        assert await connection.scalar(text("PRAGMA journal_mode")) == "wal"
    await store.close()


async def test_many_first_connections_at_once(sqlite_store_url: str) -> None:
    """Each asks for WAL mode while the others hold the file."""
    stores = [SQLResourceStore(sqlite_store_url) for _ in range(8)]
    await asyncio.gather(*(store.save(resource()) for store in stores for _ in range(5)))
    for store in stores:
        await store.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite+aiosqlite://"])
async def test_sqlite_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="memory"):
        SQLResourceStore(url)


async def test_an_engine_on_sqlite_in_memory_is_refused() -> None:
    engine = create_async_engine("sqlite+aiosqlite://")
    with pytest.raises(ConfigurationError, match="memory"):
        SQLResourceStore(engine)
    await engine.dispose()


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "oracle://u:hunter2@h/d", "nosuch://u:hunter2@h/d", "hunter2"]
)
async def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        SQLResourceStore(url)
    assert error.value.hint
    assert "hunter2" not in str(error.value)


async def test_a_driver_that_is_not_installed_is_named(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match="psycopg"):
        SQLResourceStore(make_url(postgresql_url).set(drivername="postgresql+psycopg"))


async def test_url_spellings_reach_the_same_store(store_url: str) -> None:
    url = make_url(store_url)
    saved = resource()
    for spelling in (url, url.set(drivername=url.get_backend_name())):
        store = SQLResourceStore(spelling)
        if spelling is url:
            await store.save(saved)
        assert await store.get(saved.id) == saved
        await store.close()
