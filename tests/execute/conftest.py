"""The school database on every kind of engine that queries run on, and a server over it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import DualResponseServer
from dualsql.execute import Source
from dualsql.execute.source import Database
from tests.execute.kinds import KINDS, MakeServer
from tests.schools import PROGRAMS, SCHOOLS, VISITS, Base, Program, School, fill, visits
from tests.server.conftest import BASE_URL


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of one kind of engine, each once."""
    name: str = request.param
    return name


@pytest.fixture
async def database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """The filled database: an async engine, a synchronous one, or a URL where dualsql is to make the engine."""
    if kind == "duckdb":
        yield fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb")
        return
    if kind == "sqlite in threads":
        synchronous = create_engine(fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite"))
        yield synchronous
        synchronous.dispose()
        return
    engine: AsyncEngine = create_async_engine(request.getfixturevalue(f"{kind}_url"))
    await fill(engine)
    yield engine
    await engine.dispose()


def fill_synchronously(url: str) -> str:
    """Put tables and rows into a new database at `url`, and close it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        for table, rows in ((School, SCHOOLS), (Program, PROGRAMS), (visits, VISITS)):
            connection.execute(insert(table), rows)
    engine.dispose()
    return url


@pytest.fixture
async def make_server(database: Database) -> AsyncIterator[MakeServer]:
    """A function from settings to a started server; all it made are shut down when the test ends."""
    made: list[DualResponseServer] = []

    async def make(**options: object) -> DualResponseServer:
        made.append(DualResponseServer(database, base_url=BASE_URL, tables=Base, **options))  # type: ignore[arg-type]
        await made[-1].start()
        return made[-1]

    yield make
    for server in made:
        await server.shutdown()


@pytest.fixture
async def source(make_server: MakeServer) -> Source:
    """The source of a server with the settings as they are."""
    return (await make_server())._sources["default"]


@pytest.fixture
async def make_server_on() -> AsyncIterator[MakeServer]:
    """A function from an async engine, which it fills, and settings to a started server."""
    made: list[DualResponseServer] = []

    async def make(engine: AsyncEngine, **options: object) -> DualResponseServer:
        await fill(engine)
        made.append(DualResponseServer(engine, base_url=BASE_URL, tables=Base, **options))  # type: ignore[arg-type]
        await made[-1].start()
        return made[-1]

    yield make
    for server in made:
        await server.shutdown()
