"""Resources live, slide, are pinned, expire and go; no test waits for a clock."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette

from dualsql import (
    ConfigurationError,
    DualResponseServer,
    LimitExceededError,
    PageRequest,
    ResourceExpiredError,
    ResourceNotFoundError,
    SQLResourceStore,
)
from dualsql.log import Outage
from dualsql.store import upgrade
from dualsql.store.housekeeping import every
from tests.engines import ENGINES
from tests.quick import one_in
from tests.schools import SCHOOLS, Program, School
from tests.server.conftest import MakeServer
from tests.server.test_safety import SECRET
from tests.waiting import PATIENCE

pytestmark = pytest.mark.quick(50, "sqlite")

ALL = select(School)


async def test_fifteen_minutes_unless_told_otherwise(dual: DualResponseServer) -> None:
    response = await dual.create_response(ALL, name="x")
    assert response.expires_at == response.created_at + timedelta(minutes=15)
    longer = await dual.create_response(ALL, name="x", expiration=timedelta(hours=1))
    assert longer.expires_at == longer.created_at + timedelta(hours=1)


async def test_a_lifetime_beyond_the_maximum_is_refused(make_server: MakeServer) -> None:
    server = make_server(maximum_lifetime=timedelta(hours=2))
    longest = await server.create_response(ALL, name="x", expiration=timedelta(hours=2))
    assert longest.expires_at == longest.created_at + timedelta(hours=2)
    with pytest.raises(LimitExceededError, match=r"400 days.*2:00:00.*maximum_lifetime=\.\.\."):
        await server.create_response(ALL, name="x", expiration=timedelta(days=400))
    with pytest.raises(
        ConfigurationError, match="default_expiration is 0:15:00, and maximum_lifetime 0:05:00"
    ):
        make_server(maximum_lifetime=timedelta(minutes=5))


async def test_an_expired_resource_says_so_for_a_day(make_server: MakeServer) -> None:
    server = make_server(secrets=[SECRET])
    response = await server.create_response(ALL, name="x", expiration=timedelta(0))
    with pytest.raises(ResourceExpiredError):
        await server.open_resource(response.resource_id, None, "read")
    assert await server.unchecked.get(response.resource_id) is None
    assert not await server.unchecked.pin(response.resource_id)
    later = make_server(store=server.store, gone_retention=timedelta(0), secrets=[SECRET])
    with pytest.raises(ResourceNotFoundError):
        await later.open_resource(response.resource_id, None, "read")


async def test_the_sweeper_takes_what_is_long_gone_and_nothing_else(make_server: MakeServer) -> None:
    server = make_server(gone_retention=timedelta(0))
    live = await server.create_response(ALL, name="live")
    pinned = await server.create_response(ALL, name="pinned")
    assert await server.unchecked.pin(pinned.resource_id)
    for _ in range(7):
        await server.create_response(ALL, name="gone", expiration=timedelta(0))
    assert sum(await asyncio.gather(*(server.maintenance.sweep() for _ in range(4)))) == 7
    for response in (live, pinned):
        assert await server.unchecked.get(response.resource_id)


async def test_a_pinned_resource_has_no_expiry(dual: DualResponseServer) -> None:
    response = await dual.create_response(ALL, name="x")
    assert await dual.unchecked.pin(response.resource_id)
    metadata = dual.unchecked.metadata_of(await dual.open_resource(response.resource_id, None, "read"))
    assert (metadata["status"], metadata["expires_at"]) == ("pinned", None)


async def test_sliding_starts_the_lifetime_anew_up_to_the_cap(make_server: MakeServer) -> None:
    server = make_server(sliding_expiration=True, maximum_lifetime=timedelta(minutes=15, milliseconds=1))
    response = await server.create_response(ALL, name="x")
    resource = await server.open_resource(response.resource_id, None, "read")
    assert resource.expires_at is not None
    page = await server.unchecked.read_page(resource, None, PageRequest(limit=1))
    assert page.expires_at is not None
    assert (
        resource.expires_at < page.expires_at <= resource.created_at + timedelta(minutes=15, milliseconds=1)
    )
    assert (await server.open_resource(response.resource_id, None, "read")).expires_at == page.expires_at


async def test_without_sliding_an_access_changes_no_expiry(dual: DualResponseServer) -> None:
    response = await dual.create_response(ALL, name="x")
    resource = await dual.open_resource(response.resource_id, None, "read")
    assert (await dual.unchecked.read_page(resource, None)).expires_at == resource.expires_at


@pytest.mark.quick(1, "sqlite")
async def test_no_access_is_lost_or_counted_twice(make_server: MakeServer, database_url: str) -> None:
    upgrade(database_url)
    first, second = (make_server(store=SQLResourceStore(database_url), secrets=[SECRET]) for _ in "12")
    response = await first.create_response(ALL, name="x")
    resource = await first.open_resource(response.resource_id, None, "read")
    await first._housekeeper.stop()  # or it may write the counts just before they are looked at
    await asyncio.gather(
        *(
            server.unchecked.read_page(resource, None, PageRequest(limit=1))
            for server in (first, second)
            for _ in range(30)
        )
    )
    assert first.unchecked.metadata_of(resource)["access_count"] == 30, "its own accesses are there at once"
    await asyncio.gather(*(server.access.log.flush() for server in (first, second)))
    stored = await first.open_resource(response.resource_id, None, "read")
    assert first.unchecked.metadata_of(stored)["access_count"] == 60
    assert stored.last_accessed_at is not None
    assert abs(datetime.now(UTC) - stored.last_accessed_at) < timedelta(minutes=1)


async def test_rows_are_kept_at_rest_only_when_asked(make_server: MakeServer) -> None:
    for keep, expected in ((False, None), (True, 15)):
        server = make_server(keep_sample=keep)
        response = await server.create_response(ALL, name="x")
        resource = await server.unchecked.get(response.resource_id)
        assert resource is not None
        assert (None if resource.sample is None else len(resource.sample)) == expected


async def test_a_page_never_repeats_a_stale_total(dual: DualResponseServer, schools: AsyncEngine) -> None:
    response = await dual.create_response(select(School.id), name="x")
    resource = await dual.open_resource(response.resource_id, None, "read")
    async with schools.begin() as connection:
        await connection.execute(delete(Program))
        await connection.execute(delete(School).where(School.id > 10))
    page = await dual.unchecked.read_page(resource, None, PageRequest(offset=5, limit=10))
    assert (len(page.rows), page.has_next, page.total_count) == (5, False, 10)
    assert resource.total_count == len(SCHOOLS)


async def test_as_a_lifespan(make_server: MakeServer) -> None:
    dual = make_server()
    app = Starlette(lifespan=dual.lifespan)
    async with app.router.lifespan_context(app):
        response = await dual.create_response(ALL, name="x")
    assert response.total_count == len(SCHOOLS)


SERVE_IN_ANOTHER_PROCESS = """
import asyncio, sys
from dualsql import DualResponseServer, PageRequest, SQLResourceStore
from dualsql.formats.json import dumps
from tests.schools import Base

