"""One process of the load: creators, readers and sweepers, each on the process's own DualResponseServer.

Run as `python -m tests.store.load ORDER`, an `Order` as JSON. What is confirmed is printed at once, a line
of JSON for each event, so that a process that is killed has told all it knew.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta

from sqlalchemy import select

from dualsql import PageRequest
from dualsql.errors import DualResponseError
from dualsql.features import DualResponseServer
from dualsql.store import SQLResourceStore
from dualsql.store.protocol import Access
from tests.http.application import BASE_URL, INSTITUTIONS, METADATA
from tests.servers import create_server

SECRETS = ["the one secret that all processes of a load share"]
SOME = select(INSTITUTIONS).where(INSTITUTIONS.c.id < 10)

SHORT = timedelta(milliseconds=200)
"""A lifetime that ends while the load runs."""

LONG = timedelta(hours=1)


@dataclass(frozen=True)
class Order:
    """What one process is to do.

    Attributes:
        store: URL of the database of the resources; `data` of the one they are queries on.
        tasks: how many events at once.
        shared: resources that the processes read in common.
    """

    store: str
    data: str
    seconds: float
    tasks: int
    seed: int
    shared: tuple[str, ...] = ()
    is_sliding: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class TellingStore(SQLResourceStore):
    """Tells which counts are written, and when it began to write them."""

    async def add_accesses(self, accesses: Mapping[str, Access]) -> None:
        begun = time.monotonic()
        await super().add_accesses(accesses)
        say("counted", begun, sorted(accesses))


def server_of(store: str | SQLResourceStore, data: str, **options: object) -> DualResponseServer:
    """A server as each process has one. It sweeps when it is told to, so that what is swept can be counted."""
    return create_server(
        data,
        base_url=BASE_URL,
        tables=METADATA,
        store=SQLResourceStore(store) if isinstance(store, str) else store,
        secrets=SECRETS,
        gone_retention=timedelta(0),
        cleanup_interval=timedelta(hours=1),
        **options,
    )


class Load:
    """Tasks that share a server until the deadline."""

    def __init__(self, server: DualResponseServer, order: Order) -> None:
        self._server = server
        self._choose = random.Random(order.seed)
        self._living = list(order.shared)
        self._tasks = order.tasks
        self._deadline = time.monotonic() + order.seconds

    async def run(self) -> None:
        jobs = (self._create, self._read, self._create, self._sweep, self._read)
        await asyncio.gather(*(self._repeat(jobs[number % len(jobs)]) for number in range(self._tasks)))

    async def _repeat(self, job: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < self._deadline:
            try:
                await job()
            except DualResponseError as error:
                say("wrong", f"{job.__name__}: {error!r} {error.__cause__!r}")

    async def _create(self) -> None:
        """Three kinds: one that lives, one that is pinned before it expires, one that expires."""
        kind = self._choose.randrange(3)
        lifetime = LONG if kind == 0 else SHORT
        response = await self._server.create_response(SOME, name="x", sample_size=3, expiration=lifetime)
        say("made", response.resource_id)
        if kind == 0 or (kind == 1 and await self._server.unchecked.pin(response.resource_id)):
            say("lives", response.resource_id)
            self._living.append(response.resource_id)

    async def _read(self) -> None:
        while not self._living:
            await self._create()
        identifier = self._choose.choice(self._living)
        resource = await self._server.open_resource(identifier, None, "read")
        page = await self._server.unchecked.read_page(resource, None, PageRequest(limit=5))
        say("read", identifier, page.expires_at and page.expires_at.isoformat())

    async def _sweep(self) -> None:
        say("swept", await self._server.maintenance.sweep())


def say(event: str, *facts: object) -> None:
    """Tell the parent, with the moment by the clock that all processes share."""
    print(json.dumps([event, time.monotonic(), *facts]), flush=True)


async def main(order: Order) -> None:
    server = server_of(TellingStore(order.store), order.data, sliding_expiration=order.is_sliding)
    async with server:
        await Load(server, order).run()
    say("ended")


if __name__ == "__main__":
    asyncio.run(main(Order(**json.loads(sys.argv[1]))))
