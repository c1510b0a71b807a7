"""PostgreSQL, which holds data and results, is restarted, paused, full or read-only; the network is cut."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from dualsql.settings import ALL_ACTIONS
from dualsql.store import SQLResourceStore
from dualsql_client import DualResponseClient, Progress
from tests.client.hosting import structured
from tests.drills.conftest import Report
from tests.failures.cluster import Cluster
from tests.failures.requests import SECRETS, ToolServer, assert_all_work, create, serving
from tests.failures.test_client import IDS, MANY, ids_of
from tests.http.live.serving import LiveServer, listening
from tests.http.test_health import processes_of
from tests.proxies.running import PATIENCE
from tests.relay import Relay, relaying
from tests.waiting import until

UNAVAILABLE = {503, 504}

# Sockets that a drill cuts are not closed in order.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def serving_both(url: str, **options: Any) -> Any:
    """A server whose data and store are in the same database."""
    kept = SQLResourceStore(url, timeout=timedelta(seconds=2))
    settings: dict[str, Any] = {"query_timeout": timedelta(seconds=2), "queue_timeout": timedelta(seconds=2)}
    return listening(
        url,
        kind=ToolServer,
        store=kept,
        secrets=SECRETS,
        anonymous_actions=ALL_ACTIONS,
        **settings,
        **options,
    )


async def until_it_works(live: LiveServer, path: str) -> None:
    """Ask until rows come; every other answer says that the database is away."""
    async with asyncio.timeout(PATIENCE):
        while (answer := await live.http.get(path, params={"limit": 1})).status_code != 200:
            assert answer.status_code in UNAVAILABLE, answer.text


async def until_recovered(live: LiveServer, path: str, report: Report, effect: str) -> None:
    """The trouble has ended: wait until rows come, add the row of the report, and ask for everything."""
    report.end_trouble()
    await until_it_works(live, path)
    report.add(effect=effect)
    await assert_all_work(live)


async def codes_of(live: LiveServer, path: str, times: int = 5) -> set[str]:
    """The codes of some requests for rows, none of which may succeed."""
    answers = await asyncio.gather(*(live.http.get(path, params={"limit": 1}) for _ in range(times)))
    assert {answer.status_code for answer in answers} <= UNAVAILABLE
    return {answer.json()["code"] for answer in answers}


@pytest.mark.exhaustive
async def test_postgresql_is_restarted(own_cluster: Cluster, url: str, report: Report) -> None:
    """PostgreSQL is stopped at once (SIGQUIT) and started again."""
    async with serving_both(url) as live:
        path = await create(live)
        own_cluster.stop(signal.SIGQUIT)
        codes = await codes_of(live, path)
        own_cluster.start()
        await until_recovered(live, path, report, f"503 {', '.join(sorted(codes))}")


@pytest.mark.exhaustive
async def test_postgresql_is_paused(own_cluster: Cluster, url: str, report: Report) -> None:
    """PostgreSQL is paused (SIGSTOP of all its processes)."""
    async with serving_both(url) as live:
        path = await create(live)
        paused = processes_of(own_cluster)
        for each in paused:
            os.kill(each, signal.SIGSTOP)
        try:
            async with asyncio.timeout(PATIENCE):
                codes = await codes_of(live, path)
        finally:
            for each in reversed(paused):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)
        await until_recovered(
            live, path, report, f"503 or 504 {', '.join(sorted(codes))}, within the timeouts"
        )


@pytest.mark.exhaustive
async def test_postgresql_is_out_of_connections(own_cluster: Cluster, url: str, report: Report) -> None:
    """PostgreSQL has no connection left for the server."""
    async with AsyncExitStack() as stack, serving_both(url) as live:
        path = await create(live)
        await live.server.parts.sources["default"].engine.dispose()
        store: Any = live.server.store
        await store._connections.engine.dispose()
        hogs: list[Any] = []
        with suppress(asyncpg.TooManyConnectionsError):
            while True:
                connecting = asyncpg.connect(
                    host=own_cluster.socket_folder, user="postgres", database="postgres"
                )
                hogs.append(await connecting)
                stack.push_async_callback(hogs[-1].close)
        assert len(hogs) > 50
        codes = await codes_of(live, path)
        for each in hogs:
            await each.close()
        await until_recovered(live, path, report, f"503 {', '.join(sorted(codes))}")


@pytest.mark.exhaustive
async def test_the_store_is_read_only(own_cluster: Cluster, data_url: str, report: Report) -> None:
    """The store becomes read-only."""
    async with serving(data_url, own_cluster.url("postgres")) as live:
        path = await create(live)

        async def change(value: str) -> None:
            operator = await asyncpg.connect(
                host=own_cluster.socket_folder,
                user="postgres",
                database="postgres",
                server_settings={"default_transaction_read_only": "off"},
            )
            await operator.execute(f"ALTER DATABASE postgres SET default_transaction_read_only = {value}")
            others = "FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
            await operator.execute(f"SELECT pg_terminate_backend(pid) {others}")
            await operator.close()

        await change("on")
        try:
            refused = await live.http.post("/resources/tool")
            assert (refused.status_code, refused.json()["code"]) == (503, "STORAGE_ERROR")
            assert (await live.http.get(path, params={"limit": 1})).status_code == 200, "reading goes on"
        finally:
            await change("off")
        report.end_trouble()
        await until(lambda: live.http.post("/resources/tool"), lambda answer: answer.status_code == 201)
        report.add(effect="creating, pinning, deleting: 503 STORAGE_ERROR; reading goes on")
        await assert_all_work(live)


@pytest.mark.exhaustive
async def test_the_network_between_server_and_database_is_cut(
    own_cluster: Cluster, url: str, report: Report
) -> None:
    """The network between server and database is cut, and comes back."""
    async with relaying(Relay(own_cluster.socket)) as relay:
        far = f"postgresql://postgres@127.0.0.1:{relay.port}/postgres"
        async with serving_both(far) as live:
            path = await create(live)
            relay.fall_silent()
            relay.cut()
            async with asyncio.timeout(PATIENCE):
                codes = await codes_of(live, path)
            relay.speak()
            await until_recovered(live, path, report, f"503 or 504 {', '.join(sorted(codes))}")


@pytest.mark.exhaustive
async def test_the_network_between_client_and_server_is_cut(
    own_cluster: Cluster, url: str, report: Report
) -> None:
    """The network between client and server is cut ten times amid one stream."""
    async with serving_both(url, statement=MANY) as live, relaying(Relay(live.port)) as relay:
        cuts: list[int] = []

        def cut(progress: Progress) -> None:
            if progress.rows >= (len(cuts) + 1) * len(IDS) // 12 and len(cuts) < 10:
                cuts.append(progress.rows)
                relay.cut()
                report.end_trouble()

        uri = f"resource://{live.path.rpartition('/')[2]}"
        async with (
            asyncio.timeout(3 * PATIENCE),
            DualResponseClient(f"http://127.0.0.1:{relay.port}/resources") as client,
        ):
            parsed = client.parse(structured(uri=uri), strict=True)
            rows = [
                ids_of(row)
                async for batch in parsed.fetch_stream(progress=cut, batch_size=500)
                for row in batch
            ]
        assert rows == IDS and len(cuts) == 10
        report.add(effect="the client resumed each time", recovery="at once; at most the client's pause")
