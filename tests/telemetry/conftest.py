"""A database with rows, and a store in a database."""

from __future__ import annotations

import asyncio

import pytest

from dualsql.store import SQLResourceStore, upgrade
from tests.engines import opened
from tests.http.application import fill


@pytest.fixture
async def institutions_url(database_url: str) -> str:
    async with opened(database_url) as engine:
        await fill(engine)
    return database_url


@pytest.fixture
async def store(database_url: str) -> SQLResourceStore:
    await asyncio.to_thread(upgrade, database_url)
    return SQLResourceStore(database_url)
