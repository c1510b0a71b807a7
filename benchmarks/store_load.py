"""What a store bears: four processes of sixteen tasks that create, read and sweep. It is the test's load.

What must hold at the end is in tests/store/test_load.py; here is only counted how much was done.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Report, Section
from dualsql.store import upgrade
from tests import engines
from tests.http.application import fill
from tests.store.load import Order
from tests.store.workers import Worker, working

PROCESSES, TASKS, SECONDS = 4, 16, 60.0


@dataclass(frozen=True)
class Borne:
    """What a store bore in a second, and the results that were left."""

    store: str
    seconds: float
    created: float
    read: float
    expired: float
    sweeps: float
    living: int


async def measure(note: Callable[[str], object], *, seconds: float = SECONDS) -> list[Borne]:
    """Load each engine's store for so long.

    Raises:
        SystemExit: a deed failed.
    """
    figures = []
    with _stores() as urls:
        for engine, (store, data) in urls.items():
            note(f"{engine}, {seconds:g} s")
            await _prepare(data)
            await asyncio.to_thread(upgrade, store)
            figures.append(_counted(engine, await _load(store, data, seconds), seconds))
    return figures


@contextmanager
def _stores() -> Iterator[dict[str, tuple[str, str]]]:
    """The URLs of an empty store and of data, by engine."""
    with (
        tempfile.TemporaryDirectory() as name,
        engines.postgresql_server() as server,
        server.database() as postgresql,
    ):
        data = [engines.sqlite_url_in(Path(name)) for _ in engines.ENGINES]
        yield {"SQLite": (engines.sqlite_url_in(Path(name)), data[0]), "PostgreSQL": (postgresql, data[1])}


async def _prepare(data: str) -> None:
    async with engines.opened(data) as engine:
        await fill(engine)


async def _load(store: str, data: str, seconds: float) -> list[Worker]:
    async with AsyncExitStack() as stack:
        orders = (Order(store, data, seconds, TASKS, seed) for seed in range(PROCESSES))
        workers = [await stack.enter_async_context(working(order)) for order in orders]
        for errors in await asyncio.gather(*(worker.finish() for worker in workers)):
            if errors:
                raise SystemExit(errors)
    return workers


def _counted(engine: str, workers: list[Worker], seconds: float) -> Borne:
    deeds = Counter(str(line[0]) for worker in workers for line in worker.events)
    if deeds["wrong"]:
        raise SystemExit(f"{engine}: {deeds['wrong']} deeds failed")
    swept = sum(sum(worker.facts("swept")) for worker in workers)
    return Borne(
        engine,
        seconds,
        created=deeds["made"] / seconds,
        read=deeds["read"] / seconds,
        expired=swept / seconds,
        sweeps=deeds["swept"] / seconds,
        living=deeds["lives"],
    )


def report(figures: Sequence[Borne]) -> Report:
    """The table."""
    section = Section(
        "What a store bears",
        f"{PROCESSES} processes on one store, each a DualResponseServer with {TASKS} tasks that create, read and sweep "
        f"for {figures[0].seconds:g} seconds, on data in SQLite. No deed failed. That none was lost is checked by "
        "`tests/store/test_load.py`, with the same load.",
        ("store", "created/s", "pages read/s", "expired and swept/s", "sweeps/s", "living at the end"),
        [
            (
                each.store,
                *(f"{number:,.0f}" for number in (each.created, each.read, each.expired, each.sweeps)),
                f"{each.living:,}",
            )
            for each in figures
        ],
    )
    return Report("store_load", "The store under load", [section], figures, holds=None)
