"""A query ends in time, and it ends in the database: whoever waits for it, or no longer does."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, QueryTimeoutError
from dualsql.databases import Source
from dualsql.databases.backends import FailureKind
from dualsql.databases.session import read_only
from dualsql.databases.source import Database
from tests.databases.kinds import SLOW, MakeServer
from tests.schools import SCHOOLS, School

SHORT = timedelta(milliseconds=200)

# Where a running query can be seen from outside.
RUNNING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%slow_8%'"
    " AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%slow_8%'"
    " AND id <> connection_id()",
}


async def assert_idle(database: Database, server: DualResponseServer) -> None:
    """The next queries are answered, no connection is out, and where the database can be asked, nothing runs."""
    for source in server._sources.values():
        await asyncio.gather(*source.finishing)
    answers = await asyncio.gather(*(server.create_response(select(School), name="x") for _ in range(4)))
    assert {answer.total_count for answer in answers} == {len(SCHOOLS)}
    engine = server._sources["default"].engine
    async with asyncio.timeout(60):
        while engine.pool.checkedout():  # type: ignore[attr-defined]
            # A thread that was still connecting gives back what it got, by itself.
            await server.create_response(select(School), name="x")
    query = RUNNING.get(engine.dialect.name)
    if query is None or not isinstance(database, AsyncEngine):
        return
    async with database.connect() as connection, asyncio.timeout(60):
        while await connection.scalar(text(query)):  # a backend that was told to stop takes its time
            await connection.rollback()


@pytest.mark.quick(1)
async def test_a_slow_query_is_stopped_and_says_so(make_server: MakeServer, database: Database) -> None:
    server = await make_server(query_timeout=SHORT)
    began = time.monotonic()
    with pytest.raises(QueryTimeoutError, match=r"longer than 0\.2 seconds"):
        await server.create_response(SLOW, name="slow")
    assert time.monotonic() - began < 10
    await assert_idle(database, await make_server())


async def test_the_database_keeps_the_time_by_itself(driver: str, source: Source) -> None:
    """Nobody here looks at a clock."""
    if driver == "duckdb":
        return  # it has none: dualsql interrupts it, see above
    async with read_only(source, None, limit=SHORT) as connection:
        with pytest.raises(DBAPIError) as raised:
            await connection.execute(SLOW)
    assert source.guard.failure_kind(raised.value.orig) is FailureKind.TIMEOUT


async def test_the_clock_stops_with_the_session(source: Source) -> None:
    """The next one has the whole time, on the same connection, and so has the application."""
    for _ in range(2):
        async with read_only(source, None, limit=SHORT) as connection:
            await connection.execute(select(School))
            await asyncio.sleep(0.15)


@pytest.mark.quick(1)
async def test_who_goes_away_stops_his_query(make_server: MakeServer, database: Database) -> None:
    server = await make_server()
    for _ in range(3):
        with anyio.move_on_after(0.1) as scope:
            await server.create_response(SLOW, name="slow")
        assert scope.cancelled_caught
    await assert_idle(database, server)


@pytest.mark.quick(1)
async def test_a_shutdown_waits_for_what_it_stops(make_server: MakeServer, database: Database) -> None:
    server = await make_server()
    waiting = asyncio.ensure_future(server.create_response(SLOW, name="slow"))
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    await asyncio.wait({waiting})
    await server.shutdown()
    await assert_idle(database, await make_server())


@pytest.mark.quick(1)
async def test_the_application_finds_its_connections_as_they_were(
    make_server: MakeServer, database: Database
) -> None:
    if isinstance(database, str):
        return  # dualsql made the engine
    before = await _settings(database)
    server = await make_server(query_timeout=SHORT)
    await server.create_response(select(School), name="x")
    with pytest.raises(QueryTimeoutError):
        await server.create_response(SLOW, name="slow")
    assert await _settings(database) == before


SETTINGS = {
    "sqlite": "PRAGMA query_only",
    "postgresql": "SELECT current_setting('statement_timeout'), current_setting('transaction_read_only')",
    "mysql": "SELECT @@max_statement_time, @@tx_read_only, @@in_transaction",
}


async def _settings(database: Any) -> Any:
    query = SETTINGS[database.dialect.name]
    if isinstance(database, Engine):
        with database.connect() as connection:
            return connection.exec_driver_sql(query).all()
    async with database.connect() as awaited:
        return (await awaited.exec_driver_sql(query)).all()


@pytest.mark.long
async def test_an_operator_s_cancel_is_told_from_the_time_limit(
    postgresql_url: str, make_engine: Any, make_server_on: Any
) -> None:
    engine = make_engine(postgresql_url)
    server = await make_server_on(engine)
    waiting = asyncio.ensure_future(server.create_response(SLOW, name="slow"))
    async with engine.connect() as operator, asyncio.timeout(60):
        cancel = text(
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity"
            " WHERE query LIKE '%slow_8%' AND pid <> pg_backend_pid()"
        )
        while not waiting.done():
            await operator.execute(cancel)
            await operator.rollback()  # in one transaction, the view never changes
            await asyncio.wait({waiting}, timeout=0.02)
    with pytest.raises(QueryTimeoutError, match="operator"):
        await waiting
