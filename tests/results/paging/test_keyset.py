"""Pages cut beside the place of a row: joined in either direction, whatever the size, they are the result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql import plan
from dualsql.capabilities import capabilities_of
from dualsql.errors import BadParameterError
from dualsql.freeze import Seal
from dualsql.plan import KeyedSelect, KeysetPosition, Ordered
from dualsql.results.pages import Cursor, Cursors
from dualsql.results.view import CursorScope
from dualsql_client.wire import SortKey
from tests.engines import SOURCES
from tests.results.paging.sorts import NULLS, SORTS
from tests.schools import School
from tests.statements import POSTGRESQL_ONLY, STATEMENTS, TEXT

ALL = {**STATEMENTS, **TEXT, **SORTS, **NULLS, **POSTGRESQL_ONLY}
# Ranks among equals fall as the database likes; "a window, by its rank" has none.
del ALL["window"]
# MariaDB's collations take 'NJ' and 'nj' as one group, and it shows now this name of it, now that.
NOT_ON_MARIADB = {*NULLS, "common table expression"}
CASES = [
    (engine, name)
    for engine in SOURCES
    for name in ALL
    if (engine == "postgresql" or name not in POSTGRESQL_ONLY)
    and (engine != "mariadb" or name not in NOT_ON_MARIADB)
]
CURSORS = Cursors(Seal(["a secret of at least thirty-two characters"]))

# What the other engines do with the rest is for the long run.
QUICK = [
    case
    for engine, step in (("sqlite", 3), ("postgresql", 8))
    for case in [case for case in CASES if case[0] == engine][::step]
]

of_every_case = pytest.mark.parametrize(("engine", "name"), CASES, indirect=["engine"])


@pytest.fixture
async def connection(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    async with engine.connect() as connection:
        yield connection


def ordered(connection: AsyncConnection, name: str, sort: Sequence[SortKey] = ()) -> Ordered:
    capabilities = capabilities_of(connection.dialect)
    return plan.ordered(plan.shape(ALL[name]), capabilities, sort=sort)


async def fetched(
    connection: AsyncConnection, select: Any, values: Mapping[str, int] | None = None
) -> list[Any]:
    return list(await connection.execute(select, values))


def shown(rows: Ordered, found: Sequence[Any]) -> list[str]:
    """Rows as text, in which NaN equals itself and 0.0 is not -0.0."""
    return [repr(tuple(row)[: len(rows.shape.columns)]) for row in found]


def values_of(select: KeyedSelect, found: Sequence[Any]) -> list[tuple[Any, ...]]:
    values = [select.values_of(row) for row in found]
    assert None not in values
    return [value for value in values if value is not None]


def through_a_reader(place: KeysetPosition | None, rows: Ordered) -> KeysetPosition:
    """The place as it comes back from whoever was given a cursor."""
    assert place is not None
    scope = CursorScope("r", None, None, rows.order.fingerprint)
    cursor = CURSORS.write(Cursor(place, 0), scope)
    assert cursor is not None
    return CURSORS.read(cursor, scope).position


async def joined(
    connection: AsyncConnection, rows: Ordered, size: int, start: KeysetPosition | None = None
) -> list[Any]:
    """All rows from `start` on, page by page, each turned back from once."""
    first = plan.windowed(rows.keyed_window, rows, 0, size)
    select = plan.page_beside(rows, start, limit=size) if start else first
    gathered: list[Any] = []
    while actual := await fetched(connection, select.select, select.values):
        gathered += actual
        values = values_of(select, actual)
        await require_way_back(connection, rows, shown(rows, gathered), values, start)
        start = through_a_reader(plan.position_ahead(values, start, is_begun=True), rows)
        select = plan.page_beside(rows, start, limit=size)
    return gathered


async def require_way_back(
    connection: AsyncConnection, rows: Ordered, seen: list[str], page: list[Any], start: KeysetPosition | None
) -> None:
    """Turning round before the page shows the rows that were before it, as far as they were seen."""
    behind = through_a_reader(plan.position_behind(page, start, is_begun=True), rows)
    actual = await fetched(connection, plan.page_beside(rows, behind, limit=len(page)).select)
    before = seen[: len(seen) - len(page)][::-1][: len(page)]
    assert shown(rows, actual)[: len(before)] == before


async def require_joined(connection: AsyncConnection, rows: Ordered, sizes: Sequence[int]) -> None:
    whole = shown(rows, await fetched(connection, plan.page(rows, offset=0, limit=None)))
    for size in sizes:
        forward = await joined(connection, rows, size)
        assert shown(rows, forward) == whole, size
        backward = await joined(connection, rows, size, await the_end(connection, rows))
        assert shown(rows, backward)[::-1] == whole, size


async def the_end(connection: AsyncConnection, rows: Ordered) -> KeysetPosition | None:
    """The gap after the last row, to be read backward from."""
    select = plan.windowed(rows.keyed_window, rows, 0, 1_000_000)
    values = values_of(select, await fetched(connection, select.select, select.values))
    last = plan.position_ahead(values, None, is_begun=True) if values else None
    return last and last.reversed()


@pytest.mark.quick(2)
@pytest.mark.parametrize(("engine", "name"), QUICK, indirect=["engine"])
async def test_pages_joined_are_the_result(connection: AsyncConnection, name: str) -> None:
    await require_joined(connection, ordered(connection, name), [5])


# Each column has the name of a label that may be made up for a key.
NAMES = [f"{stem}_{number}" for stem in ("id", "rating", "key", "key__1") for number in range(1, 5)]
NAMED = select(School.rating, *(School.enrollment.label(name) for name in NAMES)).order_by(
    School.rating.desc()
)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
async def test_keys_have_names_that_no_column_has(connection: AsyncConnection) -> None:
    capabilities = capabilities_of(connection.dialect)
    await require_joined(connection, plan.ordered(plan.shape(NAMED), capabilities), [5])


@pytest.mark.long
@of_every_case
async def test_at_every_size(connection: AsyncConnection, name: str) -> None:
    await require_joined(connection, ordered(connection, name), range(1, 12))


@pytest.mark.long
@of_every_case
async def test_sorted_by_every_column(connection: AsyncConnection, name: str) -> None:
    for column in plan.shape(ALL[name]).columns:
        for order in ("asc", "desc"):
            sort: list[SortKey] = [{"field": column.name, "order": order}]
            if column.name == "mirrored":  # an own type that does not sort as it is shown
                with pytest.raises(BadParameterError, match="values in another form"):
                    ordered(connection, name, sort)
                continue
            rows = ordered(connection, name, sort)
            # Of a column whose type SQLAlchemy does not know, PostgreSQL alone knows the order: pages go by offset.
            if rows.order.obstacle:
                assert connection.dialect.name == "postgresql"
                assert any("dualsql_ordered" in str(key.expression) for key in rows.order.keys)
                continue
            await require_joined(connection, rows, [1, 5])
