"""What one worker, one store and one database bear, and what that makes of 10, 100 and 1,000 workers.

Its tables are written into docs/scaling.md, too. On few cores, more workers do not make more of anything; so what
counts is the processor time of each part for each operation, from which the model is computed.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from sqlalchemy import Column, Double, Integer, MetaData, String, Table, select, text
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from benchmarks.load import Request, pages_per_second
from benchmarks.processes import processor_seconds, uvicorn
from benchmarks.report import Lines, Report, Section
from benchmarks.timing import median_of
from dualsql import DualResponseServer, Settings, SQLResourceStore
from dualsql.changes import ChangeSettings
from dualsql.resource import INTERRUPTED
from dualsql.store import upgrade
from dualsql.store.housekeeping import FLUSH_INTERVAL, sweep
from dualsql.store.protocol import Access
from dualsql.testing.stores import NOW, of
from tests import engines
from tests.failures.cluster import Cluster, cluster
from tests.store.many import OWNER, Operation, fill, operations

Note = Callable[[str], object]

DOCUMENT = Path(__file__).parents[1] / "docs" / "scaling.md"
WORKERS = (1, 2, 4)
SIZES = (10, 100, 1_000)
SECONDS = 5.0
FEW, MANY = 1_000, 1_000_000
"""Stored results."""
CALLS = 100
SWEPT = 20_000

ROWS, KIND_ROWS = 200_000, 1_000
STREAMS, ASKERS = 4, 16

DURABLE = ("fsync=on", "full_page_writes=on", "autovacuum=on", "shared_buffers=256MB")
"""What the servers of tests leave out."""

SHARES = {"creation": 0.2, "page": 0.6, "stream": 0.2}
"""Of a worker's time: the mix that the model assumes."""
CORES, CONNECTIONS = 16, 100
"""Of each PostgreSQL in the model; 100 is PostgreSQL's default of max_connections."""

THINGS = Table(
    "things",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("kind", Integer, index=True),
    *(Column(f"text_{n}", String(40)) for n in range(4)),
    *(Column(f"number_{n}", Double) for n in range(4)),
)


def app() -> Starlette:
    """A worker: POST /tool/KIND answers as a tool would that returns the rows of a kind, 0 for all."""
    environment = os.environ
    dual = DualResponseServer(
        environment["SCALING_DATA"],
        base_url=f"{environment['SCALING_URL']}/resources",
        tables=THINGS.metadata,
        store=SQLResourceStore(environment["SCALING_STORE"]),
        secrets=["a secret of a benchmark that nobody keeps"],
        # Of 1,000 connections that are never idle, a worker may have more than a quarter.
        settings=Settings(maximum_queued_queries=1_000),
    )

    async def call(request: HTTPRequest) -> JSONResponse:
        kind = request.path_params["kind"]
        response = await dual.create_response(
            select(THINGS).where(THINGS.c.kind == kind) if kind else select(THINGS), name="x"
        )
        return JSONResponse({"url": response.resource_url, "rows": response.total_count})

    routes = [Route("/tool/{kind:int}", call, methods=["POST"]), Mount("/resources", dual.router())]
    return Starlette(routes=routes, lifespan=dual.lifespan)


@dataclass(frozen=True)
class Load:
    """What so many workers did.

    Attributes:
        rate: operations a second; of streams, rows.
        worker_ms, data_ms, store_ms: processor time for each operation (of streams, for 1,000 rows).
        worker_mb, session_mb: memory of one worker afterwards, and of a process of PostgreSQL that serves it, without
            what they share.
        connections: to data and store, of all workers.
    """

    workers: int
    what: str
    rate: float
    worker_ms: float
    data_ms: float
    store_ms: float
    worker_mb: float
    session_mb: float
    connections: int


@dataclass(frozen=True)
class Work:
    """What one store does in a second, asked by one process.

    Attributes:
        store_ms: its processor time for each.
    """

    what: str
    rate: float
    store_ms: float


@dataclass(frozen=True)
class Flatness:
    """Milliseconds of an operation of the store (the median) with few resources, and with many."""

    store: str
    what: str
    many: int
    few_ms: float
    many_ms: float


@dataclass(frozen=True)
class Measurements:
    """What the whole part found."""

    loads: Sequence[Load]
    works: Sequence[Work]
    flatnesses: Sequence[Flatness]


