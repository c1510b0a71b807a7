"""Every store there is, so that one suite can hold them to the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dualsql.store import MemoryStore, ResourceStore, SQLResourceStore
from tests import engines


@pytest.fixture(params=("memory", *engines.ENGINES))
async def store(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[ResourceStore]:
    """An empty store, once of every kind."""
    made: ResourceStore
    if request.param == "memory":
        made = MemoryStore()
    else:
        made = SQLResourceStore(request.getfixturevalue(f"{request.param}_store_url"))
    yield made
    await made.close()


@pytest.fixture
async def sql_store(store_url: str, anyio_backend: str) -> AsyncIterator[SQLResourceStore]:
    """An empty SQLResourceStore, once for every engine."""
    store = SQLResourceStore(store_url)
    yield store
    await store.close()
