"""PostgreSQL's own row security as a rule: the database narrows, and is told for whom by a setting of the transaction.

The server connects as a role that owns nothing. Views read as their owner, whom no policy holds: they keep a
filter of dualsql's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import String, Table, func, literal, make_url, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import (
    ConfigurationError,
    DualResponseServer,
    ForbiddenError,
    NotFreezableError,
    Principal,
    QueryExecutionError,
    QueryTimeoutError,
    RowSecurity,
    TenantFilter,
)
from dualsql.freeze.document import Statement
from dualsql.tenancy import Hook
from tests import engines
from tests.quick import one_in
from tests.servers import create_server
from tests.tenancy.tenants.answers import answer, truth
from tests.tenancy.tenants.databases import EVERYBODY, fill, principal_of
from tests.tenancy.tenants.office import NORTH, SOUTH, VIEWS, Document, Person, document_tags
from tests.tenancy.tenants.queries import QUERIES
from tests.tenancy.tenants.rules import SHARED, contractors, tenant_of
from tests.tenancy.tenants.shapes import PORTABLE, POSTGRESQL_ONLY
from tests.tenancy.tenants.sites import BASE_URL, ON_POSTGRESQL, REGISTRY, Site
from tests.tenancy.tenants.tpch import Base, customer
from tests.tenancy.tenants.tpch_rows import TENANTS

EVERY: dict[str, Statement] = {**PORTABLE, **POSTGRESQL_ONLY}
SETTING = "app.tenant"
ACME, BIRCH = TENANTS[:2]
CUSTOMERS = select(customer.c.c_comment)

SECURITY = RowSecurity(setting=SETTING, value=tenant_of)
VIEWS_FILTERED = TenantFilter(column="tenant_id", value=tenant_of, tables=list(VIEWS))
HOOKS: tuple[Hook, ...] = (SECURITY, VIEWS_FILTERED, SHARED)

_shared = {"region", "nation", "calendar"}
SECURED = [
    table for table in Base.metadata.tables.values() if table not in VIEWS and table.name not in _shared
]
_own = f"(SELECT current_setting('{SETTING}')::int)"
POLICIES = {
    contractors: f"id IN (SELECT id FROM people WHERE tenant_id = {_own})",
    document_tags: f"EXISTS (SELECT FROM documents WHERE id = document_id AND tenant_id = {_own})",
}
QUICK = [
    *list(QUERIES)[::4],
    "chain of outer joins",
    "recursive",
    "ORM: secondary",
    "view",
    "union all",
    "full join",
]


@dataclass(frozen=True)
class Guarded:
    """A database of all tenants' rows with a policy on each table, and roles that are no superuser.

    Attributes:
        role: owns nothing and bypasses nothing.
    """

    server: engines.PostgreSQL
    database: str
    role: str

    def execute(self, statement: str) -> None:
        """Run it as the superuser."""
        self.server.execute(statement, self.database)

    def url(self, role: str) -> str:
        """The database as that role."""
        return self.server.url(self.database).replace("postgres@", f"{role}@")


def _name(table: Table) -> str:
    return (
        f'"{table.schema}"."{table.name}"' if table.schema else '"{}"'.format(table.name.replace('"', '""'))
    )


@pytest.fixture(scope="module")
def role(postgresql_server: engines.PostgreSQL) -> Iterator[str]:
    """A new role, which owns no table and bypasses no policy."""
    name = f"reader_{uuid4().hex}"
    postgresql_server.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    postgresql_server.execute(f"DROP ROLE {name}")


@pytest.fixture(scope="module")
async def guarded(
    anyio_backend: str, postgresql_server: engines.PostgreSQL, role: str
) -> AsyncIterator[Guarded]:
    with postgresql_server.database() as url:
        async with engines.opened(url) as engine:
            await fill(engine, EVERYBODY)
            async with engine.begin() as connection:
                for table in SECURED:
                    await connection.exec_driver_sql(f"ALTER TABLE {_name(table)} ENABLE ROW LEVEL SECURITY")
                    condition = POLICIES.get(table, f"tenant_id = {_own}")
                    await connection.exec_driver_sql(
                        f"CREATE POLICY own ON {_name(table)} USING ({condition})"
                    )
                for schema in ("public", NORTH, SOUTH):
                    await connection.exec_driver_sql(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}')
                    await connection.exec_driver_sql(
                        f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO {role}'
                    )
        yield Guarded(postgresql_server, str(make_url(url).database), role)


@pytest.fixture(scope="module")
async def secure(guarded: Guarded) -> AsyncIterator[tuple[DualResponseServer, AsyncEngine]]:
    """A server with the hooks on one single connection, so that every request gets the last one's."""
    url = guarded.url(guarded.role)
    async with engines.opened(url, pool_size=1, max_overflow=0) as engine, server(engine, HOOKS) as made:
        yield made, engine


