"""A caller does not wait for the end of its session, and the end comes all the same."""

from __future__ import annotations

import asyncio
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import URL, MetaData, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from dualsql.databases import session
from dualsql.databases.session import in_session
from dualsql.databases.source import Source, open_source
from dualsql.freeze import Registry
from tests.relay import Relay, relaying
from tests.waiting import PATIENCE, until

DRIVERS = ["postgresql+asyncpg", "postgresql+psycopg", "mysql+asyncmy"]


class HeldRollbacks(Relay):
    """Holds what a client sends from its ROLLBACK on, unless that is `released`.

    Attributes:
        held: set once there was a ROLLBACK to hold.
    """

    def __init__(self, target: int | str) -> None:
        super().__init__(target)
        self.held, self.released = asyncio.Event(), asyncio.Event()
        self.released.set()

    async def _carry(self, source: StreamReader, target: StreamWriter, *, counts: bool = False) -> None:
        while chunk := await source.read(65_536):
            if b"ROLLBACK" in chunk and not counts and not self.released.is_set():
                self.held.set()
                await self.released.wait()
            target.write(chunk)
        target.close()


@pytest.fixture(params=DRIVERS)
def database(request: pytest.FixtureRequest) -> URL:
    """The database of a driver, on a Unix socket."""
    name: str = request.param
    url: str = request.getfixturevalue("mariadb_url" if name.startswith("mysql") else "postgresql_url")
    return make_url(url).set(drivername=name)


@pytest.fixture
async def relay(database: URL) -> AsyncIterator[HeldRollbacks]:
    socket = database.query.get("unix_socket") or f"{database.query['host']}/.s.PGSQL.5432"
    async with relaying(HeldRollbacks(str(socket))) as relay:
        yield relay


@pytest.fixture
def url(database: URL, relay: HeldRollbacks) -> URL:
    """The database behind the relay."""
    return database.set(host="127.0.0.1", port=relay.port, query={})


@pytest.fixture
async def source(url: URL, relay: HeldRollbacks) -> AsyncIterator[Source]:
    """With one connection, whose rollbacks are held from here on."""
    source = open_source("default", url, Registry(MetaData()))
    assert await answer(source) == 1
    await asyncio.gather(*source.finishing)
    relay.released.clear()
    yield source
    relay.released.set()
    await source.close()


async def one(connection: AsyncConnection) -> Any:
    return await connection.scalar(text("SELECT 1"))


async def answer(source: Source) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await in_session(source, None, one)


def in_use(source: Source) -> int:
    number: int = source.engine.pool.checkedout()  # type: ignore[attr-defined]
    return number


async def test_the_answer_comes_before_the_rollback(source: Source, relay: HeldRollbacks) -> None:
    assert await answer(source) == 1
    assert (in_use(source), source.limits.queries.used) == (1, 1)
    await relay.held.wait()
    relay.released.set()
    await asyncio.gather(*source.finishing)
    assert (in_use(source), source.limits.queries.used) == (0, 0)
    assert await answer(source) == 1


async def test_a_source_closes_after_the_last_rollback(source: Source, relay: HeldRollbacks) -> None:
    await answer(source)
    closing = asyncio.ensure_future(source.close())
    await relay.held.wait()
    await asyncio.wait({closing}, timeout=0.1)
    assert not closing.done()
    relay.released.set()
    async with asyncio.timeout(PATIENCE):
        await closing
    assert in_use(source) == 0


@pytest.mark.parametrize("database", DRIVERS[:1], indirect=True)  # psycopg waits another five seconds
async def test_a_rollback_without_an_answer_gives_its_connection_up(
    source: Source, relay: HeldRollbacks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "_UNWINDING", 0.1)
    assert await answer(source) == 1
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(source.finishing)
    assert "did not end: its connection is given up" in caplog.text
    assert (in_use(source), source.limits.queries.used) == (0, 0)
    relay.released.set()
    assert await answer(source) == 1


async def test_a_connection_that_breaks_at_its_rollback(source: Source, relay: HeldRollbacks) -> None:
    assert await answer(source) == 1
    await relay.held.wait()
    relay.cut()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait(source.finishing)
    assert (in_use(source), source.limits.queries.used) == (0, 0)
    relay.released.set()
    assert await answer(source) == 1


async def test_who_leaves_before_the_answer_is_not_answered(source: Source, relay: HeldRollbacks) -> None:
    async def slow(connection: AsyncConnection) -> None:
        sleep = "pg_sleep" if connection.dialect.name == "postgresql" else "sleep"
        await connection.execute(text(f"SELECT {sleep}(3600)"))

    asking = asyncio.ensure_future(in_session(source, None, slow))
    await until(lambda: asyncio.sleep(0, in_use(source)), lambda number: number == 1)
    relay.released.set()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*source.finishing)
    assert in_use(source) == 0


async def test_the_engine_of_an_application_is_returned_first(url: URL, relay: HeldRollbacks) -> None:
    """It may be disposed of as soon as there is an answer."""
    engine = create_async_engine(url)
    source = open_source("default", engine, Registry(MetaData()))
    await answer(source)
    relay.released.clear()
    asking = asyncio.ensure_future(answer(source))
    await relay.held.wait()
    await asyncio.wait({asking}, timeout=0.1)
    assert not asking.done()
    relay.released.set()
    assert await asking == 1
    assert in_use(source) == 0
    await engine.dispose()


async def test_an_end_that_fails_is_logged(
    source: Source, relay: HeldRollbacks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    guard = type(source.guard)
    read_only = guard.read_only

    def failing(self: Any, *arguments: Any) -> Any:
        return Failing(read_only(self, *arguments))

    monkeypatch.setattr(guard, "read_only", failing)
    relay.released.set()
    with caplog.at_level(logging.WARNING):
        assert await answer(source) == 1
        await asyncio.gather(*source.finishing)
    assert "failed after its answer" in caplog.text
    assert in_use(source) == 0


class Failing:
    """A read-only transaction that ends with an error."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    async def __aenter__(self) -> Any:
        return await self._transaction.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._transaction.__aexit__(*error)
        raise RuntimeError("the end failed")
