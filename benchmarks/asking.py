"""Questions about a stored result against the same SQL by hand. The same groups come back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from benchmarks.flights import ROWS, flights, metadata
from benchmarks.postgresql import connected
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import fastest
from dualsql import DualResponseServer
from dualsql.query import read_structured_query
from dualsql.results.pages import PageRequest

TIMES = 1.1
"""How many times as long a question may take."""

Fetch = Callable[[str], Awaitable[Sequence[Any]]]

_MONTHS = {"SQLite": "strftime('%Y-%m-01', time_hour)", "PostgreSQL": "date_trunc('month', time_hour)::date"}

QUESTIONS: Mapping[str, tuple[dict[str, Any], str]] = {
    "flights of each carrier": (
        {"group_by": ["carrier"], "aggregates": ["count"]},
        "SELECT carrier, count(*) FROM flights GROUP BY carrier",
    ),
    "figures of each origin": (
        {
            "group_by": ["origin"],
            "aggregates": [
                {"function": function, "column": column}
                for function, column in (
                    ("count", "tailnum"),
                    ("sum", "distance"),
                    ("avg", "arr_delay"),
                    ("max", "dep_delay"),
                )
            ],
        },
        "SELECT origin, count(tailnum), sum(distance), avg(arr_delay), max(dep_delay) FROM flights GROUP BY origin",
    ),
    "delayed flights by destination": (
        {
            "filters": [{"column": "arr_delay", "op": "gt", "value": 60}],
            "group_by": ["dest"],
            "aggregates": ["count"],
            "having": [{"column": "count", "op": "gt", "value": 100}],
            "order_by": [{"column": "count", "order": "desc"}],
        },
        "SELECT dest, count(*) FROM flights WHERE arr_delay > 60 GROUP BY dest HAVING count(*) > 100 ORDER BY 2 DESC",
    ),
    "flights of each month": (
        {"group_by": [{"column": "time_hour", "bucket": "month"}], "aggregates": ["count"]},
        "SELECT {month}, count(*) FROM flights GROUP BY 1",
    ),
}


@dataclass(frozen=True)
class Cost:
    """The fewest seconds of one question, and of the same by hand."""

    engine: str
    question: str
    asked: float
    by_hand: float

    @property
    def times(self) -> float:
        return self.asked / self.by_hand

    @property
    def holds(self) -> bool:
        return self.times <= TIMES


async def measure(engine: str, place: str, note: Callable[[str], object]) -> list[Cost]:
    """The cost of every question on one engine."""
    async with (
        DualResponseServer(place, base_url="http://127.0.0.1/r", tables=metadata) as server,
        _by_hand(engine, place) as fetch,
    ):
        response = await server.create_response(select(flights), name="Flights", count="exact")
        assert response.total_count == ROWS
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        costs = []
        for name, (spec, sql) in QUESTIONS.items():
            note(f"{engine}: {name}")
            question, text = read_structured_query(spec), sql.format(month=_MONTHS[engine])

            async def ask(question: Any = question) -> int:
                return len(
                    (await server.queries.page_unchecked(resource, question, PageRequest(limit=1_000))).rows
                )

            async def fetch_by_hand(written: str = text) -> int:
                return len(await fetch(written))

            assert await ask() == await fetch_by_hand()
            seconds = await fastest({"asked": ask, "by hand": fetch_by_hand}, f"{engine}, {name}", budget=4.0)
            costs.append(Cost(engine, name, seconds["asked"], seconds["by hand"]))
    return costs


@asynccontextmanager
async def _by_hand(engine: str, place: str) -> AsyncIterator[Fetch]:
    """The driver itself, on a connection that stays open."""
    if engine == "PostgreSQL":
        connection = await connected(place)
        yield connection.fetch
        await connection.close()
        return
    path = Path(place.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        yield lambda sql: asyncio.to_thread(lambda: database.execute(sql).fetchall())


def report(costs: Sequence[Cost]) -> Report:
    """The table beside its floor."""
    lines = [
        [
            f"{cost.engine}: {cost.question}",
            f"{cost.by_hand * 1e3:.1f} ms",
            f"{cost.asked * 1e3:.1f} ms",
            f"{cost.times:.2f}",
            verdict(holds=cost.holds),
        ]
        for cost in costs
    ]
    section = Section(
        title="Questions about a stored result",
        explanation=f"{ROWS:,} flights; through `inquiries.page`; at most {TIMES} times the driver alone.",
        headings=["question", "by hand", "asked", "times", "floor"],
        lines=lines,
    )
    return Report(
        part="ask",
        title="Asking",
        sections=[section],
        figures=costs,
        holds=all(cost.holds for cost in costs),
    )
