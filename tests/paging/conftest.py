"""Servers over the school database, one for every engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from tests.schools import Base, fill


@pytest.fixture
async def dual(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    await fill(engine)
    async with DualResponseServer(
        engine, base_url="http://127.0.0.1:8000/resources", tables=Base, allow_text=True
    ) as server:
        yield server
