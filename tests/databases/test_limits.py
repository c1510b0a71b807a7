"""As many queries at once as the settings say, three answers for three shortages, and connections that are dead."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest
from sqlalchemy import Engine, Select, event, func, literal_column, select, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from dualsql import (
    ConfigurationError,
    DatabaseBusyError,
    DualResponseServer,
    QueryTimeoutError,
    Registry,
    Settings,
    TooManyQueriesError,
)
from dualsql.databases.driver import CompiledStatements, driver_of, memory_of
from dualsql.databases.engines import async_url
from dualsql.databases.postgresql.values import ODD
from dualsql.databases.reach import reach
from dualsql.databases.session import Session, read_only
from dualsql.databases.slots import QueryLimits
from dualsql.databases.source import Source, open_source
from dualsql.databases.text_threads import compute_in_thread
from dualsql.http.problems import problem_response
from dualsql.results.streams import StreamRequest
from tests.databases.kinds import DRIVERS, SLOW, MakeServer
from tests.engines import opened
from tests.schools import SCHOOLS, Base, School, fill
from tests.server.conftest import BASE_URL
from tests.servers import create_server
from tests.waiting import until

pytestmark = pytest.mark.quick(50, "sqlite", "postgresql")

SHORT = timedelta(milliseconds=100)

SERVERS = [name for name, scheme in DRIVERS.items() if scheme.startswith(("postgresql", "mysql"))]


class Crowd:
    """Sessions that stay until they are let go."""

    def __init__(self, limits: QueryLimits, *, for_stream: bool = False) -> None:
        self._limits, self._for_stream = limits, for_stream
        self._end = asyncio.Event()
        self.inside = 0
        self.most = 0
        self.arrived: list[int] = []

    async def session(self, number: int = 0) -> None:
        async with self._limits.slot(for_stream=self._for_stream):
            self.arrived.append(number)
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self._end.wait()
            self.inside -= 1

    async def enter(self, number: int) -> list[asyncio.Task[None]]:
        """So many sessions, each as far as it gets."""
        tasks = [asyncio.ensure_future(self.session(n)) for n in range(number)]
        for _ in range(3):
            await asyncio.sleep(0)
        return tasks

    def let_go(self) -> None:
        self._end.set()


def limits(**options: Any) -> QueryLimits:
    return QueryLimits(Settings(**options))


async def test_never_more_than_the_setting_says_and_each_in_its_turn() -> None:
    crowd = Crowd(limits(maximum_concurrent_queries=3))
    tasks = await crowd.enter(20)
    assert crowd.inside == 3
    crowd.let_go()
    await asyncio.gather(*tasks)
    assert crowd.most <= 3
    assert crowd.arrived == list(range(20))


def test_a_database_in_the_process_has_at_most_its_own_number() -> None:
    settings = Settings(maximum_concurrent_queries=1_000)
    for url, number in (("sqlite://", 3 * (os.cpu_count() or 1)), ("postgresql://nowhere", 1_000)):
        source = open_source("main", url, Registry(tables=[]), settings)
        assert source.limits.queries.number == source.renewed(settings).limits.queries.number == number


async def test_a_full_queue_refuses_at_once() -> None:
    crowd = Crowd(limits(maximum_concurrent_queries=1, maximum_queued_queries=2))
    tasks = await crowd.enter(3)
    with pytest.raises(TooManyQueriesError, match="running and waiting"):
        await crowd.session()
    crowd.let_go()
    await asyncio.gather(*tasks)
    await crowd.session()  # and there is room again


async def test_nobody_waits_for_ever() -> None:
    crowd = Crowd(limits(maximum_concurrent_queries=1, queue_timeout=SHORT))
    tasks = await crowd.enter(1)
    with pytest.raises(TooManyQueriesError, match="none ended in time"):
        await crowd.session()
    crowd.let_go()
    await asyncio.gather(*tasks)


async def test_who_leaves_the_queue_takes_no_place_with_him() -> None:
    all_slots = limits(maximum_concurrent_queries=2, maximum_queued_queries=50)
    crowd = Crowd(all_slots)
    tasks = await crowd.enter(50)
    for task in tasks[::2]:
        task.cancel()
    crowd.let_go()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert crowd.most <= 2
    again = Crowd(all_slots)
    await again.enter(2)
    assert again.inside == 2
    again.let_go()


async def test_slow_readers_of_streams_keep_no_page_waiting() -> None:
    all_slots = limits(maximum_concurrent_queries=1, maximum_streams=2, maximum_queued_queries=0)
    streams = Crowd(all_slots, for_stream=True)
    tasks = await streams.enter(2)
    with pytest.raises(TooManyQueriesError):
        await streams.session()
    async with all_slots.slot():
        assert not all_slots.has_room()
    assert all_slots.has_room()
    streams.let_go()
    await asyncio.gather(*tasks)


async def test_a_lane_with_a_connection_of_its_own_takes_a_place(make_server: MakeServer) -> None:
    server = await make_server(maximum_streams=1, maximum_queued_queries=0)
    source = server.parts.sources["default"]
    rules = server.parts.policy.rules_for(None)
    async with read_only(source, rules):
        with pytest.raises(TooManyQueriesError):
            async with read_only(source, rules):
                pass


async def test_a_thread_for_texts_is_taken_until_its_work_has_ended() -> None:
    """Also if the caller has gone, since a thread cannot be stopped. Those who wait are limited."""
    all_slots, release, begun, run = limits(), Event(), Event(), list[int]()

    def work() -> None:
        begun.set()
        release.wait()

    left = asyncio.ensure_future(compute_in_thread(all_slots, work))
    await asyncio.to_thread(begun.wait)
    left.cancel()
    await asyncio.wait({left})
    steps = [partial(run.append, number) for number in range(64)]
    waiting = [asyncio.ensure_future(compute_in_thread(all_slots, step)) for step in steps]
    await asyncio.sleep(0)
    with pytest.raises(TooManyQueriesError, match="running and waiting"):
        await compute_in_thread(all_slots, work)
    assert _text_slots(all_slots) == {"slots_used": 1, "slots": 1}
    waiting.pop(0).cancel()
    assert left.cancelled() and run == []
    release.set()
    await asyncio.gather(*waiting)
    assert run == [*range(1, 64)] and _text_slots(all_slots)["slots_used"] == 0


def _text_slots(all_slots: QueryLimits) -> dict[str, int]:
    return {"slots_used": all_slots.texts.used, "slots": all_slots.texts.number}


def test_large_compiled_statements_are_bounded_by_their_size_and_drop_no_others() -> None:
    cache = CompiledStatements()

    def compiled(characters: int, number: int = 0) -> Any:
        statement: Select[Any] = select(literal_column(str(number).zfill(characters)))
        return statement.compile(dialect=sqlite.dialect())

    cache["short"] = short = compiled(100)
    statements = {number: compiled(20_000, number) for number in range(30)}
    for number, statement in statements.items():
        cache[number] = statement
        assert cache.get(number) is statement
        assert cache.get(0) is statements[0], "it was used last"
    kept = [number for number in statements if cache.get(number) is not None]
    assert kept == [0, *range(19, 30)] and cache.large.weight <= 250_000
    cache[29] = statements[29]
    assert cache.large.weight == sum(len(statements[number].string) for number in kept)
    assert cache.get("short") is short and cache.get("unknown") is None
    cache["largest"] = largest = compiled(300_000)
    assert cache.get("largest") is largest and cache.get(29) is None


async def test_the_error_of_a_text_reaches_its_caller() -> None:
    def failing() -> None:
        raise StopIteration  # which no future takes

    with pytest.raises(RuntimeError, match="StopIteration"):
        await compute_in_thread(limits(), failing)


@pytest.mark.quick(1, "sqlite", "postgresql")
async def test_a_crowd_on_every_engine_is_served_in_turn(make_server: MakeServer) -> None:
    server = await make_server(maximum_concurrent_queries=2)
    answers = await asyncio.gather(*(server.create_response(select(School), name="x") for _ in range(20)))
    assert {answer.total_count for answer in answers} == {len(SCHOOLS)}


async def test_three_shortages_have_three_messages(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url, pool_size=1, max_overflow=0)
    await fill(engine)
    content = {
        "no place": await _refusal(engine, maximum_concurrent_queries=1, maximum_queued_queries=0),
        "no connection": await _refusal(engine, queue_timeout=SHORT),
    }
    async with _server(engine, query_timeout=SHORT) as server:
        with pytest.raises(QueryTimeoutError) as raised:
            await server.create_response(SLOW, name="slow")
    content["slow"] = raised.value
    assert {name: error.code for name, error in content.items()} == {
        "no place": "TOO_MANY_QUERIES",
        "no connection": "DATABASE_BUSY",
        "slow": "QUERY_TIMEOUT",
    }
    assert len({error.message for error in content.values()}) == 3
    await engine.dispose()


async def _refusal(engine: AsyncEngine, **settings: Any) -> Any:
    """What a second caller is told while the only connection is in use."""
    async with _server(engine, **settings) as server:
        first = asyncio.ensure_future(server.create_response(SLOW, name="slow"))
        if "maximum_concurrent_queries" in settings:
            await asyncio.wait({first}, timeout=0.1)
            with pytest.raises(DatabaseBusyError) as raised:
                await server.create_response(select(School), name="x")
        else:
            first.cancel()
            await asyncio.wait({first})
            async with engine.connect() as held:
                await held.execute(text("SELECT 1"))
                with pytest.raises(DatabaseBusyError) as raised:
                    await server.create_response(select(School), name="x")
        first.cancel()
        await asyncio.wait({first})
        return raised.value


def _server(engine: AsyncEngine, **settings: Any) -> DualResponseServer:
    return create_server(engine, base_url=BASE_URL, tables=Base, **settings)


async def test_over_http_it_is_503_with_a_time_to_retry() -> None:
    answer = problem_response(TooManyQueriesError("Too many."))
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0


async def test_a_stream_that_nobody_finishes_gives_its_place_back(make_server: MakeServer) -> None:
    server = await make_server(maximum_streams=1, maximum_queued_queries=0)
    response = await server.create_response(select(School), name="x")
    resource = await server.open_resource(response.resource_id, None, "read")
    for _ in range(3):
        stream = await server.unchecked.stream(resource, None, StreamRequest(format="ndjson"))
        assert await anext(stream.chunks)
        assert await anext(stream.chunks)
        await stream.chunks.aclose()
        await asyncio.gather(*server.parts.sources["default"].finishing)


_OTHERS = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
_END_OTHERS = """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""