async def measure(note: Note, *, seconds: float = SECONDS, many: int = MANY) -> Measurements:
    """Workers for so many seconds each, and stores of up to so many results."""
    with cluster(*DURABLE) as data, cluster(*DURABLE) as store:
        await _filled(data.url("postgres"))
        await asyncio.to_thread(upgrade, store.url("postgres"))
        loads = []
        for number in WORKERS:
            note(f"{number} workers")
            loads += [load async for load in _loads(number, data, store, seconds)]
        note("a store alone")
        works = await _works(store, seconds)
    flatnesses = []
    for name in engines.ENGINES:
        note(f"{name}: {many:,} results")
        flatnesses += await _flatness(name, many)
    return Measurements(loads, works, flatnesses)


async def _filled(url: str) -> None:
    engine = create_async_engine(url)
    texts = ", ".join(f"md5((n * {k + 7})::text)" for k in range(4))
    numbers = ", ".join(f"n / {k + 3}.0" for k in range(4))
    async with engine.begin() as connection:
        await connection.run_sync(THINGS.metadata.create_all)
        rows = f"SELECT n, 1 + n % {ROWS // KIND_ROWS}, {texts}, {numbers} FROM generate_series(1, {ROWS}) AS t(n)"
        await connection.execute(text(f"INSERT INTO things {rows}"))
        await connection.execute(text("ANALYZE"))
    await engine.dispose()


async def _loads(number: int, data: Cluster, store: Cluster, seconds: float) -> AsyncIterator[Load]:
    variables = {
        "SCALING_DATA": data.url("postgres"),
        "SCALING_STORE": store.url("postgres"),
        "SCALING_URL": "{url}",
    }
    with uvicorn("benchmarks.scaling:app", variables, workers=number) as process:
        asks = await _asks(process.url)
        for what, ask in asks.items():
            await ask(1.0)  # compiled statements and pools
            parts = (process.pid, _main_process(data), _main_process(store))
            before = [_cpu_of(pid) for pid in parts]
            start = perf_counter()
            count = await ask(seconds)
            rate = count / (perf_counter() - start)
            milliseconds = [
                (_cpu_of(pid) - former) / count * 1e3 for pid, former in zip(parts, before, strict=True)
            ]
            unit = 1_000 if what == "stream" else 1
            sessions = _clients(data) + _clients(store)
            workers = _children(process.pid) if number > 1 else [process.pid]
            yield Load(
                number,
                what,
                rate,
                worker_ms=milliseconds[0] * unit,
                data_ms=milliseconds[1] * unit,
                store_ms=milliseconds[2] * unit,
                worker_mb=_memory_of(workers),
                session_mb=_memory_of(sessions),
                connections=len(sessions),
            )


Ask = Callable[[float], Coroutine[None, None, float]]


async def _asks(url: str) -> Mapping[str, Ask]:
    """Functions of seconds that return how much was done."""
    page, whole = [await _made(f"{url}/tool/{kind}") for kind in (7, 0)]
    creating = Request("POST", f"{url}/tool/8", expected=b'"url"')
    paging = Request("GET", f"{page}?limit=100", expected=b'"data"')

    async def asked(request: Request, seconds: float) -> float:
        start = perf_counter()
        rate = await pages_per_second(request, seconds=seconds, connections=ASKERS)
        return rate * (perf_counter() - start)

    async def streamed(seconds: float) -> float:
        deadline = perf_counter() + seconds
        return sum(await asyncio.gather(*(_streams(f"{whole}/rows", deadline) for _ in range(STREAMS))))

    return {
        "creation": lambda seconds: asked(creating, seconds),
        "page": lambda seconds: asked(paging, seconds),
        "stream": streamed,
    }


async def _made(url: str) -> str:
    body = (await _answer("POST", url)).partition(b"\r\n\r\n")[2]
    match = re.search(rb'"url":"([^"]+)"', body)
    if match is None:
        raise SystemExit(f"No result was made: {body[:200]!r}")
    return match[1].decode()


async def _streams(url: str, deadline: float) -> float:
    """How many rows came; what is read is not parsed, because the reader has the same cores."""
    rows = 0
    while perf_counter() < deadline:
        rows += (await _answer("GET", f"{url}?format=ndjson")).count(b'{"id":')
    return rows


