"""The parts of the benchmarks, by name. Each brings up what it needs, so that one can run alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

from benchmarks import (
    adapter,
    asking,
    browser,
    conversations,
    creating,
    crowd,
    flows,
    kept,
    memory,
    narrowing,
    narrowing_report,
    paging,
    points,
    profiling,
    scale,
    scaling,
    starting,
    store_load,
    streaming,
)
from benchmarks.flights import database, folder
from benchmarks.plan import ROUNDS
from benchmarks.postgresql import loaded
from benchmarks.report import Report
from dualsql.demo.database import build, default_folder, sqlite_url

Note = Callable[[str], object]
"""Takes what is being done now, for a person who waits."""


@dataclass(frozen=True)
class Options:
    """How to measure.

    Attributes:
        rounds: runs of which the median is taken.
        reference: the folder of the reference server; None if it is not compared with.
        small: less of what takes long, to see that it runs.
    """

    rounds: int = ROUNDS
    reference: Path | None = None
    small: bool = False


async def create(_: Note, __: Options) -> Report:
    """create_response against its two queries by hand."""
    known = await creating.measure(database())
    async with loaded() as url:
        by_psycopg = url.replace("+asyncpg", "+psycopg")
        engines = {
            "SQLite": f"sqlite:///{database()}",
            "PostgreSQL": url,
            "PostgreSQL, psycopg": by_psycopg,
        }
        small = [await creating.measure_small(name, place) for name, place in engines.items()]
    return creating.report(known, [cost for group in small for cost in group])


async def stream(note: Note, options: Options) -> Report:
    """All rows, against the drivers and Datasette."""
    async with loaded() as url:
        return streaming.report(await streaming.measure(database(), url, note, options.rounds))


async def page(note: Note, options: Options) -> Report:
    """Pages a second, keyset pages from the first to the last, overhead."""
    path = database()
    speeds = await paging.throughput(path, options.reference, note, options.rounds)
    async with loaded() as url:
        engines = {"SQLite": f"sqlite:///{path}", "PostgreSQL": url}
        rounds = min(options.rounds, 3)  # of up to a minute each
        keysets = [await paging.keyset(name, place, note, rounds) for name, place in engines.items()]
        overheads = [await paging.overhead(name, place) for name, place in engines.items()]
    return paging.report(speeds, keysets, overheads)


async def ask(note: Note, _: Options) -> Report:
    """Questions about a stored result against the same SQL by hand."""
    path = database()
    async with loaded() as url:
        engines = {"SQLite": f"sqlite:///{path}", "PostgreSQL": url}
        costs = [await asking.measure(name, place, note) for name, place in engines.items()]
    return asking.report([cost for group in costs for cost in group])


async def keep(note: Note, options: Options) -> Report:
    """Keeping a result and reading it, against DuckDB alone and ADBC."""
    return kept.report(await kept.measure(database(), note, options.rounds))


async def remember(note: Note, _: Options) -> Report:
    """The memory of a server that streams."""
    async with loaded() as url:
        peaks = await memory.measure("SQLite", f"sqlite:///{database()}", note)
        return memory.report(peaks + await memory.measure("PostgreSQL", url, note))


async def narrow(note: Note, _: Options) -> Report:
    """Narrowed statements against conditions by hand."""
    costs = await narrowing.measure(folder(), lambda cost: note(f"{cost.engine}: {cost.statement}"))
    return narrowing_report.report(costs, await narrowing.overhead(folder()))


async def adapt(_: Note, __: Options) -> Report:
    """What a tool costs over the create_response in it."""
    return adapter.report(await adapter.measure(await _demo()))


async def converse(note: Note, _: Options) -> Report:
    """A thousand scripted flows against `dualsql serve`."""
    url = await _demo()
    async with flows.serving(url) as origin:
        path = str(make_url(url).database)
        return conversations.report(await conversations.measure(origin, path, note=note))


async def _demo() -> str:
    url = sqlite_url(default_folder())
    await build(url)
    return url


async def profile(note: Note, options: Options) -> Report:
    """A full profile against the same figures by hand."""
    rounds = min(options.rounds, 3)  # of about a minute each
    sqlite = await profiling.measure("SQLite", f"sqlite:///{database()}", note, rounds)
    async with loaded() as url:
        return profiling.report([sqlite, await profiling.measure("PostgreSQL", url, note, rounds)])


async def grow(note: Note, options: Options) -> Report:
    """Streams of up to 50 million rows, workers, clients and a far link."""
    rounds, millions = (1, (1, 2)) if options.small else (min(options.rounds, 3), (1, 10, 50))
    return scale.report(await scale.measure(database(), note, rounds, millions))


async def start(note: Note, options: Options) -> Report:
    """The import, and a server of a thousand tables, over HTTP and over stdio."""
    return starting.report(*await asyncio.to_thread(starting.measure, folder(), note, options.rounds))


async def bear(note: Note, options: Options) -> Report:
    """What a worker, a store and a database bear, and a million results."""
    figures = scaling.measure(note, seconds=1, many=10_000) if options.small else scaling.measure(note)
    return scaling.report(await figures)


async def point(note: Note, options: Options) -> Report:
    """A store of many results, many connections, many kept rows."""
    figures = (
        points.measure(note, seconds=1, results=5_000, connections=120, gigabytes=0.2)
        if options.small
        else points.measure(note)
    )
    return points.report(await figures)


async def load(note: Note, options: Options) -> Report:
    """What a store bears."""
    figures = store_load.measure(note, seconds=3) if options.small else store_load.measure(note)
    return store_load.report(await figures)


async def look(note: Note, options: Options) -> Report:
    """A result's page in a browser."""
    rounds, screens = (1, 5) if options.small else (options.rounds, browser.SCREENS)
    return browser.report(await browser.measure(database(), note, rounds, screens))


async def throng(note: Note, options: Options) -> Report:
    """A thousand clients who read ten thousand results."""
    crowd_of = crowd.Crowd(results=500, clients=50, seconds=5) if options.small else crowd.Crowd()
    return crowd.report(await crowd.measure(database(), crowd_of, note))


PARTS: Mapping[str, Callable[[Note, Options], Awaitable[Report]]] = {
    "start": start,
    "create": create,
    "stream": stream,
    "page": page,
    "ask": ask,
    "kept": keep,
    "memory": remember,
    "narrow": narrow,
    "adapter": adapt,
    "flows": converse,
    "profile": profile,
    "scale": grow,
    "scaling": bear,
    "points": point,
    "store_load": load,
    "browser": look,
    "crowd": throng,
}
