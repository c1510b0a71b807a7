"""A query ends in time, and it ends in the database: whoever waits for it, or no longer does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest
from sqlalchemy import Engine, create_engine, event, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql import DualResponseServer, QueryTimeoutError
from dualsql.databases import session
from dualsql.databases.fetch import Fetch, Following
from dualsql.databases.guard import FailureKind, SessionTerms
from dualsql.databases.session import in_session, read_only
from dualsql.databases.source import Database, Source, open_source
from dualsql.databases.sqlite.connection import SQLiteGuard
from dualsql.databases.threads import ThreadedEngine
from dualsql.freeze import Registry
from dualsql.tenancy import Policy
from tests.databases.conftest import fill_synchronously
from tests.databases.kinds import MANY, SLOW, MakeServer
from tests.schools import SCHOOLS, Base, School
from tests.waiting import PATIENCE, until

SHORT = timedelta(milliseconds=200)
LONG = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT max(i) FROM n"
)

# Where a running query can be seen from outside.
RUNNING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%slow_8%'"
    " AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%slow_8%'"
    " AND id <> connection_id()",
}


async def assert_idle(database: Database, server: DualResponseServer) -> None:
    """The next queries are answered, no connection is out, and where the database can be asked, nothing runs."""
    for source in server.parts.sources.values():
        await asyncio.gather(*source.finishing)
    answers = await asyncio.gather(*(server.create_response(select(School), name="x") for _ in range(4)))
    assert {answer.total_count for answer in answers} == {len(SCHOOLS)}
    engine = server.parts.sources["default"].engine
    async with asyncio.timeout(PATIENCE):
        while engine.pool.checkedout():  # type: ignore[attr-defined]
            # A thread that was still connecting gives back what it got, by itself.
            await server.create_response(select(School), name="x")
    query = RUNNING.get(engine.dialect.name)
    if query is None or not isinstance(database, AsyncEngine):
        return
    async with database.connect() as connection, asyncio.timeout(PATIENCE):
        while await connection.scalar(text(query)):  # a backend that was told to stop takes its time
            await connection.rollback()


@pytest.mark.quick(1, "sqlite", "postgresql")
async def test_a_slow_query_is_stopped_and_says_so(make_server: MakeServer, database: Database) -> None:
    server = await make_server(query_timeout=SHORT)
    began = time.monotonic()
    with pytest.raises(QueryTimeoutError, match=r"longer than 0\.2 seconds"):
        await server.create_response(SLOW, name="slow")
    assert time.monotonic() - began < 10
    await assert_idle(database, await make_server())


@pytest.mark.quick(1, "sqlite")
async def test_a_creation_whose_rows_would_be_kept_ends_in_time(
    make_server: MakeServer, database: Database, tmp_path: Path
) -> None:
    """`query_timeout` is that of the quick attempt, of the run whose rows are kept, and of what follows, together."""
    server = await make_server(
        storage=tmp_path / "kept", keep_after=timedelta(seconds=0.1), query_timeout=timedelta(seconds=0.4)
    )
    began = time.monotonic()
    with pytest.raises(QueryTimeoutError, match=r"longer than 0\.4 seconds"):
        await server.create_response(SLOW, name="slow", keep="slow")
    assert time.monotonic() - began < 10  # the statement takes years; a busy machine, seconds to stop it
    await assert_idle(database, await make_server())


@pytest.mark.quick(1, "sqlite", "postgresql")
async def test_the_database_keeps_the_time_by_itself(driver: str, source: Source) -> None:
    """Nobody here looks at a clock."""
    if driver == "duckdb":
        return  # it has none: dualsql interrupts it, see above
    async with read_only(source, None, limit=SHORT) as connection:
        with pytest.raises(DBAPIError) as raised:
            await connection.execute(SLOW)
    assert source.guard.failure_kind(raised.value.orig) is FailureKind.TIMEOUT


@pytest.mark.quick(1, "sqlite", "postgresql")
async def test_a_statement_behind_another_one_has_its_own_limit(
    driver: str, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database knows it, and stops the statement by itself; where it knows none, dualsql does."""
    if driver != "duckdb":
        monkeypatch.setattr(session, "_GRACE", 60.0)
    rules, minute = Policy(Registry(Base)).rules_for(None), timedelta(minutes=1)
    count = select(func.count()).select_from(MANY.subquery())
    last = Fetch(source=source, select=lambda: count, rules=rules, described=("",), timeout=SHORT)
    read: list[Any] = []

    def is_needed(rows: Any) -> bool:
        read.extend(rows)
        return True

    first = Fetch(source=source, select=lambda: MANY.limit(6), rules=rules, described=("id",), timeout=minute)
    first.following = Following(last, is_needed)
    began = time.monotonic()
    with pytest.raises(QueryTimeoutError):
        await first.rows()
    assert time.monotonic() - began < 20
    assert len(read) == 6


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("settings", [(), (("app.tenant", "acme"),)])
async def test_the_server_looks_for_the_client_of_a_long_statement(source: Source, settings: Any) -> None:
    if source.engine.dialect.name != "postgresql":
        return
    rules = replace(Policy(Registry(Base)).rules_for(None), settings=settings)
    names = ("statement_timeout", "client_connection_check_interval", *dict(settings))
    query = select(*(func.current_setting(name) for name in names))
    for seconds, set_to in (60, ("1min", "0")), (120, ("2min", "1s")):
        async with read_only(source, rules, limit=timedelta(seconds=seconds)) as connection:
            assert (await connection.execute(query)).one() == (*set_to, *dict(settings).values())


