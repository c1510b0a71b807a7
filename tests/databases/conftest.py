"""The school database on every driver that queries run on, and a server over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import DualResponseServer
from dualsql.databases.source import Database, Source
from dualsql.databases.sqlite.file_reader import FileReader
from tests.databases.kinds import ASYNCHRONOUS, DRIVERS, EACH, MakeServer
from tests.quick import case_of
from tests.schools import Base, create, fill
from tests.server.conftest import BASE_URL
from tests.servers import create_server

T = TypeVar("T", str, URL)


@pytest.fixture(params=[case_of(driver, is_long=driver not in EACH) for driver in DRIVERS])
def driver(request: pytest.FixtureRequest) -> str:
    """The name of one driver, each once; a file that asks for all of them at every run parametrizes it itself."""
    name: str = request.param
    return name


@pytest.fixture
async def database(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """The filled database: an engine, or a URL where dualsql is to make the engine."""
    scheme = DRIVERS[driver]
    backend = scheme.partition("+")[0]
    if backend == "duckdb":
        yield fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb")
        return
    empty: str = request.getfixturevalue({"mysql": "mariadb_url"}.get(backend, f"{backend}_url"))
    url = make_url(empty).set(drivername=scheme)
    if driver in ASYNCHRONOUS:
        engine = create_async_engine(url)
        await fill(engine)
        yield engine
        await engine.dispose()
        return
    fill_synchronously(url)
    synchronous = create_engine(url)
    yield synchronous
    synchronous.dispose()


def fill_synchronously(url: T) -> T:
    """Put tables and rows into a new database at `url`, and close it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        create(connection)
    engine.dispose()
    return url


@pytest.fixture
async def make_server(database: Database) -> AsyncIterator[MakeServer]:
    """A function from settings to a started server; all it made are shut down when the test ends."""
    servers: list[DualResponseServer] = []

    async def make(**options: object) -> DualResponseServer:
        servers.append(create_server(database, base_url=BASE_URL, tables=Base, **options))
        await servers[-1].start()
        return servers[-1]

    yield make
    for server in servers:
        await server.shutdown()


@pytest.fixture
async def source(make_server: MakeServer) -> Source:
    """The source of a server with the settings as they are."""
    return (await make_server()).parts.sources["default"]


@pytest.fixture
async def make_server_on() -> AsyncIterator[MakeServer]:
    """A function from an async engine, which it fills, and settings to a started server."""
    servers: list[DualResponseServer] = []

    async def make(engine: AsyncEngine, **options: object) -> DualResponseServer:
        await fill(engine)
        servers.append(create_server(engine, base_url=BASE_URL, tables=Base, **options))
        await servers[-1].start()
        return servers[-1]

    yield make
    for server in servers:
        await server.shutdown()


@pytest.fixture
def reader(path: Path) -> Iterator[FileReader]:
    """Reads the SQLite file that a module's fixture `path` makes."""
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine, 1_000_000_000)
    yield reader
    reader.close()
