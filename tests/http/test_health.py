"""Health checks: which part is not ready, in fixed words, in bounded time, however many ask."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

from dualsql import Health, health
from dualsql.errors import ConfigurationError
from dualsql.features import DualResponseServer
from dualsql.resource import Resource
from dualsql.store import MemoryStore, SQLResourceStore, upgrade
from dualsql.store.protocol import Requester
from tests.failures.cluster import Cluster, cluster
from tests.http.application import BASE_URL, METADATA
from tests.servers import create_server

SOON = timedelta(milliseconds=100)
SECRETS = ["a secret of at least thirty-two characters"]
FIRST_AGAIN = {"server": "ok", "store": "ok", "database default": "ok"}


def server_of(database: Any, **options: Any) -> DualResponseServer:
    return create_server(database, **{"base_url": BASE_URL, "tables": METADATA, **options})


@asynccontextmanager
async def probing(server: DualResponseServer) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the health routes alone."""
    app = Starlette(routes=list(server.features.get(Health).process_routes()))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://10.0.0.7") as http:
        yield http


async def state_of(http: httpx.AsyncClient, *, ready: bool) -> dict[str, str]:
    """The parts, after checking what goes with them."""
    answer = await http.get("/ready")
    assert answer.status_code == (200 if ready else 503), answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert ("retry-after" in answer.headers) is not ready
    body = answer.json()
    assert body.keys() == {"status", "parts"} and body["status"] == ("ready" if ready else "not ready")
    parts: dict[str, str] = body["parts"]
    return parts


@pytest.fixture
def not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every probe checks."""
    monkeypatch.setattr(health, "VALID_SECONDS", 0.0)


async def test_a_server_that_nothing_used_is_started_and_one_that_stopped_says_so(
    institutions_url: str, not_kept: None
) -> None:
    server = server_of(institutions_url)
    async with probing(server) as http:
        assert (await http.get("/live")).json() == {"status": "live"}
        assert await state_of(http, ready=True) == FIRST_AGAIN
        assert (await http.head("/ready")).status_code == 200
        assert (await http.post("/ready")).status_code == 405
        await server.shutdown()
        assert await state_of(http, ready=False) == {"server": "stopped"}
        assert (await http.get("/live")).status_code == 200
        async with server:
            assert await state_of(http, ready=True) == FIRST_AGAIN


class HangingStore(MemoryStore):
    """Hangs like a store whose network is gone, and does not heed a cancellation until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.is_asked, self.answers = asyncio.Event(), asyncio.Event()

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        self.asked += 1
        self.is_asked.set()
        while not self.answers.is_set():
            try:
                await self.answers.wait()
            except asyncio.CancelledError:
                continue
        return await super().get(resource_id, viewer)


async def test_a_store_that_hangs_holds_up_neither_probes_nor_itself(
    institutions_url: str, not_kept: None
) -> None:
    store = HangingStore()
    async with (
        server_of(institutions_url, store=store, health_timeout=SOON) as server,
        probing(server) as http,
    ):
        started = time.monotonic()
        for _ in range(3):
            actual = await state_of(http, ready=False)
            assert actual == {**FIRST_AGAIN, "store": "no answer in time"}
        answers = await asyncio.gather(*(http.get("/ready") for _ in range(200)))
        assert {answer.status_code for answer in answers} == {503}
        assert time.monotonic() - started < 5
        assert store.asked == 3, "three checks hang; no other is sent after them"
        store.answers.set()
        while (await http.get("/ready")).status_code != 200:
            pass
        assert await state_of(http, ready=True) == FIRST_AGAIN


@pytest.mark.parametrize("ignores", [False, True])
async def test_a_probe_that_was_given_up_is_asked_anew(ignores: bool, not_kept: None) -> None:
    asked, silence = [0], asyncio.Event()

    async def probe() -> str:
        asked[0] += 1
        if asked[0] > 2:
            return "ok"
        while not silence.is_set():
            try:
                await silence.wait()
            except asyncio.CancelledError:
                if not ignores:
                    raise
        return "failed"

    checks = health.ReadinessChecks(lambda: {"part": probe}, SOON)
    values = [(await checks.readiness()).parts["part"] for _ in range(4)]
    assert (values, asked) == (["no answer in time"] * 2 + ["ok"] * 2, [4])
    silence.set()


class CountingStore(MemoryStore):
    """Counts how often it is asked."""

    asked = 0

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        self.asked += 1
        return await super().get(resource_id, viewer)


async def test_a_flood_of_probes_asks_once_a_second(institutions_url: str) -> None:
    store = CountingStore()
    async with server_of(institutions_url, store=store) as server, probing(server) as http:
        for _ in range(5):
            await asyncio.gather(*(http.get("/ready") for _ in range(100)))
        assert store.asked <= 2
        assert health.VALID_SECONDS == 1.0


async def test_a_probe_that_hangs_up_does_not_end_the_check_of_others(institutions_url: str) -> None:
    store = HangingStore()
    async with server_of(institutions_url, store=store) as server, probing(server) as http:
        impatient, patient = (asyncio.create_task(http.get("/ready")) for _ in range(2))
        await store.is_asked.wait()
        impatient.cancel()
        store.answers.set()
        assert (await patient).status_code == 200


