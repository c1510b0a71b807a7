"""A million rows through dualsql against the drivers alone and against Datasette. In turns, in one run.

The server is uvicorn in a process of its own, the client is here, both on loopback.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import httpx

from benchmarks import bare, peers
from benchmarks.flights import ROWS
from benchmarks.postgresql import TYPED_ROWS
from benchmarks.processes import Process, uvicorn
from benchmarks.report import Report, Section, verdict
from benchmarks.serving import BASE_URL, DATABASE, TENANT, TOKEN
from benchmarks.timing import median_of
from dualsql_client import DualResponseClient, ParsedDualResponse

TENANT_OF_ALL = "2013"

Work = Callable[[], Awaitable[int]]


@dataclass(frozen=True)
class Race:
    """Median seconds of dualsql and of what it runs against, for the same rows.

    Attributes:
        floor: the least ratio that is promised; None where nothing is.
    """

    what: str
    engine: str
    rows: int
    against: str
    seconds: float
    other_seconds: float
    floor: float | None

    @property
    def ratio(self) -> float:
        """How many times as fast as the other dualsql is."""
        return self.other_seconds / self.seconds

    @property
    def holds(self) -> bool:
        return self.floor is None or self.ratio >= self.floor


@dataclass(frozen=True)
class Heat:
    """Two ways to the same rows."""

    what: str
    against: str
    ours: Work
    other: Work
    floor: float | None
    rows: int = ROWS


async def measure(sqlite: Path, postgresql: str, note: Callable[[str], object], rounds: int) -> list[Race]:
    """Every race, `rounds` times each."""
    races: list[Race] = []
    for engine, url in (("SQLite", f"sqlite:///{sqlite}"), ("PostgreSQL", postgresql)):
        async with served(url) as server, served(url, tenant=TENANT_OF_ALL) as narrowed:
            heats = await _against_drivers(url, server, narrowed)
            if engine == "PostgreSQL":
                heats += await _against_copy(url, server, narrowed)
            for heat in heats:
                note(f"{engine}: {heat.what} against {heat.against}")
                races.append(await _race(engine, heat, rounds))
    with peers.datasette(sqlite) as datasette:
        async with served(f"sqlite:///{sqlite}") as server:
            for heat in await _against_datasette(f"{datasette.url}/{sqlite.stem}", server):
                note(f"SQLite: {heat.what} against {heat.against}")
                races.append(await _race("SQLite", heat, rounds))
    return races


async def _against_drivers(url: str, server: Server, narrowed: Server) -> list[Heat]:
    everything, mine = await server.result("flights"), await narrowed.result("flights")
    adbc, floors = partial(bare.adbc, url), (1.0, 0.95) if url.startswith("sqlite") else (0.85, 0.85)
    return [
        Heat("Arrow", "ADBC", _arrow(everything), adbc, floors[0]),
        Heat("Arrow, a bound tenant", "ADBC", _arrow(mine), adbc, floors[1]),
        Heat("dicts", "the driver", _dicts(everything), partial(bare.dicts, url), 0.6),
    ]


async def _against_copy(url: str, server: Server, narrowed: Server) -> list[Heat]:
    everything, mine = await server.result("flights"), await narrowed.result("flights")
    typed, query = await server.result("every type"), "SELECT * FROM every_type ORDER BY id"
    copied = partial(bare.copied, url)
    return [
        Heat("CSV", "COPY", _csv(server, everything), copied, 0.6),
        Heat("CSV, a bound tenant", "COPY", _csv(narrowed, mine), copied, 0.6),
        Heat("CSV, every type", "COPY", _csv(server, typed), partial(copied, query), 0.8, TYPED_ROWS),
    ]


async def _against_datasette(url: str, server: Server) -> list[Heat]:
    everything, peer = await server.result("flights"), "Datasette's CSV stream"
    stream = partial(bare.csv_rows, server.http, f"{url}/flights.csv?_stream=on")
    return [
        Heat("dicts", peer, _dicts(everything), stream, 5.0),
        Heat("CSV", peer, _csv(server, everything), stream, 10.0),
    ]


async def _race(engine: str, heat: Heat, rounds: int) -> Race:
    own: list[float] = []
    others: list[float] = []
    for _ in range(rounds):
        own.append(await _seconds(heat.ours, heat.rows))
        # What takes long is measured three times.
        if len(others) < 3 or others[0] < 10:
            others.append(await _seconds(heat.other, heat.rows))
    name = f"{engine}, {heat.what}"
    seconds, other = median_of(f"{name}: s", own), median_of(f"{name}: {heat.against}, s", others)
    return Race(heat.what, engine, heat.rows, heat.against, seconds, other, heat.floor)


async def _seconds(work: Work, rows: int) -> float:
    start = perf_counter()
    size = await work()
    seconds = perf_counter() - start
    if size < rows:
        raise SystemExit(f"{size:,} rows came, and not {rows:,}.")
    return seconds


@dataclass(frozen=True)
class Server:
    """A dualsql server, and a client of it."""

    process: Process
    http: httpx.AsyncClient
    client: DualResponseClient

    async def result(self, name: str) -> ParsedDualResponse:
        """The dual response of STATEMENTS[name]."""
        answer = await self.http.post(f"{self.process.url}/tool/{name}", timeout=60)
        parsed: ParsedDualResponse = self.client.parse(answer.raise_for_status().json(), strict=True)
        return parsed


@asynccontextmanager
async def served(
    url: str, *, tenant: str | None = None, workers: int = 1, store: str = ""
) -> AsyncIterator[Server]:
    """A server of the benchmarks on the database of `url`, and a client that may read its results."""
    environment = {
        DATABASE: url,
        BASE_URL: "{url}/resources",
        TENANT: tenant or "",
        "DUALSQL_BENCH_STORE": store,
    }
    headers = {"Authorization": f"Bearer {TOKEN}"} if tenant else {}
    with uvicorn("benchmarks.serving:app", environment, workers=workers) as process:
        async with (
            httpx.AsyncClient(headers=headers) as http,
            DualResponseClient(
                f"{process.url}/resources", headers=headers, timeout=600, maximum_response_bytes=2**40
            ) as client,
        ):
            yield Server(process, http, client)


def _arrow(result: ParsedDualResponse) -> Work:
    async def read() -> int:
        return int((await result.to_arrow()).num_rows)

    return read


def _dicts(result: ParsedDualResponse) -> Work:
    async def read() -> int:
        return len(await result.fetch_all())

    return read


def _csv(server: Server, result: ParsedDualResponse) -> Work:
    return lambda: bare.csv_rows(server.http, f"{result.resource_url}/rows?format=csv")


def report(races: Sequence[Race]) -> Report:
    """Every race beside its floor."""
    section = Section(
        "All rows over HTTP against the driver alone",
        "uvicorn and the client in two processes on loopback; the other one reads the same rows in the "
        "client's process, without HTTP (Datasette: over HTTP too). Median seconds of runs taken in turns; "
        "the ratio is theirs to ours, 1.0 being as fast.",
        ("what", "engine", "rows/s", "seconds", "against", "its seconds", "ratio", "floor", ""),
        [_line(race) for race in races],
    )
    return Report("stream", "What a million rows cost", [section], races, all(race.holds for race in races))


def _line(race: Race) -> Sequence[str]:
    return (
        race.what,
        race.engine,
        f"{race.rows / race.seconds:,.0f}",
        f"{race.seconds:.2f}",
        race.against,
        f"{race.other_seconds:.2f}",
        f"{race.ratio:.2f}",
        "" if race.floor is None else f"{race.floor:g}",
        verdict(holds=race.holds),
    )
