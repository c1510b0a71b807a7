"""Applications with pages: in process, and under uvicorn with a browser."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Browser
from sqlalchemy import Boolean, Column, DateTime, Float, Integer, MetaData, Numeric, String, Table, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql.features import DualResponseServer
from tests.engines import sqlite_url_in
from tests.http.application import Application, by_header, fill, running
from tests.servers import create_server
from tests.web.browser import chromium
from tests.web.hostile import CELLS


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Application]:
    """A server with pages and signed links, whose callers are told by a header."""
    engine = create_async_engine(sqlite_url_in(tmp_path))
    await fill(engine)
    async with running(engine, pages=True, signed_links=True, authenticate=by_header) as application:
        yield application
    await engine.dispose()


@pytest.fixture
async def institutions_url(sqlite_url: str) -> str:
    """A SQLite file with the institutions."""
    engine = create_async_engine(sqlite_url)
    await fill(engine)
    await engine.dispose()
    return sqlite_url


METADATA = MetaData()
FLIGHTS = Table(
    "flights",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("carrier", String(2), nullable=False),
    Column("dest", String(3), nullable=False),
    Column("delay", Integer),
    Column("distance", Float, nullable=False),
    Column("cost", Numeric(10, 2), nullable=False),
    Column("departure", DateTime, nullable=False),
    Column("note", String),
    Column("cancelled", Boolean, nullable=False),
)
HOSTILE = Table("hostile", METADATA, Column("id", Integer, primary_key=True), Column("value", String))
FLIGHTS_IN_ALL = 100_000

_FILL = f"""
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {FLIGHTS_IN_ALL})
INSERT INTO flights SELECT n, substr('UAAADLB6WN', 1 + 2 * (n % 5), 2), substr('BOSLAXSFOORD', 1 + 3 * (n % 4), 3),
    CASE WHEN n % 20 = 0 THEN NULL ELSE n % 97 - 20 END, 100 + (n * 7919) % 2500, (n * 31) % 100000 / 100.0,
    datetime('2013-01-01', (n * 300) || ' seconds'), CASE WHEN n % 7 = 0 THEN 'weather' END, n % 50 = 0 FROM numbers
"""


async def fill_flights(engine: AsyncEngine) -> None:
    """Make the flights, and the hostile cells."""
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(text(_FILL))
        await connection.execute(
            HOSTILE.insert(), [{"id": n, "value": cell} for n, cell in enumerate(CELLS, 1)]
        )


@dataclass(frozen=True)
class Site:
    """A server that listens, below a path of its own."""

    server: DualResponseServer
    origin: str

    async def create(self, select: Any, name: str = "Flights", **options: Any) -> str:
        """Store a result; its address."""
        response = await self.server.create_response(select, name=name, **options)
        return response.resource_url


@pytest.fixture(scope="session")
async def flights(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AsyncEngine]:
    """A database with flights and hostile cells."""
    engine = create_async_engine(sqlite_url_in(tmp_path_factory.mktemp("site")))
    await fill_flights(engine)
    yield engine
    await engine.dispose()


@pytest.fixture(scope="module")
async def site(flights: AsyncEngine) -> AsyncIterator[Site]:
    """A site mounted at /data/resources, whose callers are told by a header."""
    async with listening(flights) as server:
        yield server


@asynccontextmanager
async def listening(engine: AsyncEngine, **options: Any) -> AsyncIterator[Site]:
    """A server under uvicorn."""
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings: dict[str, Any] = {
        "pages": True,
        "signed_links": True,
        "authenticate": by_header,
        **options,
    }
    async with create_server(
        engine, base_url=f"{origin}/data/resources", tables=METADATA, **settings
    ) as server:
        app = Starlette(routes=[Mount("/data/resources", server.router())])
        async with under_uvicorn(app, listener):
            yield Site(server, origin)


@asynccontextmanager
async def under_uvicorn(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """The application answers at the socket until the end of the block."""
    uvicorn_server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    serving = asyncio.create_task(uvicorn_server.serve([listener]))
    try:
        yield
    finally:
        uvicorn_server.should_exit = True
        await serving


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    """One Chromium for all tests; each has a profile of its own in it."""
    async with chromium() as found:
        yield found
