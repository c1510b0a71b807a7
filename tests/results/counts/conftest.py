"""The school database and a table of many rows on every engine, shared by a module: no test here writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, text
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from dualsql.databases.source import Source
from tests import engines
from tests.http.application import Application, fill as fill_institutions, running
from tests.schools import Base, fill
from tests.servers import create_server

MANY = 12_345

METADATA = MetaData()
events = Table(
    "events",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(10), nullable=False),
    Column("word", String(10), nullable=False),
)

ANALYZE = {"sqlite": "ANALYZE", "postgresql": "ANALYZE", "mysql": "ANALYZE TABLE events"}


@pytest.fixture(scope="module", params=engines.SOURCES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The async URL of an empty database, once for every engine that queries run on."""
    if request.param == "sqlite":
        yield engines.sqlite_url_in(tmp_path_factory.mktemp("counts"))
        return
    with request.getfixturevalue(f"{request.param}_server").database() as database:
        yield database


@pytest.fixture(scope="module")
async def engine(url: str, anyio_backend: str) -> AsyncIterator[AsyncEngine]:
    async with engines.opened(url) as engine:
        await fill(engine)
        rows = [
            {
                "id": number,
                "tenant": "acme" if number % 5 else "zeta",
                "word": "plain" if number % 5 else "secret",
            }
            for number in range(1, MANY + 1)
        ]
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)
            await connection.execute(insert(events), rows)
            await connection.execute(text(ANALYZE[engine.dialect.name]))
        yield engine


@pytest.fixture(scope="module")
async def dual(engine: AsyncEngine) -> AsyncIterator[DualResponseServer]:
    async with create_server(
        engine,
        base_url="http://127.0.0.1:8000/resources",
        tables=[Base, METADATA],
        allow_text=True,
        count_budget=timedelta(seconds=30),
    ) as server:
        yield server


@pytest.fixture
def source(dual: DualResponseServer) -> Source:
    return dual.parts.sources["default"]


@pytest.fixture
async def institutions(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """Sixty institutions."""
    async with engines.opened(engines.sqlite_url_in(tmp_path)) as engine:
        await fill_institutions(engine)
        yield engine


@pytest.fixture
async def application(institutions: AsyncEngine) -> AsyncIterator[Application]:
    """A server of theirs."""
    async with running(institutions) as application:
        yield application
