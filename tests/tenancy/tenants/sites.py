"""One engine's databases with servers over them: all tenants in one, and each tenant in one of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from dualsql.freeze import Registry
from dualsql.tenancy import Hook
from tests import engines
from tests.servers import create_server
from tests.tenancy.tenants.databases import EVERYBODY, Change, fill
from tests.tenancy.tenants.tpch import Base
from tests.tenancy.tenants.tpch_rows import TENANTS, Tenant

BASE_URL = "http://127.0.0.1:8000/resources"
REGISTRY = Registry(Base)
ON_SQLITE = pytest.mark.parametrize("new_url", ["sqlite"], indirect=True)
ON_POSTGRESQL = pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)


@dataclass(frozen=True)
class Site:
    """One engine's databases, opened.

    Attributes:
        shared: holds every tenant's rows.
        own: holds the rows of one tenant and nothing else, for each.
        narrowed: a server over `shared` with the hooks.
        plain: servers over `own` with no hook at all.
    """

    shared: AsyncEngine
    narrowed: DualResponseServer
    own: dict[Tenant, AsyncEngine] = field(default_factory=dict)
    plain: dict[Tenant, DualResponseServer] = field(default_factory=dict)


@asynccontextmanager
async def opened_site(
    new_url: Callable[[], str],
    hooks: Sequence[Hook],
    *,
    tenants: Sequence[Tenant] = TENANTS,
    is_marked: bool = False,
    change: Change | None = None,
) -> AsyncIterator[Site]:
    """A site of new databases.

    Args:
        new_url: the URL of an empty database at each call.
        tenants: those who get a database of their own.
        is_marked: put each tenant's canary into all of its text.
        change: made to every row of the tenants' own databases.
    """
    async with AsyncExitStack() as stack:

        async def database(whose: Sequence[Tenant], change: Change | None) -> AsyncEngine:
            engine = await stack.enter_async_context(engines.opened(new_url()))
            await fill(engine, whose, is_marked=is_marked, change=change)
            return engine

        async def server(engine: AsyncEngine, hooks: Sequence[Hook]) -> DualResponseServer:
            made = create_server(
                engine, base_url=BASE_URL, tables=REGISTRY, hooks=hooks, count_budget=timedelta(seconds=30)
            )
            return await stack.enter_async_context(made)

        shared = await database(EVERYBODY, None)
        site = Site(shared, await server(shared, hooks))
        for tenant in tenants:
            site.own[tenant] = await database([tenant], change)
            site.plain[tenant] = await server(site.own[tenant], ())
        yield site
