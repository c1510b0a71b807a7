"""A server that starts before its database, is told to stop while it works, or has another time than its store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest
import uvicorn
from sqlalchemy import MetaData, Select, make_url, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import (
    ConfigurationError,
    DualResponseServer,
    Feature,
    Health,
    MemoryStore,
    PageRequest,
    ServerUnavailableError,
    SQLResourceStore,
    StorageError,
    TamperedError,
    health,
    packages,
    resource,
    run,
)
from dualsql.feature_list import default_features
from dualsql.settings import ALL_ACTIONS
from dualsql.store import upgrade
from tests.client.hosting import listening_socket
from tests.engines import PostgreSQL, opened
from tests.failures.cluster import Cluster, cluster
from tests.http.application import ALL, BASE_URL, INSTITUTIONS, METADATA, fill
from tests.http.live.serving import listening
from tests.servers import create_server
from tests.waiting import PATIENCE, until, wait_until_logged

SECRETS = ["a secret of at least thirty-two characters"]


@pytest.fixture
async def institutions_url(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> str:
    """The URL of a database that holds sixty institutions."""
    await fill(make_engine(sqlite_url))
    return sqlite_url


@asynccontextmanager
async def application(dual: DualResponseServer) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the server in its lifespan, and of its health routes."""
    app = Starlette(
        routes=[*dual.features.get(Health).process_routes(), Mount("/resources", dual.router())],
        lifespan=dual.lifespan,
    )
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            yield http


@pytest.fixture(scope="module")
def stopped() -> Any:
    """A PostgreSQL with sixty institutions that does not run."""

    async def prepare(url: str) -> None:
        async with opened(url) as engine:
            await fill(engine)

    with cluster() as database:
        asyncio.run(prepare(database.url("postgres")))
        database.stop()
        yield database


async def test_it_starts_before_its_database_and_recovers_by_itself(
    stopped: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "START_INTERVAL", 0.02)
    monkeypatch.setattr(health, "VALID_SECONDS", 0.0)
    dual = DualResponseServer(stopped.url("postgres"), base_url=BASE_URL, tables=METADATA)
    async with application(dual) as http:
        for _ in range(3):
            refused = await http.get("/resources/x", params={"limit": 1})
            problem = refused.json()
            assert (refused.status_code, problem["code"]) == (503, "SERVER_UNAVAILABLE")
            assert refused.headers["retry-after"] and problem["hint"]
        ready = await http.get("/ready")
        assert (ready.status_code, ready.json()["parts"]["server"]) == (503, "not started")
        with pytest.raises(ServerUnavailableError):
            await dual.create_response(ALL, name="all")
        stopped.start()
        try:
            await until(lambda: http.get("/ready"), lambda answer: answer.status_code == 200)
            assert (await dual.create_response(ALL, name="all")).total_count == 60
        finally:
            await dual.shutdown()
            stopped.stop()
    for words in ("failed and is tried again", "works again"):
        assert caplog.text.count(f"The start of the server {words}") == 1, caplog.text
    assert "Traceback" not in caplog.text


async def test_the_lifespan_is_entered_again_while_the_database_cannot_be_reached(stopped: Cluster) -> None:
    """As MCP servers and applications in one process do."""
    dual = DualResponseServer(stopped.url("postgres"), base_url=BASE_URL, tables=METADATA)
    async with application(dual), application(dual) as http:
        assert (await http.get("/resources/x")).status_code == 503


