"""The things on every engine that queries run on, as fixtures for a folder's conftest; no test writes to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests import engines
from tests.profiles.things import fill


@pytest.fixture(scope="module", params=engines.SOURCES)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The async URL of an empty database, once for every engine that queries run on."""
    if request.param == "sqlite":
        yield engines.sqlite_url_in(tmp_path_factory.mktemp("things"))
        return
    with request.getfixturevalue(f"{request.param}_server").database() as database:
        yield database


@pytest.fixture(scope="module")
async def engine(url: str, anyio_backend: str) -> AsyncIterator[AsyncEngine]:
    """The things, once for every engine."""
    async with engines.opened(url) as engine:
        await fill(engine)
        yield engine
