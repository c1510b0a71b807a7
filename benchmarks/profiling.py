"""The full profile of 1,010,328 rows of 20 columns against the same figures by hand. In turns, in one run."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from time import perf_counter
from typing import Any

from sqlalchemy import event, make_url, select

from benchmarks import profile_by_hand
from benchmarks.flights import ROWS, flights, metadata
from benchmarks.postgresql import connected
from benchmarks.report import Report, Section, verdict
from dualsql import DualResponseServer

MOST = 2.5
"""Times as long as by hand."""

MOST_STATEMENTS = 3
"""Besides those for the most frequent values."""

_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True)
class Profiled:
    """Median seconds of one engine, and how many statements were sent besides those for each column's values."""

    engine: str
    seconds: float
    by_hand: float
    statements: int

    @property
    def ratio(self) -> float:
        """How many times as long as by hand it takes."""
        return self.seconds / self.by_hand

    @property
    def holds(self) -> bool:
        return self.ratio <= MOST and self.statements <= MOST_STATEMENTS


async def measure(engine: str, url: str, note: Callable[[str], object], rounds: int) -> Profiled:
    """Both, `rounds` times in turns, after one run of ours that counts the statements."""
    by_hand = _sqlite_by_hand if engine == "SQLite" else _postgresql_by_hand
    async with DualResponseServer(
        url,
        base_url="http://127.0.0.1:8000/resources",
        tables=metadata,
        profile_budget=_PATIENCE,
        query_timeout=_PATIENCE,
    ) as dual:
        response = await dual.create_response(select(flights), name="Flights", expiration=_PATIENCE * 6)
        resource = await dual.get_resource_unchecked(response.resource_id)
        assert resource is not None

        async def ours() -> object:
            profile = await dual.profile(resource.id, None, kind="full")
            assert profile["complete"]
            assert profile["covers"]["rows"] == ROWS
            return profile

        statements = await _counted(dual, ours)
        taken: dict[str, list[float]] = {"ours": [], "by hand": []}
        for number in range(rounds):
            note(f"{engine}: round {number + 1} of {rounds}")
            taken["by hand"].append(await _seconds(lambda: by_hand(url)))
            taken["ours"].append(await _seconds(ours))
    return Profiled(engine, median(taken["ours"]), median(taken["by hand"]), statements)


def report(found: Sequence[Profiled]) -> Report:
    """The table."""
    lines = [
        [
            part.engine,
            f"{part.seconds:.1f} s",
            f"{part.by_hand:.1f} s",
            f"{part.ratio:.2f}",
            str(part.statements),
            verdict(holds=part.holds),
        ]
        for part in found
    ]
    section = Section(
        "A full profile",
        f"{ROWS:,} flights, 20 columns: at most {MOST} times the same figures by hand, and {MOST_STATEMENTS}"
        " statements besides those for the most frequent values. The texts: benchmarks/profile_by_hand.py.",
        ["engine", "dualsql", "by hand", "ratio", "statements", f"at most {MOST}"],
        lines,
    )
    return Report("profile", "Profiles", [section], found, all(part.holds for part in found))


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    begun = perf_counter()
    await work()
    return perf_counter() - begun


async def _counted(dual: DualResponseServer, work: Callable[[], Awaitable[object]]) -> int:
    """Statements about the flights that do not count the values of one column."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        sent.append(sql)

    engine = dual._sources["default"].engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        await work()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return len([sql for sql in sent if "flights" in sql and "counted_values" not in sql])


async def _sqlite_by_hand(url: str) -> None:
    def run() -> None:
        with closing(sqlite3.connect(str(make_url(url).database))) as connection:
            for sql in profile_by_hand.statements("SQLite"):
                connection.execute(sql).fetchall()

    await asyncio.to_thread(run)


async def _postgresql_by_hand(url: str) -> None:
    connection = await connected(url)
    try:
        for sql in profile_by_hand.statements("PostgreSQL"):
            await connection.fetch(sql, timeout=_PATIENCE.total_seconds())
    finally:
        await connection.close()
