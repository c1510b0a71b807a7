"""Streams that grow, workers, many clients, and a far link. The rows are generated: no file of 50 million is needed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import httpx

from benchmarks.bare import csv_rows
from benchmarks.flights import ROWS
from benchmarks.link import DELAY, RATE, Link
from benchmarks.load import Request, pages_per_second
from benchmarks.report import Report, Section, verdict
from benchmarks.statements import GENERATED
from benchmarks.streaming import Server, served
from benchmarks.timing import median_of
from dualsql.store import upgrade
from dualsql_client import DualResponseClient
from tests.relay import relaying

Note = Callable[[str], object]

LINEAR = 0.9
"""Rows a second of the longest stream to those of the shortest, at least."""

MEBIBYTE = 1024 * 1024
CEILING = 40 * MEBIBYTE
WORKERS, CLIENTS, SECONDS = (1, 2, 4), 64, 4.0

CARRIED = 0.9
"""Rows a second to those that the link carries as plain NDJSON, at least."""

FAR = "0.0.0.0"


@dataclass(frozen=True)
class Growth:
    """A stream of so many rows: seconds, and bytes above the idle server at the most."""

    format: str
    rows: int
    seconds: float
    above_idle: int

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds


@dataclass(frozen=True)
class Load:
    """Pages a second for CLIENTS clients."""

    workers: int
    pages: float


@dataclass(frozen=True)
class Fetch:
    """fetch_all over the link, and what of it is due to the link; median seconds.

    Attributes:
        plain: bytes of the rows as NDJSON.
        sent: bytes that the link carried in the last round.
        near: seconds of the same without the link.
    """

    rows: int
    seconds: float
    near: float
    plain: int
    sent: int

    @property
    def carried(self) -> float:
        """Seconds that the link takes for the plain bytes."""
        return self.plain / RATE + DELAY

    @property
    def ratio(self) -> float:
        return self.carried / self.seconds

    @property
    def holds(self) -> bool:
        return self.ratio >= CARRIED


@dataclass(frozen=True)
class Measurements:
    """What the whole part found."""

    growths: Sequence[Growth]
    loads: Sequence[Load]
    fetches: Sequence[Fetch]


async def measure(sqlite: Path, note: Note, rounds: int, millions: Sequence[int]) -> Measurements:
    """All of it, with streams of so many million rows."""
    growths = [
        growth for form in ("csv", "ndjson") for growth in await _growths(sqlite, form, millions, note)
    ]
    return Measurements(growths, await _loads(sqlite, note, rounds), [await _fetched(sqlite, note, rounds)])


async def _growths(path: Path, form: str, millions: Sequence[int], note: Note) -> list[Growth]:
    """Each length in a server of its own. The first, which is short, is streamed three times."""
    loads = []
    for million in millions:
        rows = million * 1_000_000
        note(f"{form}, {rows:,} generated rows")
        async with served(f"sqlite:///{path}") as server:
            result = await server.result(GENERATED.format(million))
            url = f"{result.resource_url}/rows?format={form}"
            await csv_rows(server.http, f"{url}&limit=10")
            idle = server.process.resident()
            server.process.forget_peak()
            times = [await _timed(server.http, url, rows) for _ in range(3 if million <= 1 else 1)]
            seconds = median_of(f"{form}, {rows:,} rows: seconds", times)
            loads.append(Growth(form, rows, seconds, server.process.peak() - idle))
    return loads


async def _timed(http: httpx.AsyncClient, url: str, rows: int) -> float:
    start = perf_counter()
    lines = await csv_rows(http, url)
    seconds = perf_counter() - start
    if lines not in {rows, rows - 1}:  # NDJSON has no heading, and csv_rows takes one line for it
        raise SystemExit(f"{lines:,} rows came, and not {rows:,}.")
    return seconds


async def _loads(path: Path, note: Note, rounds: int) -> list[Load]:
    """Pages a second with 1, 2 and 4 workers, in turns."""
    store = f"sqlite:///{path.parent / 'resources.sqlite'}"
    upgrade(store)
    speeds: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    body = json.dumps({"offset": 5_000, "limit": 100}).encode()
    for _ in range(rounds):
        for workers in WORKERS:
            note(f"{CLIENTS} clients, {workers} workers")
            async with served(f"sqlite:///{path}", store=store, workers=workers) as server:
                url = str((await server.result("flights")).resource_url)
                request = Request("POST", url, body=body, expected=b'"id":5100')
                await pages_per_second(request, seconds=SECONDS / 4, connections=CLIENTS)
                speed = await pages_per_second(request, seconds=SECONDS, connections=CLIENTS)
                speeds[workers].append(speed)
    return [
        Load(workers, median_of(f"{workers} workers: pages/s", speeds_of))
        for workers, speeds_of in speeds.items()
    ]


@asynccontextmanager
async def linked(server: Server) -> AsyncIterator[tuple[Link, DualResponseClient]]:
    """The link to a server, and a client beyond it."""
    host = server.process.url.rpartition("/")[2]
    port = int(host.rpartition(":")[2])
    async with (
        relaying(Link(port)) as link,
        DualResponseClient(
            f"http://{FAR}:{link.port}/resources",
            headers={"host": host},  # that of FAR is none that the server serves
            timeout=600,
            maximum_response_bytes=2**40,
        ) as client,
    ):
        yield link, client


async def _fetched(path: Path, note: Note, rounds: int) -> Fetch:
    async with served(f"sqlite:///{path}") as server:
        result = await server.result("flights")
        plain = await _plain_bytes(server.http, f"{result.resource_url}/rows?format=ndjson")
        far_seconds, near_seconds, size = [], [], 0
        for _ in range(min(rounds, 3)):
            note("fetch_all over the link")
            async with linked(server) as (link, client):
                far_seconds.append(await _all(client, result.resource_uri))
                size = link.sent
            near_seconds.append(await _all(server.client, result.resource_uri))
    far, near = (
        median_of(f"fetch_all {name}: seconds", times)
        for name, times in (("over the link", far_seconds), ("without it", near_seconds))
    )
    return Fetch(ROWS, far, near, plain, size)


async def _all(client: DualResponseClient, resource: str) -> float:
    result = await client.open(resource)
    start = perf_counter()
    rows = await result.fetch_all()
    seconds = perf_counter() - start
    if len(rows) != ROWS:
        raise SystemExit(f"{len(rows):,} rows came, and not {ROWS:,}.")
    return seconds


async def _plain_bytes(http: httpx.AsyncClient, url: str) -> int:
    async with http.stream("GET", url, headers={"Accept-Encoding": "identity"}, timeout=600) as response:
        return sum([len(piece) async for piece in response.aiter_raw()])


def is_linear(growths: Sequence[Growth]) -> bool:
    """Whether the longest stream of a format is as fast as its shortest, and all are within memory."""
    by_format = {growth.format: [g for g in growths if g.format == growth.format] for growth in growths}
    return all(
        max(fetches, key=lambda g: g.rows).rows_per_second
        >= LINEAR * min(fetches, key=lambda g: g.rows).rows_per_second
        for fetches in by_format.values()
    ) and all(growth.above_idle <= CEILING for growth in growths)


def report(measurements: Measurements) -> Report:
    """Three tables, beside their floors."""
    holds = is_linear(measurements.growths) and all(fetch.holds for fetch in measurements.fetches)
    sections = [_grown(measurements.growths), _loaded(measurements.loads), _carried(measurements.fetches)]
    figures = [*measurements.growths, *measurements.loads, *measurements.fetches]
    return Report("scale", "Scale", sections, figures, holds)


def _grown(growths: Sequence[Growth]) -> Section:
    first = {growth.format: growth for growth in reversed(growths)}
    return Section(
        "Streams that grow",
        "Generated rows of 5 columns from SQLite, one worker, each in a server of its own. Floors: the longest is at "
        f"least {LINEAR:g} as fast as the shortest, and at most {CEILING // MEBIBYTE} MiB above the idle server.",
        ("format", "rows", "seconds", "rows/s", "of the first", "MiB", ""),
        [
            (
                growth.format,
                f"{growth.rows:,}",
                f"{growth.seconds:.1f}",
                f"{growth.rows_per_second:,.0f}",
                f"{growth.rows_per_second / first[growth.format].rows_per_second:.2f}",
                f"{growth.above_idle / MEBIBYTE:.1f}",
                verdict(holds=is_linear([first[growth.format], growth])),
            )
            for growth in growths
        ],
    )


def _loaded(loads: Sequence[Load]) -> Section:
    return Section(
        f"Pages of 100 rows a second for {CLIENTS} clients",
        "At depth 5,000, SQLite, resources in SQLite. Server and clients share the cores: more workers than cores "
        "bring nothing.",
        ("workers", "pages/s"),
        [(str(load.workers), f"{load.pages:,.0f}") for load in loads],
    )


def _carried(fetches: Sequence[Fetch]) -> Section:
    return Section(
        "fetch_all over a far link",
        f"A relay with {DELAY * 1000:.0f} ms there and back and {RATE * 8 / 1e6:.0f} Mbit/s; the client as it is. "
        f"The link would carry the plain NDJSON in `link` seconds. Floor: {CARRIED:g} of its rows a second.",
        ("rows", "seconds", "without the link", "MB plain", "MB sent", "link", "of the link", ""),
        [
            (
                f"{fetch.rows:,}",
                f"{fetch.seconds:.1f}",
                f"{fetch.near:.1f}",
                f"{fetch.plain / 1e6:,.0f}",
                f"{fetch.sent / 1e6:,.0f}",
                f"{fetch.carried:.1f}",
                f"{fetch.ratio:.2f}",
                verdict(holds=fetch.holds),
            )
            for fetch in fetches
        ],
    )
