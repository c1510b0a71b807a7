"""Kept results: what keeping costs, and what reading costs, against DuckDB alone. In turns, in one run."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import duckdb
import pyarrow as pa
from sqlalchemy import select

from benchmarks import bare
from benchmarks.flights import ROWS, flights, metadata
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import fastest, median_of
from dualsql import DualResponseServer, Kept, PageRequest, Settings, StreamRequest
from dualsql.feature_list import default_features
from dualsql.query import read_structured_query
from dualsql_client.wire import SortKey

PAGE = 100
MILLISECONDS = 1e-3

Note = Callable[[str], object]


@dataclass(frozen=True)
class Cost:
    """Seconds of dualsql, and of what it is measured against.

    Attributes:
        times: at most so many times as long.
        most: at most so many seconds; None for no such limit.
    """

    what: str
    against: str
    seconds: float
    other_seconds: float
    times: float
    most: float | None = None

    @property
    def ratio(self) -> float:
        return self.seconds / self.other_seconds

    @property
    def holds(self) -> bool:
        is_within = self.seconds <= self.other_seconds * self.times
        return is_within and (self.most is None or self.seconds <= self.most)


async def measure(path: Path, note: Note, rounds: int) -> list[Cost]:
    """Every cost, over the flights of the SQLite file at `path`."""
    with tempfile.TemporaryDirectory(prefix="kept-") as folder:
        async with _server(path, Path(folder) / "kept") as dual:
            note("keeping")
            written = await _written(dual, path, Path(folder), rounds)
            result = await dual.create_response(_all(), name="flights", keep=True)
            note("pages")
            pages = await _pages(dual, result.resource_id)
            note("questions")
            questions = await _questions(dual, result.resource_id, Path(folder) / "alone.duckdb")
            note("Arrow")
            return [written, *pages, *questions, await _arrow(dual, result.resource_id, path, rounds)]


def _all() -> Any:
    return select(flights).order_by(flights.c.id)


@asynccontextmanager
async def _server(path: Path, storage: Path) -> AsyncIterator[DualResponseServer]:
    async with DualResponseServer(
        f"sqlite:///{path}",
        base_url="http://127.0.0.1/r",
        tables=metadata,
        features=default_features(Kept(storage)),
        settings=Settings(query_timeout=timedelta(minutes=5)),
    ) as dual:
        yield dual


async def _written(dual: DualResponseServer, path: Path, folder: Path, rounds: int) -> Cost:
    async def keep() -> None:
        response = await dual.create_response(_all(), name="flights", keep=True)
        assert response.total_count == ROWS
        await dual.delete_resource(response.resource_id, None)

    async def alone() -> None:
        await asyncio.to_thread(write_alone, path, folder / "alone.duckdb")

    ours, others = await _in_turns("keeping", keep, alone, rounds)
    return Cost("keeping the rows", "the same rows from sqlite3 into DuckDB", ours, others, 1.0)


_KINDS = {"VARCHAR": pa.string(), "DATETIME": pa.timestamp("us"), "INTEGER": pa.int64()}


def write_alone(source: Path, target: Path) -> None:
    """The rows of the driver, with the dates that SQLAlchemy makes of texts, as one DuckDB file."""
    target.unlink(missing_ok=True)
    types = [_KINDS[str(column.type)] for column in flights.columns]
    schema = pa.schema(zip(flights.columns.keys(), types, strict=True))
    declared = ", ".join(f"{column.name} {_declared(column.type)}" for column in flights.columns)
    with (
        closing(sqlite3.connect(source)) as rows,
        duckdb.connect(str(target), config={"memory_limit": "512MB"}) as file,
    ):
        file.execute(f"BEGIN; CREATE TABLE flights ({declared})")
        cursor = rows.execute(bare.ALL)
        while batch := cursor.fetchmany(50_000):
            columns = list(zip(*batch, strict=True))
            columns[-1] = tuple(map(datetime.fromisoformat, columns[-1]))
            arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
            file.register("batch", pa.Table.from_arrays(arrays, schema=schema))
            file.execute("INSERT INTO flights SELECT * FROM batch")
            file.unregister("batch")
        file.execute("COMMIT")
        file.execute("CHECKPOINT")


def _declared(type_: Any) -> str:
    return {"VARCHAR": "VARCHAR", "DATETIME": "TIMESTAMP", "INTEGER": "BIGINT"}[str(type_)]


async def _pages(dual: DualResponseServer, resource_id: str) -> list[Cost]:
    def page(offset: int) -> Callable[[], Awaitable[object]]:
        return lambda: dual.read_page(resource_id, None, PageRequest(limit=PAGE, offset=offset))

    offsets = {"in the middle": ROWS // 2, "at the end": ROWS - PAGE}
    seconds = await fastest(
        {"first": page(0), **{name: page(offset) for name, offset in offsets.items()}}, "page"
    )
    return [
        Cost(f"a page {name}", "the first page", seconds[name], seconds["first"], 1.2, most=10 * MILLISECONDS)
        for name in offsets
    ]


async def _questions(dual: DualResponseServer, resource_id: str, alone: Path) -> list[Cost]:
    resource = await dual.unchecked.get(resource_id)
    assert resource is not None
    question = read_structured_query(
        {
            "group_by": ["carrier", "month"],
            "aggregates": ["count", {"function": "avg", "column": "arr_delay"}],
        }
    )
    order = (SortKey(field="arr_delay", order="desc"),)

    async def sort() -> object:
        return await dual.read_page(resource_id, None, PageRequest(limit=PAGE, offset=1_000, sort=order))

    async def group() -> object:
        return await dual.queries.page_unchecked(resource, question, PageRequest(limit=1_000))

    costs = []
    with duckdb.connect(str(alone), read_only=True, config={"memory_limit": "512MB"}) as file:
        for what, work, sql in (
            ("a sorted page", sort, _SORTED),
            ("a group-by", group, _GROUPED),
        ):
            by_hand = partial(asyncio.to_thread, _fetched, file, sql)
            seconds = await fastest({"ours": work, "alone": by_hand}, what)
            costs.append(Cost(what, "DuckDB alone", seconds["ours"], seconds["alone"], 1.2))
    return costs


_SORTED = f"SELECT * FROM flights ORDER BY arr_delay DESC NULLS LAST, id LIMIT {PAGE + 1} OFFSET 1000"
_GROUPED = "SELECT carrier, month, count(*), avg(arr_delay) FROM flights GROUP BY 1, 2 ORDER BY 1, 2"


def _fetched(file: duckdb.DuckDBPyConnection, sql: str) -> int:
    return len(file.execute(sql).fetchall())


async def _arrow(dual: DualResponseServer, resource_id: str, path: Path, rounds: int) -> Cost:
    async def stream() -> None:
        rows = await dual.stream(resource_id, None, StreamRequest(format="arrow"))
        assert sum([chunk.rows async for chunk in rows.chunks]) == ROWS

    async def adbc() -> None:
        assert await bare.adbc(f"sqlite:///{path}") == ROWS

    ours, others = await _in_turns("Arrow", stream, adbc, rounds)
    return Cost("all rows as Arrow", "ADBC from SQLite, in process", ours, others, 1.0)


async def _in_turns(
    what: str, ours: Callable[[], Awaitable[None]], other: Callable[[], Awaitable[None]], rounds: int
) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        for work, seconds in zip((ours, other), times, strict=True):
            start = perf_counter()
            await work()
            seconds.append(perf_counter() - start)
    return median_of(f"{what}: ours, s", times[0]), median_of(f"{what}: the other, s", times[1])


def report(costs: Sequence[Cost]) -> Report:
    """Every cost beside its floor."""
    section = Section(
        "A kept result",
        f"{ROWS:,} flights of {len(flights.columns)} columns, kept from SQLite; in the server's process, without "
        "HTTP. Milliseconds of runs taken in turns: the fewest of pages and questions, the median of all rows.",
        ("what", "ms", "against", "its ms", "times", "at most", ""),
        [_line(cost) for cost in costs],
    )
    return Report("kept", "Kept results", [section], costs, all(cost.holds for cost in costs))


def _line(cost: Cost) -> Sequence[str]:
    return (
        cost.what,
        f"{cost.seconds * 1e3:,.1f}",
        cost.against,
        f"{cost.other_seconds * 1e3:,.1f}",
        f"{cost.ratio:.2f}",
        f"{cost.times:g} times" + (f" and {cost.most * 1e3:g} ms" if cost.most else ""),
        verdict(holds=cost.holds),
    )
