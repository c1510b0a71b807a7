"""A server that stops, or dies, with queries of its own. None goes on in the database, none stays pending."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponse
from dualsql.store import SQLResourceStore
from tests.engines import dies_with_us
from tests.http.application import ALL, Application, fill, problem_of
from tests.results.pending.conftest import FOREVER, MOMENT, SECRETS, Slow, counting, metadata_once, running


@contextmanager
def asking(database: str, store: str, *, lease: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A process whose two queries take for ever, with a lease of so many seconds; the ids of their resources."""
    program = [sys.executable, "-m", "tests.results.pending.asking"]
    command = [*dies_with_us("KILL"), *program, database, store, str(lease)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, [process.stdout.readline().strip() for _ in range(2)]
        finally:
            process.kill()


@pytest.mark.long
async def test_a_server_that_dies(slow: Slow, postgresql_store_url: str) -> None:
    with asking(slow.url, postgresql_store_url, lease=5) as (process, ids):
        async with running(slow.url, store=SQLResourceStore(postgresql_store_url), secrets=SECRETS) as app:
            await slow.until(2)
            for each in ids:
                assert (await app.http.get(f"/resources/{each}")).json()["status"] == "pending"
            process.kill()
            await slow.until(0)  # the database notices by itself
            for each in ids:
                metadata = await metadata_once(app.http, f"/resources/{each}", "failed")
                assert metadata["error"]["code"] == "QUERY_INTERRUPTED"
                refused = await app.http.post(f"/resources/{each}", json={})
                assert problem_of(refused, 409)["details"]["error"] == metadata["error"]
            stored = await app.server.store.get(ids[0])
            assert stored and stored.status == "pending"  # it is only seen as failed, until it is swept
            await app.server.maintenance.sweep()
            stored = await app.server.store.get(ids[0])
            assert stored and (stored.status, stored.pending_until) == ("failed", None)


@pytest.mark.long
async def test_as_long_as_it_lives_nobody_takes_it_for_dead(slow: Slow, postgresql_store_url: str) -> None:
    # Renewed after a third of it: a machine may be late by the rest.
    with asking(slow.url, postgresql_store_url, lease=15) as (_, ids):
        async with running(slow.url, store=SQLResourceStore(postgresql_store_url), secrets=SECRETS) as app:
            before = await app.server.store.get(ids[0])
            assert before and before.pending_until
            later = before
            while later.pending_until is not None and later.pending_until < before.pending_until + timedelta(
                seconds=2
            ):
                resource = await app.server.store.get(ids[0])
                assert resource and resource.seen_at(datetime.now(UTC)).status == "pending"
                later = resource
            assert await slow.running() == 2


async def begin_twenty(app: Application, statement: Any = ALL) -> list[DualResponse]:
    """Twenty queries that take longer than one waits."""
    await app.server.start()
    names = [f"Number {number}" for number in range(20)]
    return [await app.server.create_response(statement, name=name, wait=MOMENT) for name in names]


@pytest.mark.long
@pytest.mark.parametrize("kept", [pytest.param("memory", marks=pytest.mark.long), "sql"])
async def test_twenty_at_once_and_one_cancelled_in_the_middle(
    slow: Slow, kept: str, postgresql_store_url: str
) -> None:
    options: dict[str, Any] = {"maximum_pending": 20}
    if kept == "sql":
        options |= {"store": SQLResourceStore(postgresql_store_url), "secrets": SECRETS}
    async with running(slow.url, **options) as app:
        await app.server.start()
        async with slow.shut():
            responses = await begin_twenty(app)
            assert {response.status for response in responses} == {"pending"}
            await slow.until(20)
            cancelled = responses.pop(7)
            await app.http.delete(f"/resources/{cancelled.resource_id}")
            await slow.until(19)
        for response in responses:
            metadata = await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
            assert metadata["total_count"] == 60
        await slow.until(0)


@pytest.mark.long
async def test_twenty_at_once_and_the_server_is_restarted(slow: Slow, postgresql_store_url: str) -> None:
    options: dict[str, Any] = {"maximum_pending": 20, "secrets": SECRETS}
    async with slow.shut():
        async with running(slow.url, store=SQLResourceStore(postgresql_store_url), **options) as app:
            # Its own proof is not about the table that is shut.
            responses = await begin_twenty(app)
            await slow.until(20)
        await slow.until(0)
    async with running(slow.url, store=SQLResourceStore(postgresql_store_url), **options) as app:
        for response in responses:
            metadata = (await app.http.get(f"/resources/{response.resource_id}")).json()
            assert (metadata["status"], metadata["error"]["code"]) == ("failed", "QUERY_INTERRUPTED")
        again = await begin_twenty(app)
        for response in again:
            await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")


@pytest.mark.long
async def test_twenty_on_sqlite(sqlite_url: str, make_engine: Callable[..., AsyncEngine]) -> None:
    await fill(make_engine(sqlite_url))
    async with running(sqlite_url, maximum_pending=20, count_budget=timedelta(milliseconds=1)) as app:
        await app.server.start()
        forever = [
            await app.server.create_response(FOREVER, name=f"Forever {number}", wait=timedelta())
            for number in range(10)
        ]
        counted = [
            await app.server.create_response(counting(20_000), name=f"Count {number}", wait=timedelta())
            for number in range(10)
        ]
        for response in forever[:5]:
            await app.http.delete(f"/resources/{response.resource_id}")
        for response in counted:
            await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        still = [await app.server.unchecked.get(response.resource_id) for response in forever[5:]]
        assert {resource.status for resource in still if resource} == {"pending"}
    # The threads of the other five have ended with their server: the next one is not kept waiting.
    async with running(sqlite_url) as app:
        assert (await app.server.create_response(ALL, name="All")).total_count == 60
