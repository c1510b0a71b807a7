"""What a store bears: four processes of sixteen tasks that create, read and sweep. It is the test's load.

Run as `python -m benchmarks.store_load [SECONDS]`. What must hold at the end is in tests/store/test_load.py; here
is only counted how much was done.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from benchmarks import machine
from dualsql.store import upgrade
from tests import engines
from tests.http.application import fill
from tests.store.load import Order
from tests.store.workers import Worker, working

RESULT = Path(__file__).parent / "results" / "store_load.md"
PROCESSES, TASKS, SECONDS = 4, 16, 60.0


def main() -> None:
    """Load each engine's store, print the table, keep it."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    busy, lines = os.getloadavg()[0], []
    with stores() as urls:
        for engine, (store, data) in urls.items():
            asyncio.run(_prepare(data))
            upgrade(store)
            lines.append(_line(engine, asyncio.run(_load(store, data, seconds)), seconds))
    text = _markdown(lines, seconds, busy)
    RESULT.write_text(text, encoding="utf-8")
    print(text)


@contextmanager
def stores() -> Iterator[dict[str, tuple[str, str]]]:
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


def _line(engine: str, workers: list[Worker], seconds: float) -> tuple[str, ...]:
    deeds = Counter(str(line[0]) for worker in workers for line in worker.events)
    if deeds["wrong"]:
        raise SystemExit(f"{engine}: {deeds['wrong']} deeds failed")
    swept = sum(sum(worker.facts("swept")) for worker in workers)
    done = [deeds["made"], deeds["read"], swept, deeds["swept"]]
    return (engine, *(f"{number / seconds:,.0f}" for number in done), f"{deeds['lives']:,}")


def _markdown(lines: list[tuple[str, ...]], seconds: float, busy: float) -> str:
    headings = ("store", "created/s", "pages read/s", "expired and swept/s", "sweeps/s", "living at the end")
    rows = [headings, ("---", *["---:"] * (len(headings) - 1)), *lines]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    where = "; ".join(f"{name} {value}" for name, value in machine.describe().items())
    return (
        "# The store under load\n\n"
        f"{PROCESSES} processes on one store, each a DualResponseServer with {TASKS} tasks that create, read and\n"
        f"sweep for {seconds:g} seconds, on data in SQLite. No deed failed. That none was lost either is checked\n"
        "by `tests/store/test_load.py`, with the same load.\n\n"
        f"{table}\n\n"
        f"When it began, {busy:.0f} other processes wanted the processors: figures of a busy machine are low.\n\n"
        f"Measured with `python -m benchmarks.store_load`; {where}.\n"
    )


if __name__ == "__main__":
    main()