async def _end_sessions(operator: AsyncConnection) -> None:
    """End all sessions of the database but the operator's, as a restart does, and return when they have ended."""
    if operator.dialect.name == "postgresql":
        await operator.execute(text(_END_OTHERS))
        return
    for number in (await operator.execute(text(_OTHERS))).scalars().all():
        await operator.exec_driver_sql(f"KILL {number}")
    await until(lambda: operator.execute(text(_OTHERS)), lambda actual: not actual.all())


@pytest.mark.quick(1, "postgresql", "mariadb")
@pytest.mark.parametrize("driver", SERVERS, indirect=True)
async def test_connections_that_the_database_has_closed_are_replaced(
    make_server: MakeServer, database: Engine | AsyncEngine
) -> None:
    """Whoever asks next gets rows, however many connections of the pool are dead."""
    server = await make_server()
    source = server.parts.sources["default"]
    response = await server.create_response(select(School).order_by(School.id), name="schools")

    async def page() -> Any:
        return (await server.read_page(response.resource_id, None)).rows

    async with opened(async_url(database.url)) as engine, engine.connect() as operator:
        for _ in range(2):
            before = await asyncio.gather(*(page() for _ in range(4)))
            await _end_sessions(operator)
            assert await asyncio.gather(*(page() for _ in range(4))) == before
        await _end_sessions(operator)
        await reach(source, timeout=timedelta(seconds=20))
        await _end_sessions(operator)
        stream = await server.stream(response.resource_id, None, StreamRequest(format="ndjson"))
        assert sum([chunk.rows async for chunk in stream.chunks]) == len(SCHOOLS)


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
async def test_dead_connections_that_only_the_application_has_used_are_replaced(
    make_server: MakeServer, database: AsyncEngine
) -> None:
    server = await make_server()
    async with AsyncExitStack() as used:
        connections = [await used.enter_async_context(database.connect()) for _ in range(4)]
        for connection in connections:
            memory_of(connection).clear()
    async with opened(async_url(database.url)) as engine, engine.connect() as operator:
        await _end_sessions(operator)
    response = await server.create_response(select(School), name="schools")
    assert response.total_count == len(SCHOOLS)


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
async def test_a_connection_that_was_left_in_a_transaction_is_replaced(make_server: MakeServer) -> None:
    """SQLAlchemy returns one to its pool after a ROLLBACK that was cancelled."""
    server = await make_server()
    source = server.parts.sources["default"]
    response = await server.create_response(select(School).order_by(School.id), name="schools")
    before = (await server.read_page(response.resource_id, None)).rows
    async with source.engine.connect() as connection:
        await driver_of(connection).execute("BEGIN")
    assert (await server.read_page(response.resource_id, None)).rows == before


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
async def test_a_connection_is_kept_until_the_request_to_cancel_has_been_sent(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would stop the next session's statement."""
    source = (await make_server()).parts.sources["default"]
    begun, ended, sending, sent = (asyncio.Event() for _ in range(4))

    async def work(_: AsyncConnection) -> None:
        begun.set()
        await ended.wait()

    async def send(*_: object) -> None:
        sending.set()
        await sent.wait()

    monkeypatch.setattr(source.guard, "stop", send)
    session = Session(source, None, work)
    await begun.wait()
    stopping = asyncio.ensure_future(session.stop())
    await sending.wait()
    ended.set()
    async with source.engine.connect() as connection:
        await connection.execute(select(1))  # by then, a session that does not wait has ended
    assert not session.task.done()
    sent.set()
    await stopping
    assert source.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg"], indirect=True)
async def test_a_connection_that_the_database_is_closing_is_replaced(make_server: MakeServer) -> None:
    """It has said so, and the end of the connection has not arrived."""
    server = await make_server()
    response = await server.create_response(select(School).order_by(School.id), name="schools")
    before = (await server.read_page(response.resource_id, None)).rows
    fatal = b"SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
    async with server.parts.sources["default"].engine.connect() as connection:
        driver_of(connection)._protocol.data_received(b"E" + (len(fatal) + 4).to_bytes(4) + fatal)
    assert (await server.read_page(response.resource_id, None)).rows == before


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg"], indirect=True)
async def test_a_session_is_one_message_its_statements_and_one_message(make_server: MakeServer) -> None:
    """And its connection, which is the application's, has no other settings afterwards."""
    source, sent = (await make_server()).parts.sources["default"], []
    async with read_only(source, None, limit=SHORT) as connection:
        driver = driver_of(connection)
        driver.add_query_logger(lambda record: sent.append(record.query))
        shown = "SELECT current_setting('transaction_read_only'), current_setting('statement_timeout')"
        assert (await connection.execute(text(shown))).one() == ("on", "100ms")
    async with read_only(source, None, limit=SHORT) as connection:
        assert driver_of(connection) is driver
    begin = "BEGIN READ ONLY; SET LOCAL statement_timeout = 100"
    assert [query for query in sent if query != shown] == ["ROLLBACK", begin, "ROLLBACK"]
    async with source.engine.connect() as connection:
        assert driver_of(connection) is driver
        assert (await connection.execute(text(shown))).one() == ("off", "0")
        assert driver.is_in_transaction()


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
async def test_the_time_limit_of_a_count_is_not_prepared(make_server: MakeServer) -> None:
    """It is one message without a prepared statement, which would take a round trip more."""
    server = await make_server(count_budget=SHORT)
    total = (await server.create_response(select(School.id), name="schools", sample_size=2)).total_count
    assert total == len(SCHOOLS)
    prepared = text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SET LOCAL%'")
    async with server.parts.sources["default"].engine.connect() as connection:
        assert await connection.scalar(prepared) == 0


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["psycopg async"], indirect=True)
async def test_a_connection_of_psycopg_has_no_other_settings_afterwards(make_server: MakeServer) -> None:
    source = (await make_server()).parts.sources["default"]
    shown = text("SELECT current_setting('transaction_read_only'), current_setting('statement_timeout')")
    async with read_only(source, None, limit=SHORT) as connection:
        driver, loaders = driver_of(connection), driver_of(connection).adapters
        assert (driver.autocommit, driver.info.transaction_status.name) == (False, "INTRANS")
        assert (await connection.execute(shown)).one() == ("on", "100ms")
        changed = loaders.get_loader(1184, 0)
    async with source.engine.connect() as connection:
        assert driver_of(connection) is driver
        assert (driver.autocommit, driver.read_only) == (False, None)
        assert loaders.get_loader(1184, 0) is not changed
        assert (await connection.execute(shown)).one() == ("off", "0")
        assert driver.info.transaction_status.name == "INTRANS"


