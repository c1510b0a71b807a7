"""`sort=` puts rows in the database's own order, whatever their type, wherever rows are sorted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, select, text
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer, PageRequest
from dualsql_client import DualResponseClient, ParsedDualResponse
from tests.engines import opened

# SQLAlchemy's own MONEY makes SQLAlchemy warn.
pytestmark = pytest.mark.filterwarnings("ignore:Type object:sqlalchemy.exc.SADeprecationWarning")

BASE = "http://127.0.0.1:8000/resources"

# As text, each of these stands in another order.
VALUES: dict[str, tuple[Any, list[str]]] = {
    "address": (pg.INET(), ["10.0.0.1", "9.0.0.1", "10.0.0.1/8", "::1", "9.0.0.1"]),
    "network": (pg.CIDR(), ["10.0.0.0/8", "9.0.0.0/8", "10.0.0.0/24"]),
    "card": (pg.MACADDR(), ["08:00:2b:01:02:03", "07:ff:2b:01:02:03"]),
    "wide_card": (pg.MACADDR8(), ["08:00:2b:01:02:03:04:05", "07:00:2b:01:02:03:04:05"]),
    "price": (pg.MONEY(), ["2", "10", "-5", "2"]),
    "whole": (pg.INT4RANGE(), ["[10,20)", "[9,20)", "empty", "[9,10)", "(,3)"]),
    "exact": (pg.NUMRANGE(), ["[1.0,2]", "[1.00,2]", "[10,11]", "[9,10]", "[1.0,2]"]),
    "several": (pg.INT4MULTIRANGE(), ["{[10,12)}", "{[9,10)}", "{}"]),
    "document": (pg.JSONB(), ["10", "9", "1.0", "1.00", '"a"', "[]", "null", '{"a": 1}']),
    "bits": (pg.BIT(varying=True), ["101", "11", "0", "", "1010"]),
    "words": (pg.TSVECTOR(), ["b", "a b", "c"]),
    "asked": (pg.TSQUERY(), ["b", "a & b", "c"]),
    "number": (pg.OID(), ["10", "9", "4294967295"]),
    "relation": (pg.REGCLASS(), ["pg_type", "pg_class", "pg_proc"]),
    "name": (pg.CITEXT(), ["a", "B", "A", "b"]),
}
metadata = MetaData()
kinds = Table(
    "kinds",
    metadata,
    Column("id", Integer, primary_key=True),
    *(Column(name, type_) for name, (type_, _) in VALUES.items()),
)


@pytest.fixture(scope="module")
async def filled(postgresql_server: Any, anyio_backend: str) -> AsyncIterator[AsyncEngine]:
    with postgresql_server.database() as url:
        async with opened(url) as engine:
            async with engine.begin() as connection:
                await connection.execute(text("CREATE EXTENSION IF NOT EXISTS citext"))
                await connection.run_sync(metadata.create_all)
                for column, (type_, listed) in VALUES.items():
                    sql_type = type_.compile(dialect=engine.dialect)
                    for written in listed:
                        await connection.execute(
                            text(
                                f"INSERT INTO kinds (id, {column}) SELECT coalesce(max(id), 0) + 1,"
                                f" CAST(CAST(:written AS text) AS {sql_type}) FROM kinds"
                            ),
                            {"written": written},
                        )
            yield engine


@pytest.fixture(scope="module")
async def dual(filled: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    async with DualResponseServer(filled, base_url=BASE, tables=metadata) as server:
        yield server


@pytest.fixture
async def result(
    dual: DualResponseServer, request: pytest.FixtureRequest
) -> AsyncIterator[ParsedDualResponse]:
    """The rows of one column that are no NULL, and one that is."""
    column = kinds.c[request.param]
    least = select(kinds.c.id).where(column.is_(None)).order_by(kinds.c.id).limit(1).scalar_subquery()
    shown = select(kinds.c.id, column.label("v")).where(column.is_not(None) | (kinds.c.id == least))
    response = await dual.create_response(shown, name="one kind")
    app = Starlette(routes=[Mount("/resources", dual.router())])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        actual = DualResponseClient(BASE, http=http).parse(response.to_mcp_tool_result(), strict=True)
        assert actual is not None
        yield actual


def ids_of(rows: Any) -> list[Any]:
    return [row["id"] for row in rows]


@pytest.mark.quick(1)
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("result", VALUES, indirect=True, ids=list(VALUES))
async def test_sorted_as_the_database_sorts(
    result: ParsedDualResponse, filled: AsyncEngine, order: str, request: pytest.FixtureRequest
) -> None:
    column = request.node.callspec.params["result"]
    sort: Any = {"field": "v", "order": order}
    rank = f"dense_rank() OVER (ORDER BY {column} {order} NULLS LAST)"
    async with filled.connect() as connection:
        listed = await connection.execute(text(f"SELECT id, {rank} FROM kinds"))
        ranks = {row[0]: row[1] for row in listed}
    streamed = ids_of(await result.fetch_all(sort=sort))
    assert [ranks[number] for number in streamed] == sorted(ranks[number] for number in streamed)
    assert ids_of((await result.fetch(sort=sort)).data) == streamed
    page = await result.fetch(limit=1, sort=sort)
    paged = ids_of(page.data)
    while page.next_cursor and len(paged) < 20:
        page = await result.fetch(limit=1, sort=sort, cursor=page.next_cursor)
        paged += ids_of(page.data)
    assert paged == streamed
    order_by: Any = [{"column": "v", "order": order}]
    answered = await result.query(order_by=order_by)
    assert [ranks[number] for number in ids_of(answered.data)] == [ranks[number] for number in streamed]
    refined = await result.refine(name="in order", order_by=order_by)
    kept = ids_of(await refined.fetch_all())
    assert [ranks[number] for number in kept] == [ranks[number] for number in streamed]


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", VALUES)
async def test_distinct_values_are_those_of_the_database(
    name: str, dual: DualResponseServer, filled: AsyncEngine
) -> None:
    """Equal values may have several texts, of which DISTINCT keeps one: 1.0 and 1.00 in documents and ranges."""
    column, few = kinds.c[name], kinds.alias("few")
    # A page ends between rows of one value.
    several = select(column, few.c.id).join(few, few.c.id < 4).distinct().order_by(column.desc())
    for statement in (select(column).distinct(), several):
        async with filled.connect() as connection:
            count = len((await connection.execute(statement)).all())
        response = await dual.create_response(statement, name="distinct")
        for limit in (1, 3, 100):
            page = await dual.read_page(response.resource_id, None, PageRequest(limit=limit))
            rows = list(page.rows)
            while page.next_cursor:
                following = PageRequest(limit=limit, cursor=page.next_cursor)
                page = await dual.read_page(response.resource_id, None, following)
                rows += page.rows
            assert len(rows) == count
            while page.previous_cursor:
                before = PageRequest(limit=limit, cursor=page.previous_cursor)
                page = await dual.read_page(response.resource_id, None, before)
            assert page.offset == 0
