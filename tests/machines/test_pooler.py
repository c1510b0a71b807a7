"""PgBouncer in transaction mode, which gives each transaction another session: for the data and for the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import make_url, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import ConfigurationError, DualResponseServer, PageRequest, Principal, TenantFilter
from dualsql.cli.doctor import _pooler
from dualsql.databases.reach import _refusal
from dualsql.databases.source import open_source
from dualsql.freeze import Registry
from dualsql.results.streams import StreamRequest
from dualsql.store import SQLResourceStore, upgrade
from dualsql.testing import DatabaseTests, ResourceStoreTests
from tests import engines
from tests.databases.kinds import SLOW
from tests.failures.requests import assert_all_work, serving
from tests.http.application import ALL, INSTITUTIONS, METADATA, ROWS, fill
from tests.machines.pooler import PORT, Pooler, pooler
from tests.schools import Base, fill as fill_schools
from tests.server.conftest import BASE_URL
from tests.waiting import until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def bouncer(postgresql_server: engines.PostgreSQL) -> Iterator[Pooler]:
    with pooler(postgresql_server) as running:
        yield running


@pytest.fixture
def direct_url(bouncer: Pooler) -> Iterator[str]:
    """An empty database, without the pooler between."""
    with bouncer.server.database() as url:
        yield url


@pytest.fixture
def database_url(bouncer: Pooler, direct_url: str) -> str:
    """The same database behind the pooler."""
    return bouncer.url(str(make_url(direct_url).database))


class TestDatabaseBehindIt(DatabaseTests):
    """What dualsql asks of every database."""


class TestStoreBehindIt(ResourceStoreTests):
    """What dualsql asks of every store."""

    @pytest.fixture
    async def new_store(self, database_url: str) -> SQLResourceStore:
        await asyncio.to_thread(upgrade, database_url)
        return SQLResourceStore(database_url)


@pytest.fixture
async def filled_url(direct_url: str, database_url: str) -> str:
    async with engines.opened(direct_url) as engine:
        await fill(engine)
    await asyncio.to_thread(upgrade, database_url)
    return database_url


async def test_many_at_once_share_two_sessions(filled_url: str, bouncer: Pooler, direct_url: str) -> None:
    async with serving(filled_url, filled_url) as live:
        await asyncio.gather(*(assert_all_work(live) for _ in range(20)))
    async with engines.opened(direct_url) as engine, engine.connect() as connection:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert await connection.scalar(text(f"SELECT count(*) {others}")) <= bouncer.size


@pytest.mark.parametrize("format_", ["ndjson", "json", "csv", "arrow"])
async def test_streams_at_once_have_the_rows_of_a_server_without_it(
    filled_url: str, direct_url: str, format_: str
) -> None:
    """COPY, cursors and values in settings, each within its transaction."""
    statement = (
        select(INSTITUTIONS).where(INSTITUTIONS.c.name > "Institution 005").order_by(INSTITUTIONS.c.id)
    )

    async def streamed(url: str, times: int) -> set[bytes]:
        async with DualResponseServer(url, base_url=BASE_URL, tables=METADATA) as server:
            response = await server.create_response(statement, name="x")

            async def once() -> bytes:
                stream = await server.stream(response.resource_id, None, StreamRequest(format=format_))
                return b"".join([bytes(chunk.data) async for chunk in stream.chunks])

            return set(await asyncio.gather(*(once() for _ in range(times))))

    assert await streamed(filled_url, 8) == await streamed(direct_url, 1)


async def test_nothing_of_a_session_is_left_for_the_next(filled_url: str, bouncer: Pooler) -> None:
    """Time limit, read-only mode, tenants' settings and roles end with the transaction."""
    rule = TenantFilter(column="state", value=lambda principal: principal.tenant)
    async with DualResponseServer(filled_url, base_url=BASE_URL, tables=METADATA, hooks=[rule]) as server:
        states = ["NJ", "NY", "PA"] * 10
        callers = [Principal(id=f"{state}'s", tenant=state) for state in states]
        responses = await asyncio.gather(
            *(server.create_response(ALL, name="x", principal=who) for who in callers)
        )
        for state, response in zip(states, responses, strict=True):
            assert {row["state"] for row in response.sample} == {state}
    seen = await _of_each_session(bouncer, filled_url)
    assert seen == {("0", "off", "none", None)}


