"""What a tenant is answered from everybody's database is what its own database holds, whatever the statement.

A statement that has an ORDER BY here is ordered totally, so that its answer is one.
"""

from __future__ import annotations

from collections import Counter
from zlib import crc32

import pytest
from sqlalchemy import TextualSelect

from dualsql.freeze.document import Statement
from tests.quick import one_in
from tests.tenancy.tenants.answers import answer, truth
from tests.tenancy.tenants.databases import principal_of
from tests.tenancy.tenants.shapes import A_THIRD, PORTABLE, POSTGRESQL_ONLY, SHAPES
from tests.tenancy.tenants.sites import ON_POSTGRESQL, ON_SQLITE, Site
from tests.tenancy.tenants.tpch_rows import TENANTS, Tenant

EACH_TENANT = pytest.mark.parametrize("tenant", TENANTS, ids=lambda tenant: tenant.name)


async def check(site: Site, statement: Statement, tenant: Tenant) -> None:
    expected = await truth(site.own[tenant], statement)
    plain = await answer(site.plain[tenant], statement, None)
    actual = await answer(site.narrowed, statement, principal_of(tenant))
    assert Counter(actual.rows) == Counter(expected)
    assert not isinstance(statement, TextualSelect)
    if statement._order_by_clauses:
        assert actual.rows == expected
    assert actual.total == len(expected)
    assert actual == plain


def one_of_them(name: str) -> Tenant:
    """One tenant of a middling size; each of them in the long tests.

    The largest has every key that the others have: to it, their rows are hard to see.
    """
    return TENANTS[1 + crc32(name.encode()) % 2]


@pytest.mark.quick(2)
@ON_SQLITE
@pytest.mark.parametrize("name", one_in(3, PORTABLE, start=1))
async def test_a_tenant_is_answered_from_its_own_rows(site: Site, name: str) -> None:
    await check(site, PORTABLE[name], one_of_them(name))


@pytest.mark.long
@ON_POSTGRESQL
@pytest.mark.parametrize("name", one_in(2, A_THIRD))
async def test_a_tenant_is_answered_on_postgresql(site: Site, name: str) -> None:
    await check(site, PORTABLE[name], one_of_them(name))


@pytest.mark.quick(1)
@ON_POSTGRESQL
@pytest.mark.parametrize("name", one_in(2, POSTGRESQL_ONLY))
async def test_on_postgresql_alone(site: Site, name: str) -> None:
    await check(site, POSTGRESQL_ONLY[name], one_of_them(name))


@pytest.mark.long
@EACH_TENANT
@pytest.mark.parametrize("name", PORTABLE)
async def test_every_tenant_is_answered_from_its_own_rows(site: Site, name: str, tenant: Tenant) -> None:
    await check(site, PORTABLE[name], tenant)


@pytest.mark.long
@ON_POSTGRESQL
@EACH_TENANT
@pytest.mark.parametrize("name", POSTGRESQL_ONLY)
async def test_every_tenant_on_postgresql_alone(site: Site, name: str, tenant: Tenant) -> None:
    await check(site, POSTGRESQL_ONLY[name], tenant)


@pytest.mark.long
@ON_SQLITE
async def test_the_comparison_would_notice(site: Site) -> None:
    """Without hooks, every statement over a table of the tenants' answers some tenant something else."""
    same = [name for name, statement in PORTABLE.items() if not await _differs(site, statement)]
    assert sorted(same) == ["constants only", "shared tables alone"]


async def _differs(site: Site, statement: Statement) -> bool:
    unfiltered = await truth(site.shared, statement)
    return any([unfiltered != await truth(site.own[tenant], statement) for tenant in TENANTS])


def test_there_are_as_many_as_were_promised() -> None:
    assert len(SHAPES) >= 60
    assert len(PORTABLE) == len(SHAPES) + 22