async def main(url, resource_id):
    async with DualResponseServer(
        url, base_url="http://127.0.0.1:8000/resources", tables=Base,
        store=SQLResourceStore(url), secrets=[{secret!r}],
    ) as dual:
        request = PageRequest(limit=1000, sort=[{{"field": "id", "order": "desc"}}])
        page = await dual.read_page(resource_id, None, request)
        sys.stdout.buffer.write(dumps(page.to_wire()["data"]))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.quick(1)
@pytest.mark.parametrize("database_url", one_in(2, ENGINES, start=1), indirect=True)
async def test_another_process_serves_what_this_one_stored(
    make_server: MakeServer, database_url: str
) -> None:
    upgrade(database_url)
    dual = make_server(store=SQLResourceStore(database_url), secrets=[SECRET])
    response = await dual.create_response(ALL.where(School.enrollment > 0), name="x")
    resource = await dual.open_resource(response.resource_id, None, "read")
    page = await dual.unchecked.read_page(
        resource, None, PageRequest(limit=1000, sort=[{"field": "id", "order": "desc"}])
    )
    await dual.shutdown()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVE_IN_ANOTHER_PROCESS.format(secret=SECRET),
        database_url,
        response.resource_id,
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate()
    from dualsql.formats.json import dumps

    assert process.returncode == 0
    assert output == dumps(page.to_wire()["data"])


async def test_a_store_that_raises_anything_does_not_end_housekeeping() -> None:
    called = 0
    twice = asyncio.Event()

    async def work() -> None:
        nonlocal called
        called += 1
        if called == 2:
            twice.set()
        raise RuntimeError("a bug in somebody's store")

    task = asyncio.ensure_future(every(timedelta(0), work, Outage("Work")))
    async with asyncio.timeout(PATIENCE):
        await twice.wait()
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
