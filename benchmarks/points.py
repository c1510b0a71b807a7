"""Measured points of the model in docs/scaling.md: a store of many results, many connections, many kept rows."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import Column, Integer, MetaData, String, Table, select

from benchmarks import scaling
from benchmarks.load import Request, pages_per_second
from benchmarks.processes import uvicorn
from benchmarks.report import Report, Section
from dualsql import DualResponseServer, Kept, PageRequest, Settings
from dualsql.feature_list import default_features
from dualsql.store import upgrade
from dualsql_client.wire import SortKey
from tests.failures.cluster import Cluster, cluster
from tests.store.many import fill

WORKERS, RESULTS, SECONDS = 4, 100_000, 5.0
CONNECTIONS = 1_000
GIGABYTES = 4.0
"""Takes a minute and 2 GB on the disk."""
WIDE = Table("wide", MetaData(), Column("id", Integer, primary_key=True), Column("body", String))
WIDE_ROWS, WIDE_BYTES = 100_000, 1_000


@dataclass(frozen=True)
class Point:
    """What was measured: of what, with what around it, the figure and its unit."""

    what: str
    beside: str
    figure: float
    unit: str


async def measure(
    note: Callable[[str], object],
    *,
    seconds: float = SECONDS,
    results: int = RESULTS,
    connections: int = CONNECTIONS,
    gigabytes: float = GIGABYTES,
) -> list[Point]:
    """Every point; of stored results, connections and kept rows as many as are asked for."""
    points: list[Point] = []
    with cluster(*scaling.DURABLE) as data, cluster(*scaling.DURABLE) as store:
        await scaling._filled(data.url("postgres"))
        await asyncio.to_thread(upgrade, store.url("postgres"))
        for number in (0, results):
            note(f"{WORKERS} workers, {number:,} stored results")
            if number:
                await fill(store.url("postgres"), number)
            points += [each async for each in _with_results(data, store, number, seconds)]
        note(f"{connections:,} connections of callers")
        points += await _with_callers(data, store, connections, seconds)
    note(f"{connections:,} sessions of PostgreSQL")
    points += await _with_sessions(connections)
    note(f"{gigabytes:g} GB of kept rows")
    return [*points, *await _with_kept_rows(gigabytes)]


async def _with_results(data: Cluster, store: Cluster, number: int, seconds: float) -> AsyncIterator[Point]:
    beside = f"{WORKERS} workers, {number:,} results in their store before"
    async for load in scaling._loads(WORKERS, data, store, seconds):
        if load.what != "stream":
            yield Point(f"{load.what}s", beside, load.rate, "/s")
            yield Point(f"the store for one {load.what}", beside, load.store_ms, " ms of its processor")


async def _with_callers(data: Cluster, store: Cluster, connections: int, seconds: float) -> list[Point]:
    """Pages on so many connections at once; each must be answered with its page."""
    variables = {
        "SCALING_DATA": data.url("postgres"),
        "SCALING_STORE": store.url("postgres"),
        "SCALING_URL": "{url}",
    }
    points = []
    with uvicorn("benchmarks.scaling:app", variables, workers=WORKERS) as process:
        page = await scaling._made(f"{process.url}/tool/7")
        request = Request("GET", f"{page}?limit=100", expected=b'"data"')
        for number in (scaling.ASKERS, connections):
            beside = f"{WORKERS} workers, {number:,} connections of callers at once"
            rate = await pages_per_second(request, seconds=seconds, connections=number)
            points += [
                Point("pages", beside, rate, "/s"),
                Point(
                    "memory of a worker", beside, scaling._memory_of(scaling._children(process.pid)), " MB"
                ),
                Point("sessions of both databases", beside, len(_sessions(data, store)), ""),
            ]
    return points


def _sessions(*servers: Cluster) -> list[int]:
    return [pid for server in servers for pid in scaling._clients(server)]


async def _with_sessions(connections: int) -> list[Point]:
    """A PostgreSQL with so many sessions, each of which has read a page."""
    with cluster(*scaling.DURABLE, f"max_connections={connections + 50}") as data:
        await scaling._filled(data.url("postgres"))
        figures = []
        for number in (scaling.CONNECTIONS, connections):
            readers = [
                await asyncpg.connect(user="postgres", database="postgres", host=data.socket_folder)
                for _ in range(number)
            ]
            for each in readers:
                await each.fetch("SELECT * FROM things WHERE kind = 7 ORDER BY id LIMIT 100")
            start = perf_counter()
            for each in readers[:100]:
                await each.fetch("SELECT * FROM things WHERE kind = 7 ORDER BY id LIMIT 100")
            seconds = perf_counter() - start
            beside = f"{number:,} sessions of one PostgreSQL"
            figures += [
                Point("memory of a session", beside, scaling._memory_of(_sessions(data)), " MB"),
                Point("a page in one of them", beside, seconds / 100 * 1e3, " ms"),
            ]
            for each in readers:
                await each.close()
        return figures


async def _with_kept_rows(gigabytes: float) -> list[Point]:
    """Results of which each is a file, until their rows have so many bytes together."""
    with _wide() as (url, folder):
        async with _keeping(url, folder) as dual:
            paths: list[str] = []
            times: list[float] = []
            while len(paths) * WIDE_ROWS * WIDE_BYTES < gigabytes * 1e9:
                start = perf_counter()
                paths.append((await dual.create_response(select(WIDE), name="wide", keep=True)).resource_id)
                times.append(perf_counter() - start)
                if len(paths) == 1:
                    first = await _page(dual, paths[0])
            last, again = await _page(dual, paths[-1]), await _page(dual, paths[0])
        start = perf_counter()
        async with _keeping(url, folder) as dual:
            seconds = perf_counter() - start
        size = sum(path.stat().st_size for path in folder.iterdir())
    rows, few = f"{WIDE_ROWS:,} rows", f"one kept result of {WIDE_ROWS * WIDE_BYTES / 1e6:,.0f} MB"
    many = f"{len(paths):,} kept results, {gigabytes:g} GB of rows in files of {size / 1e9:.1f} GB"
    return [
        Point(f"keeping {rows}", few, times[0], " s"),
        Point(f"keeping {rows}", many, times[-1], " s"),
        Point("a page in another order", few, first, " ms"),
        Point("a page in another order, of the last", many, last, " ms"),
        Point("a page in another order, of the first", many, again, " ms"),
        Point("the start of a server", many, seconds * 1e3, " ms"),
    ]


@contextmanager
def _wide() -> Iterator[tuple[str, Path]]:
    """A SQLite file of random texts, and an empty folder beside it."""
    with tempfile.TemporaryDirectory(prefix="points-") as name:
        with closing(sqlite3.connect(Path(name) / "wide.db")) as connection, connection:
            connection.execute("CREATE TABLE wide (id INTEGER PRIMARY KEY, body TEXT)")
            numbers = f"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {WIDE_ROWS})"
            connection.execute(
                f"{numbers} INSERT INTO wide SELECT n, hex(randomblob({WIDE_BYTES // 2})) FROM t"
            )
        (Path(name) / "kept").mkdir(0o700)
        yield f"sqlite:///{name}/wide.db", Path(name) / "kept"


def _keeping(url: str, folder: Path) -> DualResponseServer:
    return DualResponseServer(
        url,
        base_url="http://127.0.0.1/r",
        tables=WIDE.metadata,
        features=default_features(Kept(folder)),
        settings=Settings(query_timeout=timedelta(minutes=5)),
    )


async def _page(dual: DualResponseServer, resource_id: str) -> float:
    """Milliseconds of a page in the order of the texts, which needs all of them."""
    start = perf_counter()
    request = PageRequest(limit=100, sort=[SortKey(field="body", order="desc")])
    page = await dual.read_page(resource_id, None, request)
    assert len(page.rows) == 100 and page.as_of is not None
    return (perf_counter() - start) * 1e3


def report(points: list[Point]) -> Report:
    """One table, which docs/scaling.md has too."""
    section = Section(
        "Measured points",
        f"Measured, on {os.cpu_count()} cores with all that asks. Pages have 100 rows x 10 columns; those of kept rows "
        f"have 2, of which one is a text of {WIDE_BYTES:,} bytes, in whose order they are.",
        ("what", "with", "measured"),
        [(each.what, each.beside, f"{_shown(each.figure)}{each.unit}") for each in points],
    )
    return Report("points", "Points of the model", [section], points, holds=None, document=scaling.DOCUMENT)


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 20 or figure == int(figure) else f"{figure:.2f}"
