"""The things on every engine that queries run on, shared by a module: no test here writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from tests import engines
from tests.profiling.things import METADATA, fill

SAMPLED = 100
PATIENT = timedelta(seconds=60)


@pytest.fixture(scope="module", params=engines.SOURCES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The async URL of an empty database, once for every engine that queries run on."""
    if request.param == "sqlite":
        yield engines.sqlite_url_in(tmp_path_factory.mktemp("profiling"))
        return
    with request.getfixturevalue(f"{request.param}_server").database() as found:
        yield found


@pytest.fixture(scope="module")
async def engine(url: str, anyio_backend: str) -> AsyncIterator[AsyncEngine]:
    async with engines.opened(url) as engine:
        await fill(engine)
        yield engine


@pytest.fixture(scope="module")
async def dual(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    async with DualResponseServer(
        engine,
        base_url="http://127.0.0.1:8000/resources",
        tables=METADATA,
        profile_sample=SAMPLED,
        profile_budget=PATIENT,
        count_budget=PATIENT,
    ) as server:
        yield server
