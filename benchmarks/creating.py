"""create_response against its two bare queries. By hand means as a good developer would write it.

By hand: the query with a LIMIT and a count of the query without its ORDER BY, one after the other on one
pooled connection, rows fetched and nothing else done. create_response freezes, thaws, orders, runs both,
describes and encodes the rows, signs and stores the resource. A result that the sample shows whole needs no count:
there, create_response may send one statement to the database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Engine, event, func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.flights import airlines, flights, metadata, planes
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import medians
from dualsql import DualResponseServer, MemoryStore, ResourceStore, SQLResourceStore
from dualsql.freeze.document import AnySelect
from dualsql.store import upgrade

SAMPLE_SIZE = 15
SECRET = "a secret of a benchmark, kept by nobody"

RATIO = 1.15
ALLOWANCE = 0.003
"""The floor: at most RATIO times the queries by hand, plus this many seconds."""

QUERIES: dict[str, AnySelect] = {
    "every flight": select(flights),
    "filter: a carrier": select(flights).where(flights.c.carrier == "UA"),
    "filter: a route in July": select(flights).where(flights.c.dest == "SFO", flights.c.month == 7),
    "join: wide-bodies": (
        select(flights.c.id, flights.c.time_hour, flights.c.dest, airlines.c.name, planes.c.model)
        .join_from(flights, airlines, flights.c.carrier == airlines.c.carrier)
        .join(planes, flights.c.tailnum == planes.c.tailnum)
        .where(planes.c.seats > 300)
    ),
    "aggregate: mean delays": (
        select(
            flights.c.carrier,
            flights.c.month,
            func.count().label("flights"),
            func.avg(flights.c.dep_delay).label("mean_delay"),
        ).group_by(flights.c.carrier, flights.c.month)
    ),
    "sort: latest arrivals": (
        select(flights).where(flights.c.origin == "JFK").order_by(flights.c.arr_delay.desc(), flights.c.id)
    ),
    "small: every airline": select(airlines).order_by(airlines.c.carrier),
    "all fits: half of the airlines": (
        select(airlines).where(airlines.c.carrier < "M").order_by(airlines.c.carrier)
    ),
}


@dataclass(frozen=True)
class Creation:
    """How one query fared: seconds by hand and through create_response, which sent so many statements."""

    query: str
    store: str
    rows: int
    statements: int
    by_hand: float
    create_response: float

    @property
    def ratio(self) -> float:
        return self.create_response / self.by_hand

    @property
    def allowed(self) -> float:
        return self.by_hand * RATIO + ALLOWANCE

    @property
    def holds(self) -> bool:
        is_one = self.statements == 1 or self.rows > SAMPLE_SIZE
        return self.create_response <= self.allowed and is_one


async def measure(database: Path) -> list[Creation]:
    """Every query in MemoryStore, the default, and in a SQLResourceStore on a file of its own."""
    with TemporaryDirectory() as folder:
        return [
            creation
            for store_name, store in _stores(Path(folder))
            for creation in await _with_store(database, store_name, store)
        ]


def _stores(folder: Path) -> Iterator[tuple[str, ResourceStore]]:
    yield "memory", MemoryStore()
    url = f"sqlite:///{folder}/resources.sqlite"
    upgrade(url)
    yield "sqlite", SQLResourceStore(url)


async def _with_store(database: Path, store_name: str, store: ResourceStore) -> list[Creation]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
    server = DualResponseServer(
        f"sqlite:///{database}",
        base_url="http://127.0.0.1:1/resources",
        tables=metadata,
        store=store,
        secrets=[SECRET],
    )
    async with server:
        creations = [
            await _compare(engine, server, store_name, name, query) for name, query in QUERIES.items()
        ]
    await engine.dispose()
    return creations


async def _compare(
    engine: AsyncEngine, server: DualResponseServer, store_name: str, name: str, query: AnySelect
) -> Creation:
    async def create() -> None:
        await server.create_response(query, name=name, sample_size=SAMPLE_SIZE, count="exact")

    total = await _by_hand(engine, query)
    statements = await _statements(create)
    times = await medians(
        {"by hand": lambda: _by_hand(engine, query), "dualsql": create}, f"{name}, {store_name}"
    )
    return Creation(name, store_name, total, statements, times["by hand"], times["dualsql"])


async def _statements(create: Callable[[], Awaitable[None]]) -> int:
    """How many statements about rows of the flights' database are sent meanwhile."""
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        if "dualsql_resources" not in arguments[2]:  # of the store
            statements.append(arguments[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        await create()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        # SQLAlchemy leaves it set. The server would then read no statement on the event loop, as if listened to.
        Engine._has_events = False
    return len(statements)


async def _by_hand(engine: AsyncEngine, query: AnySelect) -> int:
    async with engine.connect() as connection:
        (await connection.execute(query.limit(SAMPLE_SIZE))).all()
        count = select(func.count()).select_from(query.order_by(None).subquery())
        return (await connection.execute(count)).scalar_one()


def report(creations: Sequence[Creation]) -> Report:
    """Every query beside its floor."""
    section = Section(
        "create_response against its two queries by hand, in milliseconds",
        f"Sample of {SAMPLE_SIZE} rows and exact count. By hand: both queries through SQLAlchemy, one after "
        f"the other, nothing else. Floor: {RATIO} x by hand + {ALLOWANCE * 1000:g} ms; one statement where all rows "
        "are in the sample.",
        ("query", "store", "rows", "statements", "by hand", "dualsql", "ratio", "floor"),
        [_line(creation) for creation in creations],
    )
    holds = all(creation.holds for creation in creations)
    return Report("create", "What create_response costs", [section], creations, holds)


def _line(creation: Creation) -> Sequence[str]:
    return (
        creation.query,
        creation.store,
        f"{creation.rows:,}",
        str(creation.statements),
        f"{creation.by_hand * 1000:.1f}",
        f"{creation.create_response * 1000:.1f}",
        f"{creation.ratio:.2f}",
        verdict(holds=creation.holds),
    )
