"""The things on every engine that queries run on, as fixtures for a folder's conftest; no test writes to them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests import engines
from tests.profiles.things import fill


@pytest.fixture(scope="module")
async def engine(module_source_url: str, anyio_backend: str) -> AsyncIterator[AsyncEngine]:
    """The things, once for every engine."""
    async with engines.opened(module_source_url) as engine:
        await fill(engine)
        yield engine
