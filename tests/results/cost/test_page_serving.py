"""What a worker keeps between two requests, and what it never does: whose rows they were."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select, true
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, PageRequest, ResourceNotFoundError, SQLResourceStore
from dualsql.databases.driver import WeighedCache
from dualsql.resource import Principal, Resource
from dualsql.results.access import seal_for, sign
from dualsql.results.kept_rows import view_of
from dualsql.results.view import Derived
from dualsql.tenancy import Hook, Mask, RowFilter, Shared, TenantFilter
from dualsql_client.wire import SortKey
from tests import engines
from tests.server.conftest import BASE_URL
from tests.server.test_safety import SECRET
from tests.servers import create_server

METADATA = MetaData()
notes = Table(
    "notes",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(10), nullable=False),
    Column("body", String(20), nullable=False),
)
ROWS = [{"id": n, "tenant": ("acme", "zeta")[n % 2], "body": f"note {n}"} for n in range(1, 41)]
ACME, ZETA, ROOT = (Principal(id=name, tenant=name) for name in ("acme", "zeta", "root"))
ALL = select(notes)
SORTS: list[list[SortKey]] = [[], [{"field": "body"}], [{"field": "id", "order": "desc"}]]


def view_for(who: Principal) -> Any:
    """The administrator sees all of it: a rule of another shape, not of another value."""
    return true() if who == ROOT else notes.c.tenant == who.tenant


def hidden(mask: str) -> Hook:
    return Mask(notes.c.body, how="redact", unless=lambda who: who.id != mask)


async def fill(engine: AsyncEngine) -> AsyncEngine:
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(notes), ROWS)
    return engine


@pytest.fixture
async def filled(engine: AsyncEngine) -> AsyncEngine:
    return await fill(engine)


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """The same rows in a file that is no store's."""
    (tmp_path / "apart").mkdir()
    async with engines.opened(engines.sqlite_url_in(tmp_path / "apart")) as engine:
        yield await fill(engine)


