"""Probes for another tenant's rows: random statements, tenants who take turns, documents that change hands.

Here every text of every tenant's rows ends in that tenant's canary: an answer that holds another's is a leak,
whatever else is right about it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    bindparam,
    exists,
    insert,
    select,
    true,
)

from dualsql import (
    DualResponseServer,
    ForbiddenError,
    ForbiddenSQLError,
    Principal,
    QueryTimeoutError,
    Registry,
    ResourceNotFoundError,
    TenantFilter,
)
from dualsql.formats import json
from dualsql.freeze import thaw
from dualsql.freeze.document import Statement
from tests.engines import opened
from tests.quick import one_in
from tests.tenancy.tenants.answers import Lines, answer, pages, truth
from tests.tenancy.tenants.databases import principal_of
from tests.tenancy.tenants.office import Document
from tests.tenancy.tenants.office_rows import NOBODY
from tests.tenancy.tenants.random_statements import statements
from tests.tenancy.tenants.rules import HOOKS, tenant_of
from tests.tenancy.tenants.shapes import PORTABLE
from tests.tenancy.tenants.sites import BASE_URL, ON_SQLITE, REGISTRY, Site, opened_site
from tests.tenancy.tenants.tpch import Base
from tests.tenancy.tenants.tpch_rows import TENANTS, Tenant

pytestmark = pytest.mark.quick(50, "sqlite")

SMALL = TENANTS[3]
MOST_ROWS = 20_000
CANARIES = {tenant: tenant.canary.encode() for tenant in (*TENANTS, NOBODY)}
DOCUMENTS = select(Document.id, Document.title, Document.body)


def leaked(lines: Lines, tenant: Tenant) -> list[bytes]:
    """Lines that hold the canary of anyone but the tenant."""
    others = [canary for owner, canary in CANARIES.items() if owner is not tenant]
    return [line for line in lines if any(canary in line for canary in others)]


@pytest.fixture(scope="module")
async def marked(anyio_backend: str, new_url: Callable[[], str]) -> AsyncIterator[Site]:
    """A site with a canary in every text."""
    async with opened_site(new_url, HOOKS, tenants=[SMALL], is_marked=True) as site:
        yield site


async def probe(marked: Site, statement: Statement) -> None:
    actual = await answer(marked.narrowed, statement, principal_of(SMALL))
    assert leaked([*actual.rows, *actual.sample], SMALL) == []
    assert Counter(actual.rows) == Counter(await truth(marked.own[SMALL], statement))
    assert actual.total == len(actual.rows)


async def test_the_probe_would_notice(marked: Site) -> None:
    assert leaked(await truth(marked.shared, DOCUMENTS), SMALL)


# Random statements -------------------------------------------------------------------------------------------

RANDOM = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


async def probe_random(marked: Site, statement: Statement) -> None:
    """As `probe`, of statements that are no product of whole tables: those are neither counted nor read in time."""
    principal = principal_of(SMALL)
    try:
        response = await marked.narrowed.create_response(
            statement, name="x", principal=principal, sample_size=1
        )
    except QueryTimeoutError:
        reject()
    assume(response.total_count is not None and response.total_count < MOST_ROWS)
    await probe(marked, statement)


@RANDOM
@given(statement=statements())
async def test_any_statement_reads_its_tenant_alone(marked: Site, statement: Statement) -> None:
    await probe_random(marked, statement)


@pytest.mark.long
@settings(RANDOM, max_examples=100)
@given(statement=statements())
async def test_a_hundred_statements_read_their_tenant_alone(marked: Site, statement: Statement) -> None:
    await probe_random(marked, statement)


@pytest.mark.exhaustive
@settings(RANDOM, max_examples=1_000)
@given(statement=statements())
async def test_a_thousand_statements_read_their_tenant_alone(marked: Site, statement: Statement) -> None:
    await probe_random(marked, statement)


@pytest.mark.quick(1, "sqlite")
@ON_SQLITE
@pytest.mark.parametrize("names", one_in(2, [list(PORTABLE)[start::8] for start in range(8)]), ids=range(8))
async def test_no_statement_shows_another_s_canary(marked: Site, names: list[str]) -> None:
    for name in names:
        response = await marked.narrowed.create_response(
            PORTABLE[name], name="x", principal=principal_of(SMALL), sample_size=50
        )
        assert leaked([json.dumps(row) for row in response.sample], SMALL) == [], name


# One kind of document, several tenants -----------------------------------------------------------------------

KINDS = [
    "Q13 customer distribution",
    "chain of outer joins",
    "recursive",
    "ORM: secondary",
    "NOT IN",
    "OR at the top",
]


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(2, KINDS))
async def test_tenants_read_one_kind_of_document_by_turns(site: Site, name: str) -> None:
    """The compiled statement is the same for all of them; a value kept in it would serve the next."""
    expected = {tenant: await truth(site.own[tenant], PORTABLE[name]) for tenant in TENANTS}
    for tenant in (*TENANTS, *reversed(TENANTS)):
        actual = await answer(site.narrowed, PORTABLE[name], principal_of(tenant))
        assert Counter(actual.rows) == Counter(expected[tenant])


@pytest.mark.long
async def test_tenants_read_all_kinds_at_once(site: Site) -> None:
    asked = [(name, tenant) for name in KINDS[:4] for tenant in TENANTS]

    async def rows(name: str, tenant: Tenant) -> Counter[bytes]:
        return Counter((await answer(site.narrowed, PORTABLE[name], principal_of(tenant))).rows)

    actual = await asyncio.gather(*(rows(name, tenant) for name, tenant in asked))
    for (name, tenant), lines in zip(asked, actual, strict=True):
        assert lines == Counter(await truth(site.own[tenant], PORTABLE[name])), (name, tenant.name)


async def test_a_document_that_changes_hands_reads_whoever_asks(site: Site) -> None:
    """Who made a document is nothing to it: the rules go by who reads."""
    acme, birch = TENANTS[:2]
    response = await site.narrowed.create_response(DOCUMENTS, name="x", principal=principal_of(acme))
    resource = await site.narrowed.open_resource(response.resource_id, principal_of(acme), "read")
    lines = await pages(site.narrowed, resource, principal_of(birch))
    assert Counter(lines) == Counter(await truth(site.own[birch], DOCUMENTS))
    with pytest.raises(ResourceNotFoundError):
        await site.narrowed.open_resource(response.resource_id, principal_of(birch), "read")
    with pytest.raises(ForbiddenError):
        await pages(site.narrowed, resource, None)


async def test_a_document_holds_no_value_of_its_maker_s(site: Site) -> None:
    documents: list[Any] = []
    for tenant in TENANTS[:2]:
        caller = principal_of(tenant)
        response = await site.narrowed.create_response(DOCUMENTS, name="x", principal=caller)
        resource = await site.narrowed.open_resource(response.resource_id, caller, "read")
        documents.append(resource.document)
    assert documents[0] == documents[1]
    assert str(thaw(documents[0], REGISTRY)) == str(DOCUMENTS)


class _Next(TypeDecorator[int]):
    """An application's own type that binds another number than it was given."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: object) -> int | None:
        return None if value is None else value + 1


