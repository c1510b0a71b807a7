"""A client reads all rows while PostgreSQL, which holds data and store, is restarted: each row comes once."""

from __future__ import annotations

import asyncio
import csv
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import select

from dualsql_client import DualResponseClient, ParsedDualResponse, Progress
from tests.client.hosting import structured
from tests.engines import opened
from tests.failures.cluster import Cluster
from tests.failures.requests import serving
from tests.http.application import INSTITUTIONS, METADATA, ROWS, fill
from tests.quick import case_of
from tests.waiting import PATIENCE

_one, _two, _three = (INSTITUTIONS.alias(name) for name in ("one", "two", "three"))
_many = select(_one.c.id, _two.c.id.label("second"), _three.c.id.label("third"), _one.c.name, _two.c.budget)
MANY = _many.select_from(_one.join(_two, _two.c.id > 0).join(_three, _three.c.id <= 25)).order_by(
    _one.c.id, _two.c.id, _three.c.id
)
"""Many megabytes, most of which the database still has when the first rows are read."""

_ids = [row["id"] for row in ROWS]
IDS = [(one, two, three) for one in _ids for two in _ids for three in _ids[:25]]

OnProgress = Callable[[Progress], None]
Way = Callable[[ParsedDualResponse, Path, OnProgress], Awaitable[list[tuple[int, ...]]]]


async def by_fetch_all(parsed: ParsedDualResponse, _folder: Path, tell: OnProgress) -> list[tuple[int, ...]]:
    return [ids_of(row) for row in await parsed.fetch_all(progress=tell)]


async def by_fetch_stream(
    parsed: ParsedDualResponse, _folder: Path, tell: OnProgress
) -> list[tuple[int, ...]]:
    return [ids_of(row) async for batch in parsed.fetch_stream(progress=tell) for row in batch]


async def by_csv(parsed: ParsedDualResponse, folder: Path, tell: OnProgress) -> list[tuple[int, ...]]:
    path = await parsed.save(folder / "rows.csv", progress=tell)
    with path.open(newline="") as file:
        return [ids_of(row) for row in csv.DictReader(file)]


async def by_arrow(parsed: ParsedDualResponse, folder: Path, tell: OnProgress) -> list[tuple[int, ...]]:
    path = await parsed.save(folder / "rows.arrows", progress=tell)
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_stream(file).read_all()
    return [ids_of(row) for row in table.to_pylist()]


def ids_of(row: Any) -> tuple[int, ...]:
    return int(row["id"]), int(row["second"]), int(row["third"])


WAYS: dict[str, Way] = {
    "fetch_all": by_fetch_all,
    "fetch_stream": by_fetch_stream,
    "csv": by_csv,
    "arrow": by_arrow,
}


@asynccontextmanager
async def reading(cluster: Cluster) -> AsyncIterator[ParsedDualResponse]:
    """A result of MANY on a server whose data and store are in the cluster."""
    url = cluster.url("postgres")
    async with opened(url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.drop_all)
        await fill(engine)
    async with (
        serving(url, url, statement=MANY) as live,
        DualResponseClient(f"http://127.0.0.1:{live.port}/resources") as client,
    ):
        uri = f"resource://{live.path.rpartition('/')[2]}"
        yield client.parse(structured(uri=uri), strict=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "how"),
    [
        case_of(
            (name, how), is_long=(name, how) not in {("fetch_all", signal.SIGQUIT), ("arrow", signal.SIGINT)}
        )
        for name in WAYS
        for how in (signal.SIGINT, signal.SIGQUIT)
    ],
)
async def test_a_restart_in_the_middle(
    own_cluster: Cluster, tmp_path: Path, name: str, how: signal.Signals
) -> None:
    restarted_at: list[int] = []

    def restart(progress: Progress) -> None:
        if progress.rows and not restarted_at:
            restarted_at.append(progress.rows)
            own_cluster.stop(how)
            own_cluster.start()

    async with reading(own_cluster) as parsed, asyncio.timeout(3 * PATIENCE):
        actual = await WAYS[name](parsed, tmp_path, restart)
    assert restarted_at[0] < len(IDS) / 4
    assert actual == IDS


@pytest.mark.long
async def test_a_database_that_stays_down_for_a_while(own_cluster: Cluster, tmp_path: Path) -> None:
    """The client asks again and again meanwhile, each time later."""
    is_down, ended_at = asyncio.Event(), 0

    def stop(progress: Progress) -> None:
        nonlocal ended_at
        rows = progress.rows
        if rows and not is_down.is_set():
            ended_at = rows
            own_cluster.stop()
            is_down.set()

    async with reading(own_cluster) as parsed, asyncio.timeout(6 * PATIENCE):
        fetching = asyncio.ensure_future(by_fetch_all(parsed, tmp_path, stop))
        await is_down.wait()
        await asyncio.wait({fetching}, timeout=5)
        assert not fetching.done()
        own_cluster.start()
        assert await fetching == IDS
    assert ended_at < len(IDS) / 4