async def _answer(method: str, url: str) -> bytes:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**22)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    writer.write(head.encode())
    try:
        return await reader.read()
    finally:
        writer.close()


async def _works(store: Cluster, seconds: float) -> list[Work]:
    """What workers ask of a store by themselves, besides requests."""
    resources = SQLResourceStore(store.url("postgres"))
    ids = [await resources.save(of(OWNER)) for _ in range(100)]
    accesses = {name: Access(1, NOW) for name in ids[:20]}

    async def sweep_nothing() -> None:
        await resources.fail_overdue(INTERRUPTED, now=NOW)
        await sweep(resources, before=datetime.min.replace(tzinfo=UTC))

    requests: Mapping[str, Callable[[], Awaitable[object]]] = {
        "watch poll of 100 results": lambda: resources.standings(ids),
        "write of the accesses of 20 results": lambda: resources.add_accesses(accesses),
        "sweep that finds nothing": sweep_nothing,
    }
    figures = []
    for what, ask in requests.items():
        before, start, number = _cpu_of(_main_process(store)), perf_counter(), 0
        while perf_counter() < start + seconds:
            await asyncio.gather(*(ask() for _ in range(4)))
            number += 4
        taken = perf_counter() - start
        figures.append(Work(what, number / taken, (_cpu_of(_main_process(store)) - before) / number * 1e3))
    await fill(store.url("postgres"), SWEPT)
    before, start = _cpu_of(_main_process(store)), perf_counter()
    number = await sweep(resources, before=datetime.now(UTC) + timedelta(days=365))
    taken = perf_counter() - start
    figures.append(
        Work("expired result, swept", number / taken, (_cpu_of(_main_process(store)) - before) / number * 1e3)
    )
    await resources.close()
    return figures


async def _flatness(name: str, number: int) -> list[Flatness]:
    """In turns: a call of the small store, then one of the large."""
    with _store(name) as small, _store(name) as large:
        stores = [SQLResourceStore(url) for url in (small, large)]
        for url, results in ((small, FEW), (large, number)):
            await asyncio.to_thread(upgrade, url)
            await fill(url, results)
        few, many = [await operations(store) for store in stores]
        figures = []
        for what in few:
            times = [(await _milliseconds(few[what]), await _milliseconds(many[what])) for _ in range(CALLS)]
            few_ms, many_ms = (
                median_of(f"{name}, {what}, {results:,} results: ms", durations)
                for results, durations in zip((FEW, number), zip(*times, strict=True), strict=True)
            )
            figures.append(Flatness(name, what, number, few_ms, many_ms))
        for store in stores:
            await store.close()
        return figures


async def _milliseconds(ask: Operation) -> float:
    start = perf_counter()
    await ask()
    return (perf_counter() - start) * 1e3


@contextmanager
def _store(name: str) -> Iterator[str]:
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield engines.sqlite_url_in(Path(folder))
    else:
        with cluster(*DURABLE) as database:
            yield database.url("postgres")


# What a process has used, as Linux tells it in /proc: see its manual page, proc of section 5.


def _main_process(server: Cluster) -> int:
    return int((Path(server.socket_folder) / "data" / "postmaster.pid").read_text().split()[0])


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _clients(server: Cluster) -> list[int]:
    """The processes of a server that serve dualsql."""
    figures = []
    for pid in _children(_main_process(server)):
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"postgres postgres" in title:
            figures.append(pid)
    return figures


def _cpu_of(pid: int) -> float:
    """Seconds of processor time of a process, its children, and those that have ended."""
    return sum(map(processor_seconds, [pid, *_children(pid)]))


def _memory_of(pids: list[int]) -> float:
    """Megabytes that each process has for itself: the mean."""
    sizes = []
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024)
    return sum(sizes) / len(sizes)


# The model


