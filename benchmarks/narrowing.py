"""A narrowed statement against the same one with tenant conditions by hand. Both must give the same rows.

What is compared is the database's work: both texts go to the driver itself, prepared, their values bound, in turns.
What dualsql does in Python before (the same for every statement) is measured apart, with SQLAlchemy in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from sqlalchemy import event, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlglot.errors import ParseError

from benchmarks.by_hand import TENANT, ByHand
from benchmarks.timing import fastest, medians
from dualsql import QueryTimeoutError, plan
from dualsql.databases.fetch import Fetch
from dualsql.databases.session import read_only
from dualsql.databases.source import open_source
from dualsql.freeze.document import Statement
from dualsql.tenancy import Policy
from tests import engines
from tests.tenancy.tenants.databases import EVERYBODY, fill, principal_of
from tests.tenancy.tenants.rules import HOOKS
from tests.tenancy.tenants.shapes import PORTABLE, POSTGRESQL_ONLY
from tests.tenancy.tenants.sites import REGISTRY
from tests.tenancy.tenants.tpch import customer
from tests.tenancy.tenants.tpch_rows import TENANTS

CUSTOMERS = 4_000
"""Of the largest tenant: 300,000 lines of orders in all, TPC-H's scale 0.05."""

PEOPLE = 480
MANY_ROWS = 5_000
"""Of more than that the rows are counted and not fetched, as a response's first answer does."""

PATIENCE = timedelta(seconds=5)
TENANT_MEASURED = TENANTS[1]  # a quarter of all rows
MEDIAN, NINETIETH = 1.08, 1.15
"""The floors of the ratio over all statements of an engine."""

OWNED = frozenset(
    str(getattr(table, "name", ""))
    for table in REGISTRY.tables.values()
    if any(getattr(column, "name", None) == TENANT for column in table.c)
)
POLICY = Policy(REGISTRY, HOOKS)

Values = Sequence[Any]
Query = Callable[[], Awaitable[list[Any]]]


@dataclass(frozen=True)
class Cost:
    """Seconds one statement takes, and what it could not be compared for."""

    engine: str
    statement: str
    rows: int = 0
    by_hand: float = 0.0
    narrowed: float = 0.0
    problem: str = ""

    @property
    def ratio(self) -> float:
        return self.narrowed / self.by_hand


def summary(costs: Sequence[Cost]) -> tuple[float, float]:
    """Median and 90th percentile of the ratios."""
    ratios = [cost.ratio for cost in costs if not cost.problem]
    return median(ratios), quantiles(ratios, n=10)[-1]


async def measure(folder: Path, report: Callable[[Cost], object]) -> list[Cost]:
    """Every statement on both engines."""
    costs = []
    for name, database in (("sqlite", _sqlite(folder)), ("postgresql", _postgresql())):
        statements = {**PORTABLE, **(POSTGRESQL_ONLY if name == "postgresql" else {})}
        async with database as engine:
            for title, statement in statements.items():
                costs.append(await _compare(engine, title, statement))
                report(costs[-1])
    return costs


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[AsyncEngine]:
    path = folder / f"tenants-{CUSTOMERS}.sqlite"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        async with engines.opened(f"sqlite+aiosqlite:///{unfinished}") as engine:
            await _fill(engine)
        unfinished.rename(path)
    async with engines.opened(f"sqlite+aiosqlite:///{path}") as engine:
        yield engine


@asynccontextmanager
async def _postgresql() -> AsyncIterator[AsyncEngine]:
    with engines.postgresql_server() as server, server.database() as url:
        async with engines.opened(url) as engine:
            await _fill(engine)
            yield engine


async def _fill(engine: AsyncEngine) -> None:
    await fill(engine, EVERYBODY, customers=CUSTOMERS, people=PEOPLE)
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.exec_driver_sql("VACUUM")
        await connection.exec_driver_sql("ANALYZE")


