"""create_response against its two bare queries. By hand means as a good developer would write it.

By hand: the query with a LIMIT and a count of the query without its ORDER BY, one after the other on one
pooled connection, rows fetched and nothing else done. create_response freezes, thaws, orders, runs both,
describes and encodes the rows, signs and stores the resource. A result that the sample shows whole needs no count:
there, create_response may send one statement to the database.

A form is known after its first use: SQLAlchemy has compiled it, and dualsql has compared it with its document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Engine, event, func, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.flights import airlines, flights, metadata, planes
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import BUDGET, medians
from dualsql import DualResponseServer, MemoryStore, ResourceStore, SQLResourceStore
from dualsql.freeze.document import AnySelect
from dualsql.store import upgrade

SAMPLE_SIZE = 15
SECRET = "a secret of a benchmark, kept by nobody"

KNOWN, NEW = 1.2, 1.6
"""How many times as long as the queries by hand a creation may take, of a form that is known and of one that is new."""

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


_FEW = flights.c.id < 100

NEW_FORMS: Mapping[str, Callable[[str], AnySelect]] = {
    "every column": lambda name: select(flights, flights.c.dest.label(name)).where(_FEW),
    "three columns": lambda name: select(flights.c.id, flights.c.carrier, flights.c.dest.label(name)).where(
        _FEW
    ),
    "join": lambda name: (
        select(flights.c.id, flights.c.dest.label(name), airlines.c.name, planes.c.model)
        .join_from(flights, airlines, flights.c.carrier == airlines.c.carrier)
        .join(planes, flights.c.tailnum == planes.c.tailnum)
        .where(_FEW)
    ),
    "aggregate": lambda name: (
        select(flights.c.origin, flights.c.day, func.count().label(name))
        .where(_FEW)
        .group_by(flights.c.origin, flights.c.day)
    ),
    "sort": lambda name: (
        select(flights.c.id, flights.c.arr_delay, flights.c.dest.label(name))
        .where(_FEW)
        .order_by(flights.c.arr_delay.desc(), flights.c.id)
    ),
    "all fits": lambda name: select(airlines.c.carrier, airlines.c.name.label(name)).where(
        airlines.c.carrier < "M"
    ),
}
"""Statements of few rows with a column of the given name: for another name, they have another form."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Median seconds of both queries by hand and of create_response."""

    by_hand: float
    create_response: float

    @property
    def ratio(self) -> float:
        return self.create_response / self.by_hand

    def shown(self, *, holds: bool) -> Sequence[str]:
        """The figures of a line, and whether the limit holds."""
        times = f"{self.by_hand * 1000:.1f}", f"{self.create_response * 1000:.1f}"
        return (*times, f"{self.ratio:.2f}", verdict(holds=holds))


@dataclass(frozen=True)
class Creation(Cost):
    """How one query of a known form fared: create_response sent so many statements."""

    query: str
    store: str
    rows: int
    statements: int

    @property
    def holds(self) -> bool:
        is_one = self.statements == 1 or self.rows > SAMPLE_SIZE
        return self.ratio <= KNOWN and is_one


@dataclass(frozen=True)
class SmallForm(Cost):
    """How statements of one kind of `NEW_FORMS` fared: each is new to SQLAlchemy and to dualsql, or all are one."""

    query: str
    engine: str
    is_new: bool

    @property
    def holds(self) -> bool:
        return self.ratio <= (NEW if self.is_new else KNOWN)


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
    return Creation(
        name, store_name, total, statements, by_hand=times["by hand"], create_response=times["dualsql"]
    )


async def measure_small(engine_name: str, url: str) -> list[SmallForm]:
    """Each kind of statement of `NEW_FORMS`, in MemoryStore: no two of one form, by hand neither, and all of one."""
    engine = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"))
    names, found = map("name_{}".format, count()), []
    async with DualResponseServer(url, base_url="http://127.0.0.1:1/resources", tables=metadata) as server:
        for (kind, make), is_new in product(NEW_FORMS.items(), (True, False)):

            def statement(make: Callable[[str], AnySelect] = make, is_new: bool = is_new) -> AnySelect:
                return make(next(names) if is_new else "name")

            async def by_hand(statement: Callable[[], AnySelect] = statement) -> None:
                await _by_hand(engine, statement())

            async def create(statement: Callable[[], AnySelect] = statement) -> None:
                await server.create_response(statement(), name="x", sample_size=SAMPLE_SIZE, count="exact")

            of = f"{'new' if is_new else 'known'}, {kind}, {engine_name}"
            times = await medians({"by hand": by_hand, "dualsql": create}, of, BUDGET / 4)
            cost = {"by_hand": times["by hand"], "create_response": times["dualsql"]}
            found.append(SmallForm(kind, engine_name, is_new, **cost))
    await engine.dispose()
    return found


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


def report(known: Sequence[Creation], small: Sequence[SmallForm]) -> Report:
    """Every query beside its limit."""
    sections = [
        Section(
            "create_response against its two queries by hand, in milliseconds",
            f"Forms that are known. Sample of {SAMPLE_SIZE} rows and exact count. By hand: both queries through "
            f"SQLAlchemy, one after the other, nothing else. Limit: {KNOWN} x by hand; one statement where all rows "
            "are in the sample.",
            ("query", "store", "rows", "statements", "by hand", "dualsql", "ratio", "limit"),
            [
                (
                    each.query,
                    each.store,
                    f"{each.rows:,}",
                    str(each.statements),
                    *each.shown(holds=each.holds),
                )
                for each in known
            ],
        ),
        Section(
            "Small statements, in milliseconds",
            f"As above, with resources in memory. Where the form is new, each statement names a column in another way, "
            f"by hand too; limit: {NEW} x by hand. Where it is known: {KNOWN} x.",
            ("query", "database", "form", "by hand", "dualsql", "ratio", "limit"),
            [
                (each.query, each.engine, "new" if each.is_new else "known", *each.shown(holds=each.holds))
                for each in small
            ],
        ),
    ]
    figures: list[Creation | SmallForm] = [*known, *small]
    holds = all(each.holds for each in figures)
    return Report("create", "What create_response costs", sections, figures, holds)
