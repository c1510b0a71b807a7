"""The things on every engine that queries run on, shared by a module: no test here writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from tests.profiles.databases import engine, url
from tests.profiles.things import METADATA
from tests.servers import create_server

__all__ = ["engine", "url"]

SAMPLED = 100
PATIENT = timedelta(seconds=60)


@pytest.fixture(scope="module")
async def dual(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    async with create_server(
        engine,
        base_url="http://127.0.0.1:8000/resources",
        tables=METADATA,
        profile_sample=SAMPLED,
        profile_budget=PATIENT,
        count_budget=PATIENT,
    ) as server:
        yield server