async def test_tables_that_are_missing_are_told_from_a_store_that_is(
    institutions_url: str, tmp_path: Path, not_kept: None, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/hunter2.sqlite"
    upgrade(url)
    server = server_of(institutions_url, store=SQLResourceStore(url), secrets=SECRETS)
    async with server, probing(server) as http:
        assert await state_of(http, ready=True) == FIRST_AGAIN
        with closing(sqlite3.connect(make_url(url).database or "")) as connection:
            connection.execute("ALTER TABLE dualsql_links RENAME TO former_links")
        assert await state_of(http, ready=False) == {**FIRST_AGAIN, "store": "not migrated"}
        with closing(sqlite3.connect(make_url(url).database or "")) as connection:
            connection.execute("ALTER TABLE former_links RENAME TO dualsql_links")
        assert await state_of(http, ready=True) == FIRST_AGAIN
        shutil.move(tmp_path / "hunter2.sqlite", tmp_path / "away")
        answer = await http.get("/ready")
        assert answer.status_code == 503 and "hunter2" not in answer.text
        shutil.move(tmp_path / "away", tmp_path / "hunter2.sqlite")
    assert "Traceback" not in caplog.text
    records = [record for record in caplog.records if "health check" in record.getMessage()]
    assert len(records) == 3, "begun, ended, begun: no line for each probe"


async def test_a_database_that_is_not_read_only_is_never_ready(
    institutions_url: str, not_kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dualsql.databases import proof

    async def may_write(*_: object) -> bool:
        return False

    server = server_of(institutions_url)
    monkeypatch.setattr(proof, "_is_refused", may_write)
    async with probing(server) as http:
        for _ in range(2):
            assert (await state_of(http, ready=False))["server"] == "not started"
    with pytest.raises(ConfigurationError):
        await server.start()
    await server.shutdown()


async def test_a_database_with_all_connections_in_use_is_busy_and_ready(
    institutions_url: str, not_kept: None
) -> None:
    limits = {"maximum_concurrent_queries": 1, "maximum_streams": 1, "maximum_pending": 1}
    async with server_of(institutions_url, **limits) as server, probing(server) as http:
        engine = server.parts.sources["default"].engine
        async with engine.connect(), engine.connect(), engine.connect():
            assert await state_of(http, ready=True) == {**FIRST_AGAIN, "database default": "busy"}
        assert await state_of(http, ready=True) == FIRST_AGAIN


@pytest.mark.parametrize(("overflow", "state"), [(0, "busy"), (-1, "ok")])
async def test_an_engine_of_the_application_with_no_connection_to_spare_is_ready(
    institutions_url: str, not_kept: None, overflow: int, state: str
) -> None:
    engine = create_async_engine(institutions_url, pool_size=1, max_overflow=overflow)
    async with server_of(engine) as server, probing(server) as http, engine.connect():
        assert await state_of(http, ready=True) == {**FIRST_AGAIN, "database default": state}
    await engine.dispose()


async def test_queries_that_wait_do_not_make_a_database_unready(
    institutions_url: str, not_kept: None
) -> None:
    server = server_of(institutions_url, maximum_concurrent_queries=1)
    async with server, probing(server) as http, server.parts.sources["default"].limits.slot():
        assert await state_of(http, ready=True) == FIRST_AGAIN


@pytest.fixture(scope="module")
def postgresql_of_its_own() -> Any:
    with cluster() as database:
        yield database


def processes_of(server: Cluster) -> list[int]:
    """Its process and those of its connections."""
    process = server._process
    assert process is not None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [process.pid, *map(int, children.split())]


@pytest.mark.long
async def test_postgresql_is_stopped_and_silenced_and_comes_back(
    institutions_url: str, postgresql_of_its_own: Cluster, not_kept: None
) -> None:
    """The database and the store, each told for itself; and no password."""
    database = postgresql_of_its_own.url("postgres")
    upgrade(database)
    options = {
        "store": SQLResourceStore(database),
        "secrets": SECRETS,
        "health_timeout": timedelta(seconds=1),
    }
    both = {"here": institutions_url, "there": database}
    ready = {"server": "ok", "store": "ok", "database here": "ok", "database there": "ok"}
    async with server_of(both, **options) as server, probing(server) as http:
        assert await state_of(http, ready=True) == ready
        postgresql_of_its_own.stop()
        gone = await state_of(http, ready=False)
        assert gone["database here"] == "ok"
        assert gone["store"] == "unreachable"
        assert gone["database there"] in {"unreachable", "no connection"}
        assert await state_of(http, ready=False) == {
            **ready,
            "store": "unreachable",
            "database there": "unreachable",
        }
        postgresql_of_its_own.start()
        assert await state_of(http, ready=True) == ready
        silenced = processes_of(postgresql_of_its_own)
        try:
            for each in silenced:
                os.kill(each, signal.SIGSTOP)
            started = time.monotonic()
            silent = await state_of(http, ready=False)
            assert time.monotonic() - started < 3
            assert silent["store"] == silent["database there"] == "no answer in time"
        finally:
            for each in reversed(silenced):
                os.kill(each, signal.SIGCONT)
        async with asyncio.timeout(30):
            while (await http.get("/ready")).status_code != 200:
                pass