async def _compare(engine: AsyncEngine, title: str, statement: Statement) -> Cost:
    dialect = engine.dialect.name
    source = open_source("x", engine, REGISTRY)
    rules = POLICY.rules_for(principal_of(TENANT_MEASURED))
    shape = plan.shape(statement)
    try:
        count, names = plan.count(shape), ("",)
        fetch = Fetch(source=source, select=lambda: count, rules=rules, described=names, timeout=PATIENCE)
        ((rows,),) = await fetch.rows()
    except QueryTimeoutError:
        return Cost(dialect, title, problem="takes too long to be repeated, in whatever form")
    query: Any = statement if rows <= MANY_ROWS else plan.count(shape)
    async with read_only(source, rules) as connection:
        narrowed = await _sent(connection, query, rules.values)
    async with engine.connect() as connection:
        plain, values = await _sent(connection, query, {})
        placeholder = f"${len(values) + 1}" if dialect == "postgresql" else f":p{len(values) + 1}"
        try:
            by_hand = ByHand(OWNED, placeholder, dialect).filtered(plain)
        except ParseError:
            return Cost(dialect, title, problem="not read by the parser")
        if placeholder not in by_hand:
            return Cost(dialect, title, problem="reads no tenant's table")
        raw = (await connection.get_raw_connection()).driver_connection
        queries = {
            "by hand": _query(raw, by_hand, _named([*values, TENANT_MEASURED.id], dialect)),
            "narrowed": _query(raw, *narrowed),
        }
        return await _timed(dialect, title, queries)


async def _timed(dialect: str, title: str, queries: dict[str, Query]) -> Cost:
    rows = {name: Counter(repr(tuple(row)) for row in await query()) for name, query in queries.items()}
    if rows["by hand"] != rows["narrowed"]:
        return Cost(dialect, title, problem="THE ROWS DIFFER")
    seconds = await fastest(queries, "", budget=0.25)
    return Cost(dialect, title, rows["narrowed"].total(), seconds["by hand"], seconds["narrowed"])


class _SeenError(Exception):
    """Ends a statement before it begins."""


async def _sent(connection: AsyncConnection, statement: Any, values: Any) -> tuple[str, Values]:
    """What SQLAlchemy would send to the database for a statement."""
    statements: list[tuple[str, Values]] = []

    def note(_connection: Any, _cursor: Any, sql: str, values: Values, *_: Any) -> None:
        statements.append((sql, values))
        raise _SeenError

    event.listen(connection.engine.sync_engine, "before_cursor_execute", note)
    try:
        with suppress(_SeenError):
            await connection.execute(statement, values)
    finally:
        event.remove(connection.engine.sync_engine, "before_cursor_execute", note)
    return statements[0]


def _named(values: Values, dialect: str) -> Any:
    """The values for a text of the parser's, whose placeholders on SQLite have names."""
    if dialect == "postgresql":
        return values
    return {f"p{number}": value for number, value in enumerate(values, 1)}


def _query(raw: Any, sql: str, values: Any) -> Query:
    """The query on the driver itself: asyncpg, or aiosqlite."""

    async def fetch() -> list[Any]:
        if hasattr(raw, "fetch"):
            return list(await raw.fetch(sql, *values))
        cursor = await raw.execute(sql, values)
        rows = list(await cursor.fetchall())
        await cursor.close()
        return rows

    return fetch


async def overhead(folder: Path) -> dict[str, float]:
    """Median seconds of one row by its key through SQLAlchemy: narrowed, and with the condition by hand."""
    by_key = select(customer).where(customer.c.c_custkey == 7)
    by_hand = by_key.where(customer.c.tenant_id == TENANT_MEASURED.id)
    async with _sqlite(folder) as engine:
        source = open_source("x", engine, REGISTRY)

        async def narrowed_row() -> object:
            rules = POLICY.rules_for(principal_of(TENANT_MEASURED))
            async with read_only(source, rules) as connection:
                return (await connection.execute(by_key, rules.values)).one()

        async def row_by_hand() -> object:
            async with read_only(source, None) as connection:
                return (await connection.execute(by_hand)).one()

        return await medians({"by hand": row_by_hand, "narrowed": narrowed_row}, "one row")
