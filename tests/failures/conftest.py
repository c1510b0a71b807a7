"""Data that stays, and a PostgreSQL that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.store import upgrade
from tests.failures.cluster import Cluster, cluster
from tests.http.application import fill


@pytest.fixture
async def data_url(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> str:
    """The URL of a SQLite file, apart from any store, that holds sixty institutions."""
    url = f"{sqlite_url}.data"
    await fill(make_engine(url))
    return url


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A PostgreSQL for the tests of one file, with dualsql's tables; a test leaves it running."""
    with cluster() as made:
        upgrade(made.url("postgres"))
        yield made
