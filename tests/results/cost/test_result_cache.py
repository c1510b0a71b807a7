"""Rows that are kept for a while: the same question only, for as long and as many as the operator says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import JSON, Column, Integer, MetaData, Numeric, Table, delete, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import ConfigurationError, DualResponseServer, PageRequest, ResultCache
from dualsql.resource import Principal
from dualsql.results.row_cache import RowCache
from dualsql.tenancy import Hook, Mask, TenantFilter
from tests.results.cost.test_page_serving import ACME, METADATA, ZETA, fill, kept, notes
from tests.server.conftest import BASE_URL
from tests.servers import create_server

pytestmark = pytest.mark.quick(50, "sqlite")

LONG = ResultCache(ttl=timedelta(hours=1))
BOSS = Principal(id="boss", tenant="acme")


@pytest.fixture
async def cached(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    await fill(engine)
    hooks: list[Hook] = [
        TenantFilter(column="tenant", value=lambda who: who.tenant),
        Mask(notes.c.body, how="redact", unless=lambda who: who.id == "boss"),
    ]
    async with create_server(
        engine, base_url=BASE_URL, tables=METADATA, hooks=hooks, result_cache=LONG
    ) as server:
        yield server


async def test_a_kept_page_says_so_and_is_the_same(cached: DualResponseServer, engine: AsyncEngine) -> None:
    resource = await kept(cached, select(notes), ACME)
    first = await cached.unchecked.read_page(resource, ACME, PageRequest(limit=5))
    async with engine.begin() as connection:
        await connection.execute(delete(notes))
    again = await cached.unchecked.read_page(resource, ACME, PageRequest(limit=5))
    assert (first.cached, again.cached) == (False, True)
    assert first.rows == again.rows
    assert again.to_wire()["cached"] is True
    elsewhere = await cached.unchecked.read_page(resource, ACME, PageRequest(limit=6))
    assert (elsewhere.cached, elsewhere.rows) == (False, []), "another window is another question"


async def test_no_two_principals_share_what_they_see_differently(cached: DualResponseServer) -> None:
    resource = await kept(cached, select(notes), ACME)
    seen = {}
    for who in (ACME, ZETA, BOSS):
        for expected in (False, True):
            page = await cached.unchecked.read_page(resource, who)
            assert page.cached is expected
        seen[who.id] = page.rows
    assert {row["tenant"] for row in seen["zeta"]} == {"zeta"}
    assert {row["tenant"] for row in seen["acme"]} == {row["tenant"] for row in seen["boss"]} == {"acme"}
    assert all(row["body"].startswith("note") for row in seen["boss"])
    assert not any(row["body"].startswith("note") for row in seen["acme"])


async def test_it_is_off_unless_it_is_asked_for(engine: AsyncEngine) -> None:
    await fill(engine)
    async with DualResponseServer(engine, base_url=BASE_URL, tables=METADATA) as server:
        resource = await kept(server, select(notes))
        assert [(await server.unchecked.read_page(resource, None)).cached for _ in range(2)] == [False, False]


kinds = MetaData()
values = Table(
    "kinds", kinds, Column("id", Integer, primary_key=True), Column("price", Numeric), Column("more", JSON)
)


@pytest.fixture
async def things(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    async with engine.begin() as connection:
        await connection.run_sync(kinds.create_all)
        await connection.execute(insert(values), [{"id": 1, "price": Decimal(1), "more": {"list": [1]}}])
    async with create_server(engine, base_url=BASE_URL, tables=kinds, result_cache=LONG) as server:
        yield server


async def test_equal_values_are_not_the_same(things: DualResponseServer) -> None:
    shown = []
    for number in (Decimal("1.0"), Decimal("1.00"), Decimal("1.000")):
        resource = await kept(things, select(values.c.id, literal(number, Numeric(10, 3)).label("n")))
        page = await things.unchecked.read_page(resource, None)
        assert not page.cached
        shown.append(page.rows)
    assert len(shown) == 3


async def test_who_changes_a_page_changes_his_own(things: DualResponseServer) -> None:
    resource = await kept(things, select(values))
    for _ in range(3):
        page = await things.unchecked.read_page(resource, None)
        assert page.rows[0]["more"] == {"list": [1]}
        page.rows[0]["more"]["list"].append("mine")


def clocked(**settings: Any) -> tuple[RowCache, Callable[[float], None]]:
    now = [0.0]
    return RowCache(ResultCache(**settings), clock=lambda: now[0]), lambda seconds: now.__setitem__(
        0, seconds
    )


def test_it_ends_in_time() -> None:
    results, at = clocked(ttl=timedelta(seconds=5))
    results.keep("question", [(1,)])
    at(4.9)
    assert results.get("question") == ((1,),)
    at(5.0)
    assert results.get("question") is None
    assert results.pages.weight == 0


def test_it_is_bounded_in_bytes() -> None:
    results, _ = clocked(ttl=timedelta(seconds=5), maximum_bytes=100_000)
    for number in range(100):
        results.keep(number, [("x" * 10_000, {"deep": ["y" * 100]})])
        assert results.pages.weight <= 100_000
    assert results.get(99) is not None
    assert results.get(0) is None
    results.keep("too large", [("x" * 200_000,)])
    assert results.get("too large") is None
    for _ in range(1_000):
        results.keep("again", [("x" * 10_000,)])
    assert results.pages.weight <= 100_000


@pytest.mark.parametrize("wrong", [{"ttl": timedelta(0)}, {"maximum_bytes": 0}])
def test_a_cache_keeps_something(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ResultCache(**wrong)
    with pytest.raises(ConfigurationError):
        create_server("sqlite://", base_url=BASE_URL, tables=METADATA, result_cache=5)
