"""A machine of PostgreSQL that is gone without a word, while statements run and streams are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from sqlalchemy import make_url

from dualsql import DatabaseBusyError, DualResponseServer
from dualsql.results.streams import StreamRequest
from tests.databases.kinds import SLOW
from tests.engines import opened
from tests.failures.cluster import Cluster, cluster
from tests.failures.test_client import MANY
from tests.http.application import METADATA, fill
from tests.relay import Relay, relaying
from tests.schools import Base, fill as fill_schools
from tests.server.conftest import BASE_URL
from tests.servers import create_server
from tests.waiting import PATIENCE

TABLES = [METADATA, Base]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def machine() -> Iterator[Cluster]:
    with cluster("shared_buffers=8MB") as database:
        asyncio.run(_filled(database))
        yield database


async def _filled(database: Cluster) -> None:
    async with opened(database.url("postgres")) as engine:
        await fill(engine)
        await fill_schools(engine)


@pytest.fixture
async def relay(machine: Cluster) -> AsyncIterator[Relay]:
    async with relaying(Relay(machine.socket)) as made:
        yield made


@pytest.fixture(params=["postgresql", "postgresql+psycopg"])
async def server(relay: Relay, request: pytest.FixtureRequest) -> AsyncIterator[DualResponseServer]:
    """With limits far beyond the patience of these tests: none of them may be what ends a statement."""
    url = make_url(f"{request.param}://postgres@127.0.0.1:{relay.port}/postgres")
    hours = timedelta(hours=1)
    async with create_server(
        url, base_url=BASE_URL, tables=TABLES, query_timeout=hours, maximum_stream_duration=hours
    ) as made:
        yield made


async def test_a_statement_ends_with_an_error_that_says_try_again(
    server: DualResponseServer, relay: Relay
) -> None:
    asking = asyncio.create_task(server.create_response(SLOW, name="slow", count="none"))
    size = await relay.settled()
    assert size and not asking.done()
    relay.vanish()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(DatabaseBusyError):
            await asking


async def test_a_stream_ends_with_an_error_that_says_try_again(
    server: DualResponseServer, relay: Relay
) -> None:
    response = await server.create_response(MANY, name="many", count="none")
    stream = await server.stream(response.resource_id, None, StreamRequest(format="csv"))
    read = 0
    while read < 100_000:  # the head of a file comes before the database is asked
        read += len((await anext(stream.chunks)).data)
    relay.vanish()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(DatabaseBusyError):
            async for _ in stream.chunks:
                pass
