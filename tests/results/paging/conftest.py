"""A server over the school database, one for every engine, shared by a module: no test here writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from tests import engines
from tests.results.paging.sorts import fill_sorts
from tests.schools import Base, fill
from tests.servers import create_server


@pytest.fixture(scope="module")
async def engine(
    request: pytest.FixtureRequest, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AsyncEngine]:
    """The engine named by the test's parameter, filled."""
    if request.param == "sqlite":
        async with engines.opened(engines.sqlite_url_in(tmp_path_factory.mktemp("paging"))) as engine:
            await fill(engine)
            await fill_sorts(engine)
            yield engine
        return
    server: engines.PostgreSQL = request.getfixturevalue(f"{request.param}_server")
    with server.database() as url:
        async with engines.opened(url) as engine:
            await fill(engine)
            await fill_sorts(engine)
            yield engine


@pytest.fixture(scope="module")
async def dual(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    async with create_server(
        engine,
        base_url="http://127.0.0.1:8000/resources",
        tables=Base,
        allow_text=True,
        count_budget=timedelta(seconds=30),
    ) as server:
        yield server
