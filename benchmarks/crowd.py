"""A crowd of clients who read pages of many stored results, each at its own pace."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from sqlalchemy import MetaData, create_engine, select

from benchmarks.flights import ROWS
from benchmarks.load import Connection, Request
from benchmarks.processes import dualsql_serve
from benchmarks.report import Report, Section, verdict
from benchmarks.serving import SECRET
from dualsql import DualResponseServer, SQLResourceStore
from dualsql.store import upgrade

PAGE = 100
LONGEST = 1.0
"""Seconds that a page may take."""


@dataclass(frozen=True)
class Crowd:
    """How many clients read how many results for how long.

    Attributes:
        pause: seconds between two pages of a client.
    """

    results: int = 10_000
    clients: int = 1_000
    seconds: float = 600
    pause: float = 4


@dataclass(frozen=True)
class Waits:
    """Seconds for a page: of half of them, of 99 and 99.9 of a hundred, of all."""

    crowd: Crowd
    pages: int
    half: float
    most: float
    almost_all: float
    longest: float


async def measure(path: Path, crowd: Crowd, note: Callable[[str], object]) -> Waits:
    """How long each page took which the clients read, from one server with its store in SQLite."""
    with tempfile.TemporaryDirectory(prefix="crowd-") as folder:
        store = f"sqlite:///{folder}/resources.sqlite"
        upgrade(store)
        with dualsql_serve(path, {"DUALSQL_STORE": store, "DUALSQL_SECRET": SECRET}) as process:
            note(f"{crowd.results:,} results are created")
            urls = await _created(path, store, f"{process.url}/resources", crowd.results)
            note(f"{crowd.clients:,} clients, {crowd.seconds:g} s")
            waits = sorted(await _waits(urls, crowd))
    half, most, almost_all = (waits[int(len(waits) * share)] for share in (0.5, 0.99, 0.999))
    return Waits(crowd, len(waits), half, most, almost_all, waits[-1])


async def _created(path: Path, store: str, base_url: str, number: int) -> list[str]:
    url, tables = f"sqlite:///{path}", MetaData()
    tables.reflect(create_engine(url))  # as the server does
    flights = tables.tables["flights"]
    dual = DualResponseServer(
        url, base_url=base_url, tables=tables, store=SQLResourceStore(store), secrets=[SECRET]
    )
    async with dual:
        return [
            (
                await dual.create_response(
                    select(flights).where(flights.c.id > first).order_by(flights.c.id),
                    name=f"flights after {first}",
                    count="none",
                )
            ).resource_url
            for first in range(0, ROWS // 2, ROWS // 2 // number)
        ]


async def _waits(urls: Sequence[str], crowd: Crowd) -> list[float]:
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(Connection.opened(_page(urls[number % len(urls)], 0)))
            for number in range(crowd.clients)
        ]
        # The asker's own searches for garbage are not the server's time.
        gc.freeze()
        stack.callback(gc.unfreeze)
        end = perf_counter() + crowd.seconds
        clients = [
            _waits_of(each, random.Random(seed), urls, crowd.pause, end)
            for seed, each in enumerate(connections)
        ]
        return [wait for waits in await asyncio.gather(*clients) for wait in waits]


async def _waits_of(
    connection: Connection, chance: random.Random, urls: Sequence[str], pause: float, end: float
) -> list[float]:
    """Ask for pages of any of the results until then; the seconds that each took, from when it was due."""
    waits = []
    due = perf_counter() + chance.random() * pause
    while due < end:
        await asyncio.sleep(due - perf_counter())
        await connection.ask(_page(chance.choice(urls), chance.randrange(50) * PAGE))
        answered = perf_counter()
        waits.append(answered - due)
        due = answered + chance.random() * 2 * pause
    return waits


def _page(url: str, offset: int) -> Request:
    body = json.dumps({"offset": offset, "limit": PAGE}).encode()
    return Request("POST", url, body=body, expected=b'"data"')


def report(waits: Waits) -> Report:
    """One line."""
    crowd, holds = waits.crowd, waits.longest <= LONGEST
    section = Section(
        "A crowd of clients",
        f"{crowd.clients:,} clients, each on a connection of its own, read pages of {PAGE} rows x 20 columns of "
        f"{crowd.results:,} results for {crowd.seconds:g} s, each about one in {crowd.pause:g} s, of any result and at "
        "any offset below 5,000. One `dualsql serve`, its store in SQLite. A page's time begins when it is due.",
        ("pages", "a second", "half", "99 %", "99.9 %", "longest", "at most", ""),
        [
            (
                f"{waits.pages:,}",
                f"{waits.pages / crowd.seconds:,.0f}",
                *(
                    f"{each * 1e3:,.0f} ms"
                    for each in (waits.half, waits.most, waits.almost_all, waits.longest)
                ),
                f"{LONGEST * 1e3:,.0f} ms",
                verdict(holds=holds),
            )
        ],
    )
    return Report("crowd", "A crowd of clients", [section], [waits], holds)
