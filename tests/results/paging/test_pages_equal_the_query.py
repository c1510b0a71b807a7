"""The one test that covers paging: whatever the statement, engine, order and size, pages joined equal the query."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import aliased

from dualsql import DualResponseServer, PageRequest, Resource
from dualsql.formats.json import dumps
from dualsql_client.wire import SortKey
from tests.engines import ENGINES
from tests.quick import case_of
from tests.schools import School
from tests.statements import POSTGRESQL_ONLY, STATEMENTS, TEXT

pytestmark = pytest.mark.quick(50, "sqlite")

ALL = {**STATEMENTS, **TEXT, **POSTGRESQL_ONLY}
SIZES = (1, 3, 7, 11, 1000)
# Which rows these keep is up to the database, until dualsql gives them an order.
UNSETTLED = {"limit without order", "union all, limited", "author's own limit", "distinct on"}
CASES = [
    (engine, name)
    for engine in ENGINES
    for name in ALL
    if engine == "postgresql" or name not in POSTGRESQL_ONLY
]
SETTLED = [(engine, name) for engine, name in CASES if name not in UNSETTLED]

on_every_engine = pytest.mark.parametrize("engine", ENGINES, indirect=True)


def of(cases: list[tuple[str, str]], *, every: int = 2) -> pytest.MarkDecorator:
    """The cases, one in so many of them in the quick run: the statements of one engine are not the other's."""
    turn = {name: number for number, name in enumerate(ALL)}
    marked = [case_of(case, is_long=(turn[case[1]] + ENGINES.index(case[0])) % every != 0) for case in cases]
    return pytest.mark.parametrize(("engine", "name"), marked, indirect=["engine"])


async def joined(
    dual: DualResponseServer, resource: Resource, size: int, sort: Sequence[SortKey] = ()
) -> list[bytes]:
    """Every row, page by page, as JSON."""
    rows: list[bytes] = []
    while True:
        page = await dual.unchecked.read_page(
            resource, None, PageRequest(offset=len(rows), limit=size, sort=sort)
        )
        assert len(page.rows) <= size
        rows += map(dumps, page.rows)
        if not page.has_next:
            return rows
        assert len(page.rows) == size, "a page with a next one is full"


async def unpaged(engine: AsyncEngine, statement: Any) -> list[tuple[Any, ...]]:
    async with engine.connect() as connection:
        return [tuple(row) for row in await connection.execute(statement)]


@pytest.mark.quick(1, "sqlite")
@of(CASES)
async def test_in_the_query_s_own_order(dual: DualResponseServer, engine: AsyncEngine, name: str) -> None:
    response = await dual.create_response(ALL[name], name=name)
    resource = await dual.open_resource(response.resource_id, None, "read")
    whole = await joined(dual, resource, 1000)
    assert len(whole) == len(await unpaged(engine, ALL[name])) == response.total_count
    for size in SIZES:
        assert await joined(dual, resource, size) == whole


@pytest.mark.quick(1, "sqlite")
@of(CASES, every=3)
async def test_sorted_by_every_column_both_ways(dual: DualResponseServer, name: str) -> None:
    response = await dual.create_response(ALL[name], name=name)
    resource = await dual.open_resource(response.resource_id, None, "read")
    whole = Counter(await joined(dual, resource, 1000))
    for column in response.columns:
        for order in ("asc", "desc"):
            sort: list[SortKey] = [{"field": column["name"], "order": order}]
            sorted_whole = await joined(dual, resource, 1000, sort)
            assert Counter(sorted_whole) == whole
            assert await joined(dual, resource, 7, sort) == sorted_whole


@pytest.mark.quick(2, "sqlite")
@of(SETTLED)
async def test_the_values_are_the_query_s(dual: DualResponseServer, engine: AsyncEngine, name: str) -> None:
    response = await dual.create_response(ALL[name], name=name)
    resource = await dual.open_resource(response.resource_id, None, "read")
    page = await dual.unchecked.read_page(resource, None, PageRequest(limit=1000))
    expected = Counter(map(repr, map(_plain, await unpaged(engine, ALL[name]))))
    assert Counter(repr(_plain(tuple(row.values()))) for row in page.rows) == expected


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(getattr(value, "name", value) for value in row)


@on_every_engine
async def test_nulls_come_last_in_both_directions(dual: DualResponseServer) -> None:
    response = await dual.create_response(STATEMENTS["entity"], name="schools")
    resource = await dual.open_resource(response.resource_id, None, "read")
    for order in ("asc", "desc"):
        page = await dual.unchecked.read_page(
            resource, None, PageRequest(limit=1000, sort=[{"field": "enrollment", "order": order}])
        )
        values = [row["enrollment"] for row in page.rows]
        known = [value for value in values if value is not None]
        assert values == known + [None] * values.count(None)
        assert known == sorted(known, reverse=order == "desc")


@on_every_engine
async def test_the_author_s_order_settles_ties_of_a_requested_one(dual: DualResponseServer) -> None:
    response = await dual.create_response(select(School).order_by(School.name.desc()), name="schools")
    resource = await dual.open_resource(response.resource_id, None, "read")
    page = await dual.unchecked.read_page(
        resource, None, PageRequest(limit=1000, sort=[{"field": "is_open"}])
    )
    names = [row["name"] for row in page.rows if row["is_open"]]
    assert names == sorted(names, reverse=True)


@on_every_engine
async def test_random_windows_are_slices_of_the_whole(dual: DualResponseServer) -> None:
    pick = random.Random(7)
    for name in ("ordered with ties", "author's own limit", "union all, limited", "table without a key"):
        response = await dual.create_response(ALL[name], name=name)
        resource = await dual.open_resource(response.resource_id, None, "read")
        whole = await joined(dual, resource, 1000)
        for _ in range(20):
            offset, limit = pick.randrange(len(whole) + 3), pick.randrange(1, 12)
            page = await dual.unchecked.read_page(resource, None, PageRequest(offset=offset, limit=limit))
            assert list(map(dumps, page.rows)) == whole[offset : offset + limit]
            assert page.has_next is (offset + limit < len(whole))


@on_every_engine
async def test_a_union_of_full_joins_keeps_the_conditions_of_its_parts(
    dual: DualResponseServer, engine: AsyncEngine
) -> None:
    """SQLite 3.40.1 loses them where the union is a subquery."""
    other = aliased(School)
    part = (
        select(School.state)
        .select_from(School)
        .join(other, School.state == other.state, full=True)
        .where(School.id <= 0)
    )
    for statement in (union_all(part, part), union_all(select(School.state), part)):
        response = await dual.create_response(statement, name="states")
        resource = await dual.open_resource(response.resource_id, None, "read")
        expected = await unpaged(engine, statement)
        assert len(await joined(dual, resource, 1000)) == response.total_count == len(expected)