@pytest.mark.quick(1, "postgresql")
async def test_the_clock_stops_with_the_session(source: Source) -> None:
    """The next one has the whole time, on the same connection, and so has the application."""
    for _ in range(2):
        async with read_only(source, None, limit=SHORT) as connection:
            await connection.execute(select(School))
            await asyncio.sleep(0.15)


@pytest.mark.quick(1, "sqlite")
async def test_who_goes_away_stops_his_query(make_server: MakeServer, database: Database) -> None:
    server = await make_server()
    for _ in range(3):
        with anyio.move_on_after(0.1) as scope:
            await server.create_response(SLOW, name="slow")
        assert scope.cancelled_caught
    await assert_idle(database, server)


@pytest.mark.long
async def test_a_shutdown_waits_for_what_it_stops(make_server: MakeServer, database: Database) -> None:
    server = await make_server()
    waiting = asyncio.ensure_future(server.create_response(SLOW, name="slow"))
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    await asyncio.wait({waiting})
    await server.shutdown()
    await assert_idle(database, await make_server())


@pytest.fixture
def in_threads(tmp_path: Path) -> Iterator[Engine]:
    """An engine whose connections are used in threads."""
    engine = create_engine(fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite"))
    yield engine
    engine.dispose()


async def test_a_shutdown_waits_for_a_connection_that_comes_too_late(in_threads: Engine) -> None:
    """Else it came into a pool that the application had disposed of, and nobody would close it."""
    begun, may_open = Event(), Event()

    @event.listens_for(in_threads, "do_connect")
    def slowly(*_: object) -> None:
        begun.set()
        assert may_open.wait(60)

    source = open_source("schools", in_threads, Registry(Base))

    async def work(_: AsyncConnection) -> None:
        raise AssertionError("nobody waits for it any longer")

    waiting = asyncio.ensure_future(in_session(source, None, work, timeout=timedelta(seconds=60)))
    assert await asyncio.to_thread(begun.wait, 60)
    waiting.cancel()
    await asyncio.wait({waiting})
    closing = asyncio.ensure_future(source.close())
    done, _ = await asyncio.wait({closing}, timeout=0.2)
    may_open.set()
    assert not done
    await closing
    pool: Any = in_threads.pool
    assert (pool.checkedout(), pool.checkedin()) == (0, 1)


async def test_a_second_cancellation_does_not_keep_the_connection(in_threads: Engine) -> None:
    """Of a caller whose thread is busy: the connection is returned after what runs there."""
    begun, may_end = Event(), Event()

    def statement(_: object) -> None:
        begun.set()
        assert may_end.wait(60)

    async def work() -> None:
        async with ThreadedEngine(in_threads).connect() as connection:
            await connection.run_sync(statement)

    working = asyncio.ensure_future(work())
    assert await asyncio.to_thread(begun.wait, 60)
    for _ in range(2):
        working.cancel()
        await asyncio.wait({working}, timeout=0.05)
    assert working.cancelled()
    may_end.set()
    pool: Any = in_threads.pool
    await until(lambda: asyncio.to_thread(pool.checkedout), lambda connections: not connections)


@pytest.mark.quick(1, "postgresql")
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


@pytest.mark.parametrize("fails", [False, True])
async def test_a_read_only_engine_of_the_application_has_no_limit_afterwards(
    fails: bool, sqlite_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    engine = make_engine(sqlite_url)
    event.listen(engine.sync_engine, "connect", lambda opened, _: opened.execute("PRAGMA query_only = ON"))
    guard, terms = SQLiteGuard(), SessionTerms(limit=timedelta(milliseconds=50))
    async with engine.connect() as connection:
        with suppress(ZeroDivisionError):
            async with guard.read_only(connection, terms):
                await connection.exec_driver_sql("SELECT 1")
                if fails:
                    raise ZeroDivisionError
        assert (await connection.exec_driver_sql(LONG)).scalar_one() == 1_000_000


async def test_each_statement_of_a_session_has_the_whole_time(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    guard, past, terms = SQLiteGuard(), SessionTerms(timedelta(0)), SessionTerms(timedelta(minutes=1))
    async with make_engine(sqlite_url).connect() as connection, guard.read_only(connection, past):
        await guard.renew_limit(connection, terms, is_new=False)
        assert (await connection.exec_driver_sql(LONG)).scalar_one() == 1_000_000


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
    async with engine.connect() as operator, asyncio.timeout(PATIENCE):
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
