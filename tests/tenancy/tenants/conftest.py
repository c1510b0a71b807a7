"""The databases to compare, filled once per session and engine. No test writes to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from tests import engines
from tests.tenancy.tenants.rules import HOOKS
from tests.tenancy.tenants.sites import Site, opened_site


@pytest.fixture(scope="session", params=engines.ENGINES)
def new_url(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgresql_server: engines.PostgreSQL,
) -> Iterator[Callable[[], str]]:
    """A function that gives the URL of an empty database at each call, once for every engine."""
    folder = tmp_path_factory.mktemp("tenants")
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield lambda: engines.sqlite_url_in(folder)
        else:
            yield lambda: stack.enter_context(postgresql_server.database())


@pytest.fixture(scope="session")
async def site(anyio_backend: str, new_url: Callable[[], str]) -> AsyncIterator[Site]:
    """Every tenant's rows in one database and each tenant's in one of its own, once for every engine."""
    async with opened_site(new_url, HOOKS) as opened:
        yield opened