@pytest.fixture
async def narrowed(filled: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    hooks = [RowFilter(notes, view_for), hidden("zeta")]
    async with DualResponseServer(filled, base_url=BASE_URL, tables=METADATA, hooks=hooks) as server:
        yield server


def plans_of(server: DualResponseServer) -> WeighedCache[tuple[str, bytes], Derived]:
    return server.parts.views._plans


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=pytest.mark.exhaustive)])
async def test_tenants_and_an_administrator_interleaved_never_see_each_other_s_rows(
    narrowed: DualResponseServer, times: int
) -> None:
    """All read one resource, which is nobody's: only the rules tell them apart."""
    response = await narrowed.create_response(ALL, name="Notes", principal=ROOT)
    stored = await narrowed.unchecked.get(response.resource_id)
    assert stored is not None
    shared = replace(stored, owner=None, tenant=None)
    drawn = random.Random(7)

    async def read(who: Principal) -> None:
        sort = drawn.choice(SORTS)
        page = await narrowed.unchecked.read_page(
            shared, who, PageRequest(offset=drawn.randrange(15), limit=drawn.randint(1, 30), sort=sort)
        )
        tenants = {row["tenant"] for row in page.rows}
        assert who == ROOT or tenants == {who.tenant}
        assert {row["body"].startswith("note") for row in page.rows} == {who != ZETA}
        assert who != ROOT or len(page.rows) <= 20 or tenants == {"acme", "zeta"}

    for _ in range(times // 10):
        await asyncio.gather(*(read(drawn.choice([ACME, ZETA, ROOT])) for _ in range(10)))
    assert len(plans_of(narrowed)) == 1


async def test_a_document_is_thawed_once_whoever_reads_it(narrowed: DualResponseServer) -> None:
    resources = [await kept(narrowed, ALL, who) for who in (ACME, ZETA)]
    assert resources[0].document == resources[1].document
    views = [
        await view_of(narrowed.parts.views, resource, who)
        for resource, who in zip(resources, (ACME, ZETA), strict=True)
    ]
    assert views[0].shape is views[1].shape
    assert views[0].ordered() is not views[1].ordered(), "one of them has a column masked"
    colleague = await view_of(narrowed.parts.views, resources[0], Principal(id="colleague", tenant="omega"))
    assert views[0].ordered() is colleague.ordered()


async def kept(server: DualResponseServer, statement: Any, who: Principal | None = None) -> Resource:
    response = await server.create_response(statement, name="x", principal=who)
    resource = await server.unchecked.get(response.resource_id)
    assert resource is not None
    return resource


async def test_a_function_is_given_a_statement_of_its_own(filled: AsyncEngine) -> None:
    """A hook may do what it likes with what it is given; nobody else is given it."""
    given: list[Any] = []

    def narrow(statement: Any, context: Any) -> Any:
        given.append(statement)
        statement._where_criteria = (notes.c.tenant == context.principal.tenant,)  # a rude one
        return statement

    hooks: list[Hook] = [Shared(notes), narrow]
    async with DualResponseServer(filled, base_url=BASE_URL, tables=METADATA, hooks=hooks) as server:
        resource = await kept(server, ALL, ACME)
        for who in (ACME, ZETA, ACME):
            page = await server.unchecked.read_page(resource, who)
            assert {row["tenant"] for row in page.rows} == {who.tenant}
        assert len(plans_of(server)) == 0
    assert len({id(statement) for statement in given}) == len(given)


async def test_a_row_that_was_replaced_is_read_as_it_is_now(apart: AsyncEngine, store_url: str) -> None:
    store = SQLResourceStore(store_url)
    async with DualResponseServer(
        apart, base_url=BASE_URL, tables=METADATA, store=store, secrets=[SECRET]
    ) as server:
        old, other = await kept(server, select(notes.c.id)), await kept(server, select(notes.c.body))
        assert list((await server.unchecked.read_page(old, None, PageRequest(limit=1))).rows[0]) == ["id"]
        replaced = sign(seal_for(store, [SECRET]), replace(other, id=old.id, created_at=old.created_at))
        await store.delete(old.id)
        await store.save(replaced)
        resource = await server.open_resource(old.id, None, "read")
        assert list((await server.unchecked.read_page(resource, None, PageRequest(limit=1))).rows[0]) == [
            "body"
        ]


async def test_a_deletion_elsewhere_acts_at_once(apart: AsyncEngine, store_url: str) -> None:
    options: dict[str, Any] = {"base_url": BASE_URL, "tables": METADATA, "secrets": [SECRET]}
    async with (
        create_server(apart, store=SQLResourceStore(store_url), **options) as here,
        create_server(apart, store=SQLResourceStore(store_url), **options) as there,
    ):
        resource = await kept(here, ALL)
        for server in (here, there):
            await server.unchecked.read_page(await server.open_resource(resource.id, None, "read"), None)
        assert await here.unchecked.delete(resource.id)
        for server in (here, there):
            with pytest.raises(ResourceNotFoundError):
                await server.open_resource(resource.id, None, "read")


async def test_what_is_kept_is_bounded(filled: AsyncEngine) -> None:
    hooks = [TenantFilter(column="tenant", value=lambda who: who.tenant)]
    async with DualResponseServer(filled, base_url=BASE_URL, tables=METADATA, hooks=hooks) as server:
        views, source = server.parts.views, server.parts.sources["default"]
        plans: WeighedCache[tuple[str, bytes], Derived] = WeighedCache(2_000)
        views._plans = plans
        documents = [source.freeze(ALL.where(notes.c.id > n)) for n in range(30)]
        first = views.open_anew(source, documents[0], Principal(id="ann", tenant="alpha"))
        for document in documents:
            views.keep(first, document)
        assert 0 < len(plans) <= 2_000 // min(map(len, documents))
        assert plans.get(("default", documents[-1])) is first.derived
        assert plans.get(("default", documents[0])) is None, "the oldest went first"
        views._plans = WeighedCache(10)
        views.keep(first, documents[0])
        assert len(views._plans) == 0


async def test_the_forms_of_one_document_are_bounded(narrowed: DualResponseServer) -> None:
    resource = await kept(narrowed, select(*(notes.c.id.label(f"c{n}") for n in range(60))), ROOT)
    view = await view_of(narrowed.parts.views, resource, ROOT)
    for number in range(60):
        view.ordered(({"field": f"c{number}"},))
    assert len(view.derived._forms) <= 48, "SQLAlchemy's cache holds half as many more before it drops some"
