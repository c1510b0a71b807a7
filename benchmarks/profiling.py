"""The full profile of 1,010,328 rows of 20 columns against the same figures by hand. In turns, in one run."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any

from sqlalchemy import event, make_url, select

from benchmarks import profile_by_hand
from benchmarks.flights import ROWS, flights, metadata
from benchmarks.postgresql import connected
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import median_of
from dualsql import DualResponseServer, Profiles, Settings
from dualsql.feature_list import default_features
from dualsql.profiles.settings import ProfileSettings

MOST = 2.5
"""Times as long as by hand."""

MOST_STATEMENTS = 3
"""Besides those for the most frequent values."""

_PATIENCE = timedelta(minutes=10)
BUDGET, SPARE = ProfileSettings().profile_budget.total_seconds(), 1.1


@dataclass(frozen=True)
class Profiled:
    """Median seconds of one engine.

    Attributes:
        statements: those sent besides those for each column's values.
        budgeted: seconds of a profile as the server ships, within its budget.
        estimated: how many of the columns of that one have estimates.
    """

    engine: str
    seconds: float
    by_hand: float
    statements: int
    budgeted: float
    estimated: int

    @property
    def ratio(self) -> float:
        """How many times as long as by hand it takes."""
        return self.seconds / self.by_hand

    @property
    def holds(self) -> bool:
        is_quick = self.budgeted <= BUDGET * SPARE
        return self.ratio <= MOST and self.statements <= MOST_STATEMENTS and is_quick


async def measure(engine: str, url: str, note: Callable[[str], object], rounds: int) -> Profiled:
    """Both, `rounds` times in turns, after one run of ours that counts the statements."""
    by_hand = _sqlite_by_hand if engine == "SQLite" else _postgresql_by_hand
    async with DualResponseServer(
        url,
        base_url="http://127.0.0.1:8000/resources",
        tables=metadata,
        features=default_features(Profiles(profile_budget=_PATIENCE)),
        settings=Settings(query_timeout=_PATIENCE),
    ) as dual:
        response = await dual.create_response(select(flights), name="Flights", expiration=_PATIENCE * 6)
        resource = await dual.unchecked.get(response.resource_id)
        assert resource is not None

        async def ours() -> object:
            profile = await dual.profiles.profile(resource.id, None, kind="full")
            assert profile["complete"]
            assert profile["covers"]["rows"] == ROWS
            return profile

        statements = await _counted(dual, ours)
        times: dict[str, list[float]] = {"ours": [], "by hand": []}
        for number in range(rounds):
            note(f"{engine}: round {number + 1} of {rounds}")
            times["by hand"].append(await _seconds(lambda: by_hand(url)))
            times["ours"].append(await _seconds(ours))
        quick, estimated = await _within_budget(url, engine, rounds)
    own, others = (median_of(f"{engine}, {name}: s", seconds) for name, seconds in times.items())
    return Profiled(engine, own, others, statements, quick, estimated)


def report(profiles: Sequence[Profiled]) -> Report:
    """The table."""
    lines = [
        [
            part.engine,
            f"{part.seconds:.1f} s",
            f"{part.by_hand:.1f} s",
            f"{part.ratio:.2f}",
            str(part.statements),
            f"{part.budgeted:.1f} s",
            str(part.estimated),
            verdict(holds=part.holds),
        ]
        for part in profiles
    ]
    section = Section(
        "A full profile",
        f"{ROWS:,} flights, 20 columns: at most {MOST} times the same figures by hand, and {MOST_STATEMENTS}"
        " statements besides those for the most frequent values. The texts: benchmarks/profile_by_hand.py. "
        f"Within its budget: as the server ships ({BUDGET:g} s, and a tenth for what surrounds it), nothing missing.",
        ["engine", "dualsql", "by hand", "ratio", "statements", "within its budget", "columns estimated", ""],
        lines,
    )
    return Report("profile", "Profiles", [section], profiles, all(part.holds for part in profiles))


async def _within_budget(url: str, engine: str, rounds: int) -> tuple[float, int]:
    """Median seconds of a profile within the budget of the settings, and how many columns have estimates."""
    times, estimated = [], 0
    async with DualResponseServer(
        url,
        base_url="http://127.0.0.1:8000/resources",
        tables=metadata,
        settings=Settings(query_timeout=_PATIENCE),
    ) as dual:
        response = await dual.create_response(select(flights), name="Flights")
        for _ in range(rounds):
            start = perf_counter()
            profile = await dual.profiles.profile(response.resource_id, None, kind="full")
            times.append(perf_counter() - start)
            assert not any(column["missing"] for column in profile["columns"])
            estimated = sum("estimated" in column for column in profile["columns"])
    return median_of(f"{engine}, within the budget: s", times), estimated


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    start = perf_counter()
    await work()
    return perf_counter() - start


async def _counted(dual: DualResponseServer, work: Callable[[], Awaitable[object]]) -> int:
    """Statements about the flights that do not count the values of one column."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        statements.append(sql)

    engine = dual.parts.sources["default"].engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        await work()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return len([sql for sql in statements if "flights" in sql and "counted_values" not in sql])


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
