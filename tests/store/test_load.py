"""Servers in several processes on one store, under load and under SIGKILL (issue 3, point 5)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.features import DualResponseServer
from dualsql.resource import Resource
from dualsql.store.tables import resources
from tests.engines import ENGINES, opened
from tests.http.application import fill
from tests.quick import case_of
from tests.store.load import LONG, SOME, Order, server_of
from tests.store.workers import Worker, working

ALIVE = 2
"""Processes that run at the same time while one after the other is killed."""


@dataclass(frozen=True)
class Site:
    """A store and data, a server of the test's own on them, and resources that all processes know of."""

    order: Order
    server: DualResponseServer

    async def stored(self) -> dict[str, Resource]:
        """Every resource in the table that has not expired; each row's signature is checked, of the others too."""
        async with opened(self.order.store) as engine, engine.connect() as connection:
            ids = (await connection.execute(select(resources.c.id))).scalars().all()
        actual = {name: await self.server.unchecked.get(name) for name in ids}
        return {name: resource for name, resource in actual.items() if resource is not None}

    async def expired(self) -> int:
        """How many are in the table and over."""
        return len(await self.server.store.find_expired(before=datetime.now(UTC), limit=10**6))


@pytest.fixture
async def site(
    store_url: str, sqlite_url: str, make_engine: Callable[[str], AsyncEngine]
) -> AsyncIterator[Site]:
    data = f"{sqlite_url}.data"
    await fill(make_engine(data))
    async with server_of(store_url, data) as server:
        responses = [await server.create_response(SOME, name="x", expiration=LONG) for _ in range(3)]
        shared = tuple(response.resource_id for response in responses)
        yield Site(Order(store_url, data, seconds=60, tasks=16, seed=0, shared=shared), server)


# Sixty seconds of sixty-four tasks on either engine, as promised; in the quick run a second on one of them.
@pytest.mark.long
@pytest.mark.parametrize(
    ("store_url", "processes", "seconds"),
    [("postgresql", 2, 1), *(case_of((engine, 4, 60), is_exhaustive=True) for engine in ENGINES)],
    indirect=["store_url"],
)
async def test_nothing_is_lost_under_load(site: Site, processes: int, seconds: float) -> None:
    order = replace(site.order, seconds=seconds)
    async with AsyncExitStack() as stack:
        starting = (working(replace(order, seed=seed)) for seed in range(processes))
        workers = [await stack.enter_async_context(worker) for worker in starting]
        errors = await asyncio.gather(*(worker.finish() for worker in workers))
    assert errors == [""] * processes
    assert all_of(workers, "wrong") == []
    assert all(worker.events[-1][0] == "ended" for worker in workers)

    living = [*order.shared, *all_of(workers, "lives")]
    stored = await site.stored()
    assert set(living) == stored.keys(), "what lives is there, and nothing else"
    assert {name: each.access_count for name, each in stored.items() if each.access_count} == reads_of(
        workers
    )
    gone = sum(all_of(workers, "swept"))
    assert gone + await site.expired() + len(living) == len(all_of(workers, "made")) + len(order.shared)
    assert gone and len(living) > len(order.shared)


@pytest.mark.long
@pytest.mark.parametrize(
    ("store_url", "kills"),
    [("sqlite", 2), *(case_of((engine, 30), is_exhaustive=True) for engine in ENGINES)],
    indirect=["store_url"],
)
async def test_a_killed_process_leaves_the_table_consistent(site: Site, kills: int) -> None:
    order = replace(site.order, tasks=5, seconds=3_600, is_sliding=True)  # none ends by itself
    dead = await _killed(order, kills)
    assert all_of(dead, "wrong") == []
    stored = await site.stored()
    assert {*order.shared, *all_of(dead, "lives")} <= stored.keys(), "what was confirmed is there"

    counted = Counter({name: each.access_count for name, each in stored.items()})
    owed = sum((worker.counted() for worker in dead), Counter[str]())
    assert owed <= counted, "a kill loses what was read since the last write of counts, no more"
    assert sum(counted.values()) <= sum(reads_of(dead).values()) + len(dead) * order.tasks

    for worker in dead:
        for name, expires_at in worker.expiries():
            kept = stored[name].expires_at
            assert kept is None or kept >= expires_at, "what a page said of the expiry holds"


async def _killed(order: Order, kills: int) -> list[Worker]:
    """Two processes at a time, each killed after a random number of events and replaced by another."""
    choose, alive, dead = random.Random(kills), list[Worker](), list[Worker]()
    async with AsyncExitStack() as stack:
        for seed in range(kills):
            while len(alive) < ALIVE:
                alive.append(await stack.enter_async_context(working(replace(order, seed=seed + len(alive)))))
            victim = alive.pop(choose.randrange(ALIVE))
            await victim.said(choose.choice([1, 30, 150, 500]) + choose.randrange(30))
            await victim.kill()
            dead.append(victim)
        for worker in alive:
            await worker.kill()
    return [*dead, *alive]


def all_of(workers: Iterable[Worker], event: str) -> list[Any]:
    """The first fact of every such event of theirs."""
    return [fact for worker in workers for fact in worker.facts(event)]


def reads_of(workers: Iterable[Worker]) -> Counter[str]:
    """How often they read each resource."""
    return sum((worker.reads() for worker in workers), Counter[str]())
