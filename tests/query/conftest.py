"""The readings on every engine, filled once per session. No test writes to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests import engines
from tests.http.application import Application, by_header
from tests.http.conftest import application, institutions_url
from tests.mariadb import MariaDB
from tests.query.readings import readings_at

__all__ = ["application", "institutions_url", "readings", "readings_url"]


@pytest.fixture(scope="session", params=[*engines.SOURCES, pytest.param("duckdb", marks=pytest.mark.long)])
def readings_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database for the readings, once for every engine."""
    if request.param in ("sqlite", "duckdb"):
        folder = tmp_path_factory.mktemp("asking")
        yield (
            engines.sqlite_url_in(folder) if request.param == "sqlite" else f"duckdb:///{folder / 'readings'}"
        )
        return
    server: engines.PostgreSQL | MariaDB = request.getfixturevalue(f"{request.param}_server")
    with server.database() as url:
        yield url


@pytest.fixture(scope="session")
async def readings(anyio_backend: str, readings_url: str) -> AsyncIterator[Application]:
    """A server over the readings, once for every engine."""
    async with readings_at(readings_url, authenticate=by_header) as application:
        yield application
