"""A store on PostgreSQL that is stopped, killed, struck or silenced: 503 at once, and no restart afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import select

from dualsql.resource import Resource
from dualsql.store.tables import resources
from tests.engines import opened
from tests.failures.cluster import Cluster
from tests.failures.requests import (
    all_requests,
    assert_all_are_unavailable,
    assert_all_work,
    assert_unavailable,
    create,
    serving,
    wait_until_it_works,
)
from tests.http.live.serving import LiveServer
from tests.quick import one_in
from tests.relay import Relay, relaying
from tests.waiting import PATIENCE, until

STOPS = [signal.SIGINT, signal.SIGQUIT]
"""An orderly shutdown, and one that leaves the server to recover."""


@pytest.mark.long
@pytest.mark.parametrize("how", one_in(2, STOPS))
async def test_it_is_stopped_and_started(own_cluster: Cluster, data_url: str, how: signal.Signals) -> None:
    async with serving(data_url, own_cluster.url("postgres")) as live:
        await assert_all_work(live)
        path = await create(live)
        own_cluster.stop(how)
        for _ in range(2):
            await assert_all_are_unavailable(live, path)
        own_cluster.start()
        assert (await live.http.get(path)).status_code == 200
        await assert_all_work(live)


@pytest.mark.long
async def test_accesses_of_before_are_counted_after(own_cluster: Cluster, data_url: str) -> None:
    url = own_cluster.url("postgres")
    async with serving(data_url, url) as live:
        path = await create(live)
        answers = [await live.http.get(path, params={"limit": 1}) for _ in range(7)]
        assert {answer.status_code for answer in answers} == {200}
        own_cluster.stop()
        await assert_all_are_unavailable(live, path)
        own_cluster.start()
    # Shutting down wrote what was pending.
    async with opened(url) as engine, engine.connect() as connection:
        count = select(resources.c.access_count).where(resources.c.id == path.rpartition("/")[2])
        assert (await connection.execute(count)).scalar_one() == 7


@pytest.mark.long
async def test_requests_that_never_pause_meet_nothing_but_success_and_unavailable(
    own_cluster: Cluster, data_url: str
) -> None:
    statuses: Counter[int] = Counter()
    is_over, was_refused = asyncio.Event(), asyncio.Event()

    async def ask(live: LiveServer, path: str) -> None:
        while not is_over.is_set():
            for answer in (await all_requests(live, path)).values():
                statuses[answer.status_code] += 1
                if answer.status_code >= 500:
                    assert_unavailable(answer)
                    was_refused.set()

    async with serving(data_url, own_cluster.url("postgres")) as live, asyncio.TaskGroup() as asking:
        paths = [await create(live) for _ in range(6)]
        tasks = [asking.create_task(ask(live, path)) for path in paths]
        for how in STOPS:
            await asyncio.to_thread(own_cluster.stop, how)
            was_refused.clear()
            await was_refused.wait()
            own_cluster.start()  # not in a thread: it ends with the thread that started it
            await wait_until_it_works(live, await _created(live))
        is_over.set()
        await asyncio.gather(*tasks)
        await assert_all_work(live)
    # A path that a round deleted is unknown in the next one, if the store is there for both.
    assert {200, 201, 503} <= statuses.keys() <= {200, 201, 204, 404, 503}


async def _created(live: LiveServer) -> str:
    """The path of a new resource, as soon as the store takes one."""
    async with asyncio.timeout(PATIENCE):
        while (answer := await live.http.post("/resources/tool")).status_code != 201:
            assert_unavailable(answer)
    return f"/resources/{answer.json()['id']}"


@pytest.mark.quick(1)
@pytest.mark.parametrize("strike", ["terminated", "killed"])
async def test_a_backend_is_struck_in_the_middle_of_a_statement(
    own_cluster: Cluster, data_url: str, strike: str
) -> None:
    """Killed means SIGKILL, after which PostgreSQL ends all connections and recovers."""
    async with serving(data_url, own_cluster.url("postgres")) as live:
        path = await create(live)
        operator = await asyncpg.connect(host=own_cluster.socket_folder, user="postgres", database="postgres")
        async with asyncio.timeout(PATIENCE):
            await operator.execute("BEGIN; LOCK TABLE dualsql_resources IN ACCESS EXCLUSIVE MODE")
            asking = asyncio.create_task(live.http.get(path))
            victim = await _waiting_backend(operator)
            if strike == "terminated":
                await operator.execute(f"SELECT pg_terminate_backend({victim})")
            else:
                os.kill(victim, signal.SIGKILL)
            assert_unavailable(await asking)
        operator.terminate()
        await wait_until_it_works(live, path)
        await assert_all_work(live)


async def _waiting_backend(operator: Any) -> int:
    """The process id of the backend that waits for a lock, once there is one."""
    query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'dualsql'"
    return int(await until(lambda: operator.fetchval(query), lambda pid: pid is not None))


def store_behind(relay: Relay) -> str:
    """The URL of a store, without TLS: asyncpg leaves an error unread if time is up while it asks for TLS."""
    return f"postgresql://postgres@127.0.0.1:{relay.port}/postgres?ssl=disable"


@pytest.mark.long
async def test_connections_that_fall_silent_are_given_up(own_cluster: Cluster, data_url: str) -> None:
    """A firewall that forgot the connection drops every byte: nobody is told, neither here nor there."""
    async with relaying(Relay(own_cluster.socket)) as relay:
        store = store_behind(relay)
        async with serving(data_url, store, timeout=0.3) as live:
            path = await create(live)
            warm = await asyncio.gather(*(live.http.get(path) for _ in range(8)))
            assert {answer.status_code for answer in warm} == {200}
            relay.fall_silent()
            await assert_all_are_unavailable(live, path)
            async with asyncio.timeout(PATIENCE):
                asked = await asyncio.gather(*(live.http.get(path) for _ in range(40)))
            for answer in asked:
                assert_unavailable(answer)
            relay.speak()
            await wait_until_it_works(live, path)
            await assert_all_work(live)


async def test_it_falls_silent_in_the_middle_of_a_statement(own_cluster: Cluster, data_url: str) -> None:
    async with relaying(Relay(own_cluster.socket)) as relay:
        store = store_behind(relay)
        async with serving(data_url, store, timeout=0.3) as live:
            path = await create(live)
            operator = await asyncpg.connect(
                host=own_cluster.socket_folder, user="postgres", database="postgres"
            )
            async with asyncio.timeout(PATIENCE):
                await operator.execute("BEGIN; LOCK TABLE dualsql_resources IN ACCESS EXCLUSIVE MODE")
                asking = asyncio.create_task(live.http.get(path))
                await _waiting_backend(operator)
                relay.fall_silent()
                assert_unavailable(await asking)
            operator.terminate()
            relay.speak()
            await wait_until_it_works(live, path)


@pytest.mark.long
async def test_who_was_there_is_still_there(own_cluster: Cluster, data_url: str) -> None:
    """What was confirmed before a crash of the database is whole after it."""
    async with serving(data_url, own_cluster.url("postgres")) as live:
        paths = [await create(live) for _ in range(20)]
        own_cluster.stop(signal.SIGQUIT)
        own_cluster.start()
        kept = [await live.server.unchecked.get(path.rpartition("/")[2]) for path in paths]
    assert all(isinstance(resource, Resource) for resource in kept)
