"""The application under test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.http.application import Application, fill, running


@pytest.fixture
async def institutions_url(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> str:
    """The URL of a database that holds sixty institutions."""
    await fill(make_engine(sqlite_url))
    return sqlite_url


@pytest.fixture
async def application(institutions_url: str) -> AsyncIterator[Application]:
    """A server as it is set up by default."""
    async with running(institutions_url) as application:
        yield application