def server(engine: AsyncEngine, hooks: Sequence[Hook], **settings: timedelta) -> DualResponseServer:
    return create_server(engine, base_url=BASE_URL, tables=REGISTRY, hooks=hooks, **settings)


Secure = tuple[DualResponseServer, AsyncEngine]


async def check(secure: Secure, site: Site, statement: Statement) -> None:
    for tenant in (ACME, BIRCH):
        expected = await truth(site.own[tenant], statement)
        actual = await answer(secure[0], statement, principal_of(tenant))
        assert Counter(actual.rows) == Counter(expected)
        assert actual == await answer(site.plain[tenant], statement, None)


@pytest.mark.quick(1)
@ON_POSTGRESQL
@pytest.mark.parametrize("name", one_in(2, QUICK))
async def test_the_database_narrows_to_the_tenant(secure: Secure, site: Site, name: str) -> None:
    await check(secure, site, PORTABLE[name])


@pytest.mark.long
@ON_POSTGRESQL
@pytest.mark.parametrize("name", EVERY)
async def test_the_database_narrows_every_statement(secure: Secure, site: Site, name: str) -> None:
    await check(secure, site, EVERY[name])


# The setting -------------------------------------------------------------------------------------------------


async def left_behind(engine: AsyncEngine) -> str | None:
    """The setting as the connection's next user finds it."""
    async with engine.connect() as connection:
        setting = select(func.current_setting(SETTING, True, type_=String()))
        return (await connection.execute(setting)).scalar_one()


async def read(secure: Secure, principal: Principal) -> int | None:
    return (await secure[0].create_response(CUSTOMERS, name="x", principal=principal)).total_count


async def test_the_setting_goes_with_its_transaction(secure: Secure) -> None:
    counts = [await read(secure, principal_of(tenant)) for tenant in TENANTS]
    assert len(set(counts)) == len(TENANTS)
    assert not await left_behind(secure[1])
    async with secure[1].connect() as connection:
        # Whoever comes without it reads nothing at all.
        with pytest.raises(Exception, match=r"invalid input syntax for type integer|unrecognized"):
            await connection.execute(CUSTOMERS)


async def test_the_setting_is_gone_after_an_error(secure: Secure) -> None:
    before = await read(secure, principal_of(BIRCH))
    broken = select(1 / (customer.c.c_custkey - customer.c.c_custkey))
    with pytest.raises(QueryExecutionError):
        await secure[0].create_response(broken, name="x", principal=principal_of(ACME))
    assert not await left_behind(secure[1])
    assert await read(secure, principal_of(BIRCH)) == before


_forever = select(literal(1).label("n")).cte("forever", recursive=True)
FOREVER = select(func.count()).select_from(_forever.union_all(select(_forever.c.n)))


async def test_the_setting_is_gone_after_a_timeout(secure: Secure) -> None:
    impatient = server(secure[1], HOOKS, query_timeout=timedelta(milliseconds=300))
    async with impatient:
        with pytest.raises(QueryTimeoutError):
            await impatient.create_response(FOREVER, name="x", principal=principal_of(ACME))
    assert not await left_behind(secure[1])


async def test_the_setting_is_gone_after_a_cancelled_request(secure: Secure) -> None:
    expected = await read(secure, principal_of(BIRCH))
    for _ in range(3):
        asked = asyncio.ensure_future(
            secure[0].create_response(FOREVER, name="x", principal=principal_of(ACME))
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked, timeout=0.2)
        assert await read(secure, principal_of(BIRCH)) == expected
    assert not await left_behind(secure[1])


