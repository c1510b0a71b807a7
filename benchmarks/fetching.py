"""fetch_all of a million rows over loopback; the rule: a real uvicorn in its own process, a real client here.

The same rows through SQLAlchemy alone, in this process and with no HTTP, tell what the machine can do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.progress import Progress
from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.flights import ROWS, flights
from dualsql_client import DualResponseClient, ParsedDualResponse

ROUNDS = 5
BATCH_SIZE = 5_000
LAST_FULL_PAGE = ROWS // BATCH_SIZE - 1
"""Its number, from 0: the very last page is shorter and would flatter the ratio."""


@dataclass(frozen=True)
class Fetching:
    """Medians over the runs: seconds of whole fetches and of their first and last full page."""

    rows: int
    batch_size: int
    fetch_all: float
    sqlalchemy: float
    first_page: float
    last_page: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.fetch_all

    @property
    def of_sqlalchemy(self) -> float:
        """The share of SQLAlchemy's own speed, 1.0 being as fast."""
        return self.sqlalchemy / self.fetch_all

    @property
    def last_to_first(self) -> float:
        return self.last_page / self.first_page


async def measure(database: Path, progress: Progress, rounds: int = ROUNDS) -> Fetching:
    """Fetch every flight `rounds` times, and read it bare as often, in turns."""
    fetches: list[list[float]] = []
    bare: list[float] = []
    with served() as tool_result:
        url = tool_result["structuredContent"]["resource"]["url"]
        async with DualResponseClient(base_url=url.rpartition("/")[0]) as client:
            parsed = client.parse(tool_result, strict=True)
            assert parsed is not None
            await parsed.fetch(limit=BATCH_SIZE)  # opens the connection and compiles the statement
            for _ in range(rounds):
                fetches.append(await _fetch_all(parsed, progress))
                bare.append(await _read_bare(database))
    return Fetching(
        rows=ROWS,
        batch_size=BATCH_SIZE,
        fetch_all=median(sum(pages) for pages in fetches),
        sqlalchemy=median(bare),
        first_page=median(pages[0] for pages in fetches),
        last_page=median(pages[LAST_FULL_PAGE] for pages in fetches),
    )


@contextmanager
def served() -> Iterator[dict[str, dict[str, dict[str, str]]]]:
    """The tool result of a server that runs until the end of the block."""
    command = [sys.executable, "-m", "benchmarks.serving"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


async def _fetch_all(parsed: ParsedDualResponse, progress: Progress) -> list[float]:
    """The seconds of each page of one fetch_all."""
    task = progress.add_task("fetch_all", total=ROWS)
    instants = [perf_counter()]

    def note(fetched: int, _total: int | None) -> None:
        instants.append(perf_counter())
        progress.update(task, completed=fetched)

    rows = await parsed.fetch_all(batch_size=BATCH_SIZE, on_progress=note)
    progress.remove_task(task)
    if len({row["id"] for row in rows}) != ROWS:
        raise SystemExit(f"fetch_all returned {len(rows):,} rows, not each of the {ROWS:,} once.")
    return [later - earlier for earlier, later in pairwise(instants)]


async def _read_bare(database: Path) -> float:
    """The seconds SQLAlchemy takes to read the rows in batches and do nothing with them."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    begun = perf_counter()
    async with engine.connect() as connection:
        result = await connection.stream(select(flights))
        count = 0
        async for batch in result.partitions(BATCH_SIZE):
            count += len(batch)
    taken = perf_counter() - begun
    await engine.dispose()
    assert count == ROWS
    return taken