def _model(loads: Sequence[Load], works: Sequence[Work]) -> Lines:
    """What so many workers need of the store and of the database, and what ends first."""
    one = {load.what: load for load in loads if load.workers == 1}
    settings = Settings()
    data = sum(share * one[what].data_ms / one[what].worker_ms for what, share in SHARES.items())
    store = sum(share * one[what].store_ms / one[what].worker_ms for what, share in SHARES.items())
    poll, accesses, swept = (work.store_ms / 1e3 for work in works[:3])
    by_itself = (
        poll / ChangeSettings().watch_interval.total_seconds()
        + accesses / FLUSH_INTERVAL.total_seconds()
        + swept / settings.cleanup_interval.total_seconds()
    )
    each = settings.maximum_concurrent_queries + settings.maximum_streams + settings.maximum_pending, 15
    lines = []
    for number in SIZES:
        rows = {
            "processor of the database": number * data / CORES,
            "processor of the store": number * (store + by_itself) / CORES,
        }
        connections = {
            "connections of the database": number * each[0] / CONNECTIONS,
            "connections of the store": number * each[1] / CONNECTIONS,
        }
        cores = f"{number * data:,.1f}", f"{number * (store + by_itself):,.1f}"
        number_of_all = f"{number * each[0]:,} + {number * each[1]:,}"
        lines.append((f"{number:,}", number_of_all, *cores, _first({**connections, **rows}), _first(rows)))
    return lines


def _first(needs: Mapping[str, float]) -> str:
    """The part of which most is needed, if there is not enough of it."""
    part = max(needs, key=lambda part: needs[part])
    return f"{part} ({needs[part]:,.1f} times what it has)" if needs[part] > 1 else "nothing"


def report(measurements: Measurements) -> Report:
    """Four tables, which docs/scaling.md has too."""
    sections = [
        _borne(measurements.loads),
        _alone(measurements.works),
        _computed(measurements),
        _grown(measurements.flatnesses),
    ]
    figures = [*measurements.loads, *measurements.works, *measurements.flatnesses]
    return Report("scaling", "Scaling", sections, figures, holds=None, document=DOCUMENT)


def _borne(loads: Sequence[Load]) -> Section:
    units = {"creation": "/s", "page": "/s", "stream": " rows/s"}
    return Section(
        "What workers bear",
        f"Measured: two PostgreSQL, one for data and one for results, and the asker on the same {os.cpu_count()} "
        f"cores. Creations: sample and count of {KIND_ROWS:,} rows; pages of 100 rows x 10 columns; streams of "
        f"{ROWS:,} rows, NDJSON, {STREAMS} at once. ms: processor time for one, of streams for 1,000 rows.",
        ("workers", "what", "rate", "worker ms", "database ms", "store ms", "MB, worker", "MB, session", "sessions"),
        [
            (
                str(load.workers), load.what, f"{load.rate:,.0f}{units[load.what]}", f"{load.worker_ms:.2f}",
                f"{load.data_ms:.2f}", f"{load.store_ms:.2f}", f"{load.worker_mb:,.0f}",
                f"{load.session_mb:,.1f}", str(load.connections),
            )
            for load in loads
        ],
    )  # fmt: skip


def _alone(works: Sequence[Work]) -> Section:
    return Section(
        "What a store bears",
        "Measured: asked by one process, four at a time.",
        ("what", "in a second", "store ms"),
        [(work.what, f"{work.rate:,.0f}", f"{work.store_ms:.2f}") for work in works],
    )


def _computed(measurements: Measurements) -> Section:
    mix = ", ".join(f"{share:.0%} {what}" for what, share in SHARES.items())
    return Section(
        "So many workers",
        f"Computed: each worker has a core and is busy ({mix}) and watches 100 results; database and store are a "
        f"PostgreSQL of {CORES} cores each with max_connections = {CONNECTIONS}.",
        (
            "workers",
            "connections, database + store",
            "cores, database",
            "cores, store",
            "ends first",
            "behind poolers",
        ),
        _model(measurements.loads, measurements.works),
    )


def _grown(flatnesses: Sequence[Flatness]) -> Section:
    many = flatnesses[0].many
    return Section(
        "A million results",
        f"Measured: the median of {CALLS} calls, in milliseconds, with {FEW:,} and {many:,} stored results.",
        ("store", "what", f"{FEW:,}", f"{many:,}", "times"),
        [
            (
                each.store,
                each.what,
                f"{each.few_ms:.2f}",
                f"{each.many_ms:.2f}",
                f"{each.many_ms / each.few_ms:.1f}",
            )
            for each in flatnesses
        ],
    )