@pytest.mark.quick(1)
async def test_a_connection_of_psycopg_that_dualsql_opened_keeps_its_loaders(postgresql_url: str) -> None:
    source, loaders = open_source("default", postgresql_url.replace("asyncpg", "psycopg"), Registry([])), []
    for _ in range(2):
        async with read_only(source, None, limit=SHORT) as connection:
            loaders.append({oid: driver_of(connection).adapters.get_loader(oid, 0) for oid in ODD})
    async with source.engine.connect() as connection:
        loaders.append({oid: driver_of(connection).adapters.get_loader(oid, 0) for oid in ODD})
    assert loaders[0] == loaders[1] == loaders[2]
    async with read_only(source, None, limit=SHORT) as connection:
        shown = await connection.execute(text("SELECT 'infinity'::date, CAST('0044-03-15 BC' AS date)"))
        infinity, early = shown.one()
    await source.close()
    assert (infinity, early.text) == ("infinity", "0044-03-15 BC")


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
@pytest.mark.parametrize("beginning", ["BEGIN", "ROLLBACK"])
async def test_a_connection_whose_session_did_not_begin_or_end_is_closed(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], beginning: str
) -> None:
    source = (await make_server()).parts.sources["default"]
    async with source.engine.connect() as connection:
        driver = driver_of(connection)
    execute = type(driver).execute

    async def fail(self: Any, query: str, **options: Any) -> None:
        await execute(self, query if beginning == "BEGIN" else "SELECT 1", **options)
        if query.startswith(beginning):
            raise error

    async def fail_in_transaction(self: Any, *arguments: Any) -> Any:
        answer = await wait(self, *arguments)
        if beginning == "BEGIN" and self.info.transaction_status.name == "INTRANS":
            raise error
        return answer

    async def fail_at_the_end(self: Any) -> None:
        await rollback(self)
        if beginning == "ROLLBACK":
            raise error

    if hasattr(driver, "wait"):  # of psycopg
        wait, rollback = type(driver).wait, type(driver).rollback
        monkeypatch.setattr(type(driver), "wait", fail_in_transaction)
        monkeypatch.setattr(type(driver), "rollback", fail_at_the_end)
    else:
        monkeypatch.setattr(type(driver), "execute", fail)
    rows: Any = None
    with suppress(error):
        async with read_only(source, None) as connection:
            rows = (await connection.execute(text("SELECT 1"))).all()
    monkeypatch.undo()
    assert (rows is None) == (beginning == "BEGIN")
    assert driver.closed if hasattr(driver, "closed") else driver.is_closed()
    async with source.engine.connect() as connection:
        assert await connection.scalar(text("SHOW transaction_read_only")) == "off"


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
async def test_a_session_whose_connection_is_lost_gets_no_other_one(source: Source) -> None:
    """Another one would not be read-only, and would have no limit, no role and no settings."""
    async with read_only(source, None) as connection:
        await connection.invalidate()
        with pytest.raises(PendingRollbackError):
            await connection.execute(text("SELECT 1"))


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
async def test_the_isolation_level_of_an_engine_is_that_of_its_sessions(database: AsyncEngine) -> None:
    names = ("transaction_isolation", "transaction_read_only", "statement_timeout")
    shown = select(*(func.current_setting(name) for name in names))
    async with opened(database.url, isolation_level="SERIALIZABLE") as engine:
        async with read_only(open_source("x", engine, Registry(Base)), None, limit=SHORT) as connection:
            assert (await connection.execute(shown)).one() == ("serializable", "on", "100ms")
        async with engine.connect() as connection:
            assert (await connection.execute(shown)).one() == ("serializable", "off", "0")


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg async"], indirect=True)
@pytest.mark.parametrize("moment", ["connect", "checkout"])
async def test_a_listener_that_leaves_a_transaction_open_is_named(database: AsyncEngine, moment: str) -> None:
    connections: list[Any] = []

    def begin(connection: Any, *_: Any) -> None:
        connections.append(connection)
        connection.cursor().execute("SELECT 1")

    async with opened(database.url) as engine:
        source = open_source("x", engine, Registry(Base))
        # SQLAlchemy ends what the first connection of an engine has begun.
        async with read_only(source, None):
            event.listen(engine.sync_engine, moment, begin)
            for number in (1, 2):
                with pytest.raises(ConfigurationError) as refused:
                    async with read_only(source, None):
                        raise AssertionError("The transaction is that of the listener.")
                assert len(connections) == number
                assert "`checkout`" in str(refused.value.hint)
        event.remove(engine.sync_engine, moment, begin)
        async with read_only(source, None) as connection:
            assert await connection.scalar(text("SELECT 1")) == 1