@pytest.mark.quick(4, "sqlite")
@pytest.mark.parametrize("type_", [Integer(), String(), _Next()], ids=["integer", "text", "own"])
@pytest.mark.parametrize("name", ["dualsql_tenant_0", "dualsql_row_0_0", "dualsql_tenant_7"])
async def test_no_value_takes_the_name_of_a_rule_s(site: Site, name: str, type_: Any) -> None:
    """SQLAlchemy makes one parameter of two that share a name, and binds it as the later one's type says."""
    registry = Registry(Base, types={"next": _Next})
    own_types = DualResponseServer(site.shared, base_url=BASE_URL, tables=registry, hooks=HOOKS)
    stolen = select(Document.id, bindparam(name, 1, type_=type_).label("stolen"))
    async with own_types:
        with pytest.raises(ForbiddenSQLError, match="with the name of a rule's parameter"):
            await own_types.create_response(stolen, name="x", principal=principal_of(TENANTS[0]))


async def test_tenant_columns_of_two_types_are_bound_each_as_its_own(sqlite_url: str) -> None:
    """One parameter for both would be bound as the later one's type says, and be another tenant to the other."""
    metadata = MetaData()
    one, two = (
        Table(name, metadata, Column("id", Integer, primary_key=True), Column("tenant_id", type_))
        for name, type_ in (("one", Integer()), ("two", _Next()))
    )
    own = TenantFilter(column="tenant_id", value=tenant_of)
    beside = select(one.c.id, two.c.id.label("other")).select_from(one.join(two, true()))
    async with opened(sqlite_url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
            for table in (one, two):
                await connection.execute(insert(table), [{"id": n, "tenant_id": n} for n in (1, 2, 3)])
        async with DualResponseServer(engine, base_url=BASE_URL, tables=metadata, hooks=[own]) as server:
            for statement in (beside, select(one.c.id).where(exists().where(two.c.id > 0))):
                actual = await answer(server, statement, principal_of(TENANTS[0]))
                assert [json.loads(line)["id"] for line in actual.rows] == [1]


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize(
    "name", ["dualsql.tenant_0", "dualsql tenant 0", "dualsql[tenant]0", "Dualsql_tenant_0"]
)
async def test_names_that_are_written_alike_stay_apart(site: Site, name: str) -> None:
    statement: Statement = select(Document.tenant_id, bindparam(name, 1).label("mine"))
    actual = await answer(site.narrowed, statement, principal_of(TENANTS[1]))
    assert set(actual.rows) == {b'{"tenant_id":2,"mine":1}'}


@pytest.mark.parametrize("principal", [None, Principal(id="x"), Principal(id="x", tenant=None)])
async def test_who_has_no_tenant_reads_nothing(site: Site, principal: Principal | None) -> None:
    with pytest.raises(ForbiddenError):
        await site.narrowed.create_response(DOCUMENTS, name="x", principal=principal)


async def test_a_tenant_that_nobody_has_reads_no_row(site: Site) -> None:
    for tenant in ("0", "-1", "999999"):
        response = await site.narrowed.create_response(
            DOCUMENTS, name="x", principal=Principal(id="x", tenant=tenant)
        )
        assert (response.total_count, response.sample) == (0, [])