async def _of_each_session(bouncer: Pooler, url: str) -> set[tuple[Any, ...]]:
    """Settings of all sessions of the pooler: as many clients as it has, each with a transaction."""
    clients = [await _client(bouncer, url) for _ in range(bouncer.size)]
    for client in clients:
        await client.execute("BEGIN")
    wanted = """SELECT current_setting('statement_timeout'), current_setting('default_transaction_read_only'),
        current_setting('role'), nullif(current_setting('dualsql.value_1', true), '')"""
    actual = {tuple(await client.fetchrow(wanted)) for client in clients}
    for client in clients:
        await client.close()
    return actual


async def _client(bouncer: Pooler, url: str) -> Any:
    return await asyncpg.connect(
        host=bouncer.socket_folder,
        port=PORT,
        user="postgres",
        database=make_url(url).database,
        statement_cache_size=0,
    )


@pytest.fixture
async def slow(direct_url: str, database_url: str) -> AsyncIterator[DualResponseServer]:
    async with engines.opened(direct_url) as engine:
        await fill_schools(engine)
    async with DualResponseServer(database_url, base_url=BASE_URL, tables=Base) as server:
        yield server


async def test_who_leaves_stops_the_query(slow: DualResponseServer, direct_url: str) -> None:
    """The number of a process that the driver has is the pooler's invention."""
    asking = asyncio.ensure_future(slow.create_response(SLOW, name="slow"))
    async with (
        engines.opened(direct_url, isolation_level="AUTOCOMMIT") as engine,
        engine.connect() as connection,
    ):
        running = text(
            "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT sum(slow%'"
        )
        pid = await until(lambda: connection.scalar(running))
        asking.cancel()
        await until(lambda: connection.scalar(running), lambda actual: actual is None)
        # It was cancelled: a connection that is given up would have taken the session with it.
        assert await connection.scalar(text(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}")) == 1


async def test_an_engine_on_psycopg(filled_url: str, bouncer: Pooler) -> None:
    url = (
        make_url(filled_url)
        .set(drivername="postgresql+psycopg")
        .difference_update_query(["prepared_statement_cache_size"])
    )
    engine = create_async_engine(url, connect_args={"prepare_threshold": None})
    async with DualResponseServer(engine, base_url=BASE_URL, tables=METADATA) as server:
        for _ in range(8):
            response = await server.create_response(ALL, name="x")
            page = await server.read_page(response.resource_id, None, PageRequest(limit=100))
            assert len(page.rows) == len(ROWS)
    await engine.dispose()


async def test_prepared_statements_are_refused_in_words_that_say_what_to_do(
    filled_url: str, bouncer: Pooler
) -> None:
    database = str(make_url(filled_url).database)
    engine = create_async_engine(bouncer.plain_url(database))
    holder = await _client(bouncer, filled_url)
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))
        await connection.rollback()
        # The session that has the statement is taken; the next transaction gets another one.
        await holder.execute("BEGIN")
        with pytest.raises(DBAPIError) as raised:
            await connection.execute(text("SELECT 1"))
    await holder.close()
    source = open_source("default", engine, Registry(METADATA))
    refusal = _refusal(source, raised.value.orig)
    assert isinstance(refusal, ConfigurationError)
    assert refusal.hint == "Add ?prepared_statement_cache_size=0 to the URL."
    await engine.dispose()


async def test_doctor_says_that_it_sees_a_pooler(filled_url: str, direct_url: str, bouncer: Pooler) -> None:
    plain = bouncer.plain_url(str(make_url(filled_url).database))
    found = {}
    for url in (direct_url, filled_url, plain):
        source = open_source("default", url, Registry(METADATA))
        found[url] = [(each.state, each.check) for each in await _pooler(source)]
        await source.close()
    assert found == {direct_url: [], filled_url: [("ok", "pooler")], plain: [("warning", "pooler")]}