async def test_principals_take_turns_on_one_connection(secure: Secure) -> None:
    people = [principal_of(tenant) for tenant in TENANTS]
    alone = [await read(secure, principal) for principal in people]
    together = await asyncio.gather(*(read(secure, principal) for principal in people * 5))
    assert together == alone * 5


async def test_a_value_is_a_value(secure: Secure) -> None:
    """Nothing that stands in a principal becomes SQL or another setting."""
    for tenant in ("1'; RESET ROLE; --", "1 OR true", "0) OR (1=1", "９"):
        hooks = (
            RowSecurity(setting=SETTING, value=lambda principal: principal.tenant),
            VIEWS_FILTERED,
            SHARED,
        )
        async with server(secure[1], hooks) as literal_minded:
            response = literal_minded.create_response(
                select(Person.id), name="x", principal=Principal(id="x", tenant=tenant)
            )
            with pytest.raises((QueryExecutionError, ForbiddenError, NotFreezableError)):
                await response
    assert not await left_behind(secure[1])


@pytest.mark.parametrize("principal", [None, Principal(id="nobody"), Principal(id="x", tenant=None)])
async def test_without_a_tenant_nothing_is_asked(secure: Secure, principal: Principal | None) -> None:
    with pytest.raises(ForbiddenError):
        await secure[0].create_response(CUSTOMERS, name="x", principal=principal)


# Who may start -----------------------------------------------------------------------------------------------


async def refuse_to_start(url: str, hooks: Sequence[Hook], match: str) -> None:
    async with engines.opened(url) as engine:
        refused = server(engine, hooks)
        with pytest.raises(ConfigurationError, match=match):
            await refused.start()
        with pytest.raises(ConfigurationError, match=match):
            await refused.create_response(CUSTOMERS, name="x", principal=principal_of(ACME))
        await refused.shutdown()


async def test_no_superuser(guarded: Guarded) -> None:
    await refuse_to_start(guarded.url("postgres"), HOOKS, "Row-level security does not apply.*customer")


async def test_no_role_that_bypasses_policies(guarded: Guarded, role: str) -> None:
    guarded.execute(f"ALTER ROLE {role} BYPASSRLS")
    try:
        await refuse_to_start(guarded.url(role), HOOKS, "Row-level security does not apply.*customer")
    finally:
        guarded.execute(f"ALTER ROLE {role} NOBYPASSRLS")


async def test_no_owner_unless_the_policy_is_forced_on_it(guarded: Guarded, role: str) -> None:
    guarded.execute(f"ALTER TABLE documents OWNER TO {role}")
    try:
        await refuse_to_start(guarded.url(role), HOOKS, "does not apply .*: documents")
        guarded.execute("ALTER TABLE documents FORCE ROW LEVEL SECURITY")
        async with engines.opened(guarded.url(role)) as engine, server(engine, HOOKS) as started:
            response = await started.create_response(
                select(Document.id), name="x", principal=principal_of(ACME)
            )
            assert response.total_count
    finally:
        guarded.execute("ALTER TABLE documents NO FORCE ROW LEVEL SECURITY")
        guarded.execute("ALTER TABLE documents OWNER TO postgres")
        guarded.execute(f"GRANT SELECT ON documents TO {role}")


@pytest.mark.parametrize("table", ["visits", f'"{SOUTH}".ledger', '"odd ""table"" %(x)s:y"'])
async def test_no_table_without_row_security(guarded: Guarded, role: str, table: str) -> None:
    guarded.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    try:
        await refuse_to_start(guarded.url(role), HOOKS, "Row-level security does not apply")
    finally:
        guarded.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")


async def test_no_view_is_left_to_policies(guarded: Guarded, role: str) -> None:
    """It reads with its owner's rights, whom no policy holds."""
    await refuse_to_start(
        guarded.url(role), (SECURITY, SHARED), "does not apply .*author_pages, urgent_orders"
    )


async def test_no_other_database(sqlite_url: str) -> None:
    await refuse_to_start(sqlite_url, HOOKS, "no row-level security")