async def test_an_unforeseen_error_of_a_later_attempt_is_logged_and_the_next_use_starts(
    institutions_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [StorageError("no store"), ValueError("unforeseen"), ValueError("unforeseen once more")]

    class Failing(Feature):
        async def start(self) -> None:
            if failures:
                raise failures.pop(0)

    monkeypatch.setattr(run, "START_INTERVAL", 0.02)
    monkeypatch.setattr(health, "VALID_SECONDS", 0.0)
    features = [*default_features(), Failing()]
    dual = DualResponseServer(institutions_url, base_url=BASE_URL, tables=METADATA, features=features)
    async with application(dual) as http:
        await until(lambda: http.get("/ready"), lambda answer: answer.status_code != 503)
        assert (await dual.create_response(ALL, name="all")).total_count == 60
    wait_until_logged()
    assert not failures and "ValueError: unforeseen once more" in caplog.text


async def test_a_failed_proof_is_final(
    institutions_url: str, stopped: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It failed once the database could be reached: nothing of a caller runs, and no later attempt is made."""
    from dualsql.databases import proof

    tried = 0

    async def may_write(*_: object) -> bool:
        nonlocal tried
        tried += 1
        return False

    monkeypatch.setattr(run, "START_INTERVAL", 0.02)
    monkeypatch.setattr(health, "VALID_SECONDS", 0.0)
    monkeypatch.setattr(proof, "_is_refused", may_write)
    dual = DualResponseServer(stopped.url("postgres"), base_url=BASE_URL, tables=METADATA)
    async with application(dual) as http:
        assert (await http.get("/resources/x")).status_code == 503
        stopped.start()
        try:
            async with asyncio.timeout(PATIENCE):
                while (refused := await http.get("/resources/x")).status_code == 503:
                    await http.get("/ready")
            assert refused.json()["code"] == "BAD_CONFIGURATION"
            monkeypatch.undo()
            assert (await http.get("/resources/x")).status_code == 500
            assert (await http.get("/ready")).status_code == 503
            assert tried == 1
        finally:
            stopped.stop()


async def test_streams_end_loudly_when_the_server_is_told_to_stop(institutions_url: str) -> None:
    """The last record names the error, no further stream begins, pages go on, and the stream resumes elsewhere."""
    options: Any = {"anonymous_actions": ALL_ACTIONS, "secrets": SECRETS}
    async with listening(institutions_url, statement=_many(), **options) as live, asyncio.timeout(PATIENCE):
        rows = f"{live.path}/rows"
        async with live.http.stream("GET", rows, params={"format": "ndjson"}) as answer:
            pieces = answer.aiter_bytes()
            begun = await anext(pieces)
            await live.server.drain(timedelta())
            refused = await live.http.get(rows)
            assert (refused.status_code, refused.json()["code"]) == (503, "SERVER_UNAVAILABLE")
            assert (await live.http.get(live.path, params={"limit": 1})).status_code == 200
            token = answer.headers["dualsql-resume"]
            body = begun + b"".join([piece async for piece in pieces])
        *lines, last = body.splitlines()
        end = orjson.loads(last)
        assert end["$problem"]["code"] == "SERVER_UNAVAILABLE", last
        assert 0 < len(lines) < 60**3 and not end["$problem"]["complete"]
        live.server.parts.streams.renew()
        whole = (await live.http.get(rows)).content.splitlines()
        resumed = await live.http.get(rows, params={"resume": token, "after": len(lines)})
        assert lines + resumed.content.splitlines()[:-1] == whole[:-1]


def _many() -> Select[Any]:
    one, two, three = (INSTITUTIONS.alias(name) for name in ("one", "two", "three"))
    joined = one.join(two, two.c.id > 0).join(three, three.c.id > 0)
    columns = (one.c.id, two.c.id.label("second"), three.c.id.label("third"))
    return select(*columns).select_from(joined).order_by(*columns)


async def test_it_is_not_ready_while_it_drains_and_gives_streams_their_time(institutions_url: str) -> None:
    dual = DualResponseServer(institutions_url, base_url=BASE_URL, tables=METADATA)
    async with application(dual) as http:
        assert (await http.get("/ready")).status_code == 200
        response = await dual.create_response(ALL, name="all")
        stream = await dual.stream(response.resource_id, None)
        first = await anext(stream.chunks)
        draining = asyncio.create_task(dual.drain(timedelta(seconds=PATIENCE)))
        ready = await until(lambda: http.get("/ready"), lambda answer: answer.status_code != 200)
        assert ready.json()["parts"]["server"] == "draining"
        rest = [chunk.data async for chunk in stream.chunks]
        async with asyncio.timeout(PATIENCE / 2):
            await draining
        assert stream.ending.is_complete and len(b"".join([first.data, *rest]).splitlines()) == 61


async def test_a_worker_with_another_clock_says_so_and_answers_410_for_nothing_fresh(
    institutions_url: str,
    postgresql_store_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The clocks of three workers differ by hours; results expire by that of the store."""

    def worker(hours: int) -> DualResponseServer:
        class Ahead(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.now(tz) + timedelta(hours=hours)

        monkeypatch.setattr(resource, "datetime", Ahead)
        store = SQLResourceStore(postgresql_store_url)
        return DualResponseServer(
            institutions_url, base_url=BASE_URL, tables=METADATA, store=store, secrets=SECRETS
        )

    async with worker(0) as right:
        responses = [await right.create_response(ALL, name="x")]
        assert right.notices == []
        for hours, words in ((1, "ahead of"), (-30, "behind")):
            async with worker(hours) as wrong:
                assert words in wrong.notices[0] and wrong.notices[0] in caplog.text
                assert f"{abs(hours) * 3600:,}" in wrong.notices[0]
                responses.append(await wrong.create_response(ALL, name="x"))
                assert await wrong.maintenance.sweep() == 0
                for each in responses:
                    stored_resource = await wrong.open_resource(each.resource_id, None, "read")
                    left = (
                        stored_resource.expires_at - datetime.now(UTC)
                        if stored_resource.expires_at
                        else timedelta()
                    )
                    assert timedelta(minutes=14) < left <= timedelta(minutes=15, seconds=1)


async def test_a_clock_that_jumps_while_it_runs_changes_nothing(
    institutions_url: str, postgresql_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLResourceStore(postgresql_store_url)
    options: Any = {"store": store, "secrets": SECRETS}
    async with create_server(institutions_url, base_url=BASE_URL, tables=METADATA, **options) as dual:
        response = await dual.create_response(ALL, name="x")

        class Jumped(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.now(tz) + timedelta(hours=1)

        monkeypatch.setattr(resource, "datetime", Jumped)
        assert await dual.maintenance.sweep() == 0
        assert await dual.open_resource(response.resource_id, None, "read")


async def test_a_slow_reading_of_the_store_s_clock_sets_no_clock_back(postgresql_store_url: str) -> None:
    class SlowStore(SQLResourceStore):
        async def clock(self) -> datetime | None:
            await asyncio.sleep(delays.pop())
            return await super().clock()

    delays = [0.0, 0.1]
    store = SlowStore(postgresql_store_url)
    await store.open()
    try:
        clock = resource.Clock(store)
        await clock.synchronize()
        before = clock.now()
        await clock.synchronize()
        assert clock.now() > before
    finally:
        await store.close()


async def test_uvicorn_without_a_limit_is_told(
    institutions_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(institutions_url):
        pass
    records = [record for record in caplog.records if "--timeout-graceful-shutdown" in record.getMessage()]
    assert [record.levelno for record in records] == [logging.WARNING]


async def test_a_base_url_with_another_port_than_uvicorn_is_told(
    institutions_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    for has_own_port in (True, False):
        caplog.clear()
        with listening_socket() as bound:
            port = bound.getsockname()[1]
            base_url = f"http://127.0.0.1:{port if has_own_port else 9}/resources"
            dual = create_server(institutions_url, base_url=base_url, tables=METADATA)
            server = uvicorn.Server(uvicorn.Config(Starlette(lifespan=dual.lifespan), port=port))
            server.should_exit = True  # as soon as it has started
            await server.serve([bound])
        records = [record for record in caplog.records if f"listens on {port}" in record.getMessage()]
        assert len(records) == (not has_own_port)


async def test_a_server_that_cannot_read_sql_says_so(
    institutions_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda package: None if package == "sqlglot" else package)
    async with DualResponseServer(institutions_url, base_url=BASE_URL, tables=METADATA):
        assert '(/sql) are refused: SQL texts need a parser. pip install "dualsql[sql]"' in caplog.text


async def test_a_worker_that_may_open_more_connections_than_there_are_says_so(
    postgresql_server: PostgreSQL, postgresql_url: str
) -> None:
    """The formula of docs/operations.md, against the limits of the server, the database and the role."""
    upgrade(postgresql_url)
    name = make_url(postgresql_url).database

    def worker(**options: Any) -> DualResponseServer:
        store = SQLResourceStore(postgresql_url)
        return create_server(
            postgresql_url, base_url=BASE_URL, tables=MetaData(), store=store, secrets=SECRETS, **options
        )

    async with worker() as dual:
        assert dual.maintenance.maximum_connections == (15 + 10 + 10) + 15
        assert dual.notices == []
    async with worker(maximum_streams=300) as dual:
        assert "may open 340 connections to the database 'default'" in dual.notices[0]
        assert "allows this user 197." in dual.notices[0]
        async with dual.lifespan(None):
            assert len(dual.notices) == 1, "the lifespan of an application starts what has started"
    postgresql_server.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 49")
    async with worker() as dual:
        assert "50 connections" in dual.notices[0] and "allows this user 49." in dual.notices[0]
    async with worker(maximum_pending=9) as dual:
        assert dual.notices == []


OLD, NEW = "the former secret, of thirty-two characters", "the later secret, of thirty-two characters"


async def test_secrets_are_replaced_without_refusing_anybody(institutions_url: str) -> None:
    """Two workers on one store, one step after the other; cursors, links, resumptions and rows stay good."""
    shared = MemoryStore()

    def worker() -> DualResponseServer:
        return DualResponseServer(
            institutions_url, base_url=BASE_URL, tables=METADATA, store=shared, secrets=[OLD]
        )

    first, second = worker(), worker()
    async with first, second:
        response = await first.create_response(ALL, name="all")
        page = await first.read_page(response.resource_id, None, PageRequest(limit=5))
        for step in ([OLD, NEW], [NEW, OLD]):
            for one, other in ((first, second), (second, first)):
                one.maintenance.set_secrets(step)
                for each in (one, other):
                    request = PageRequest(limit=5, cursor=page.next_cursor)
                    page = await each.read_page(response.resource_id, None, request)
                    assert len(page.rows) == 5
        later = await first.create_response(ALL, name="later")
        for worse in ([], ["short"], "text"):
            with pytest.raises(ConfigurationError):
                second.maintenance.set_secrets(worse)
        assert await second.open_resource(later.resource_id, None, "read")
        for each in (first, second):
            each.maintenance.set_secrets([NEW])
        assert await second.open_resource(later.resource_id, None, "read")
        with pytest.raises(TamperedError):
            await second.open_resource(response.resource_id, None, "read")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"username": "nobody_known", "password": "a-password"}, "rejected the login"),
        ({"database": "no_such_database"}, "has no such database"),
    ],
)
async def test_what_a_database_refuses_is_told_to_the_operator_alone(
    postgresql_url: str, changes: dict[str, Any], words: str
) -> None:
    url = make_url(postgresql_url).set(drivername="postgresql+asyncpg", **changes)
    dual = DualResponseServer(url, base_url=BASE_URL, tables=METADATA)
    with pytest.raises(ConfigurationError, match=words):
        await dual.start()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(Starlette(routes=[Mount("/resources", dual.router())])),
        base_url="http://127.0.0.1:8000",
    ) as client:
        answer = await client.get("/resources/any")
    assert answer.status_code == 500 and answer.json()["code"] == "BAD_CONFIGURATION"
    assert words not in answer.text and "URL" not in answer.text
