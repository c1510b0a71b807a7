"""Data that stays, and a PostgreSQL that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.store import upgrade
from tests.engines import opened
from tests.failures.cluster import Cluster, cluster
from tests.http.application import METADATA, fill


@pytest.fixture
async def data_url(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> str:
    """The URL of a SQLite file, apart from any store, that holds sixty institutions."""
    url = f"{sqlite_url}.data"
    await fill(make_engine(url))
    return url


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A PostgreSQL for the tests of one file, with dualsql's tables; a test leaves it running."""
    with cluster() as database:
        upgrade(database.url("postgres"))
        yield database


@pytest.fixture
async def url(own_cluster: Cluster) -> str:
    """The URL of a database of the cluster, with sixty institutions and dualsql's tables."""
    url = own_cluster.url("postgres")
    async with opened(url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.drop_all)
        await fill(engine)
    return url
