"""A server starts again after a shutdown, also in another event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import fastmcp
import mcp
import pytest
from mcp.server import MCPServer
from sqlalchemy import select
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from dualsql import ConfigurationError, DualResponseServer, PageRequest, SQLResourceStore
from dualsql.freeze.document import AnySelect
from dualsql.store import upgrade
from tests.engines import opened
from tests.schools import SCHOOLS, Base, School, fill
from tests.server.conftest import BASE_URL
from tests.server.test_safety import SECRET
from tests.servers import create_server

MakeServer = Callable[..., DualResponseServer]
ALL = select(School).order_by(School.id)


@pytest.fixture
def filled_url(database_url: str) -> str:
    """A database with the schools and the table of resources."""

    async def prepare() -> None:
        async with opened(database_url) as engine:
            await fill(engine)

    asyncio.run(prepare())
    upgrade(database_url)
    return database_url


@pytest.fixture
def dual(filled_url: str) -> DualResponseServer:
    """A server with places for one query at a time, so that its locks are waited for."""
    return create_server(
        filled_url,
        base_url=BASE_URL,
        tables=Base,
        store=SQLResourceStore(filled_url),
        secrets=[SECRET],
        maximum_concurrent_queries=1,
        maximum_streams=1,
    )


async def crowd(dual: DualResponseServer) -> str:
    """More creations and pages at once than there are places; the id of one resource."""
    responses = await asyncio.gather(*(dual.create_response(ALL, name="x", count="exact") for _ in range(6)))
    for response in responses:
        assert response.total_count == len(SCHOOLS)
    resource = await dual.open_resource(responses[0].resource_id, None, "read")
    pages = await asyncio.gather(
        *(dual.unchecked.read_page(resource, None, PageRequest(limit=5)) for _ in range(6))
    )
    assert {len(page.rows) for page in pages} == {5}
    return responses[0].resource_id


@pytest.mark.quick(1, "sqlite")
def test_in_one_event_loop_after_another(dual: DualResponseServer) -> None:
    async def run(known: str | None) -> str:
        async with dual:
            if known is not None:
                assert await dual.unchecked.get(known)
            return await crowd(dual)

    known = None
    for _ in range(3):
        known = asyncio.run(run(known))


TWO_LOOPS_WITHOUT_A_SHUTDOWN = """
import asyncio, sys
from dualsql import DualResponseServer, SQLResourceStore
from tests.schools import Base
from tests.servers import create_server
from tests.server.test_restart import crowd

url, secret = sys.argv[1:]
store = SQLResourceStore(url)
dual = create_server(
    url, base_url="http://127.0.0.1:8000/r", tables=Base, store=store, secrets=[secret], maximum_concurrent_queries=1
)
print(*(asyncio.run(crowd(dual)) for _ in range(3)))
"""


@pytest.mark.long
def test_after_a_loop_that_ended_without_a_shutdown(filled_url: str) -> None:
    # In a process of its own: drivers complain of connections that their loop took with it.
    command = [sys.executable, "-c", TWO_LOOPS_WITHOUT_A_SHUTDOWN, filled_url, SECRET]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert len(set(ran.stdout.split())) == 3


@pytest.mark.quick(1, "sqlite")
def test_twice_in_one_event_loop(dual: DualResponseServer) -> None:
    async def run() -> None:
        await crowd(dual)
        await dual.shutdown()
        with pytest.raises(ConfigurationError, match="was shut down"):
            await dual.create_response(ALL, name="x")
        await dual.start()
        await crowd(dual)
        await dual.maintenance.sweep()
        await dual.shutdown()

    asyncio.run(run())


@pytest.mark.quick(1, "sqlite")
def test_two_test_clients(dual: DualResponseServer) -> None:
    async def create(_: Request) -> JSONResponse:
        return JSONResponse({"id": (await dual.create_response(ALL, name="x")).resource_id})

    routes = [Route("/create", create), Mount("/resources", dual.router())]
    app = Starlette(routes=routes, lifespan=dual.lifespan)
    ids: list[str] = []
    for _ in range(2):
        with TestClient(app, base_url="http://127.0.0.1:8000") as client:
            ids.append(client.get("/create").json()["id"])
            for resource_id in ids:
                page = client.get(f"/resources/{resource_id}?limit=3")
                assert page.status_code == 200 and len(page.json()["data"]) == 3


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("is_fast", [False, True], ids=["official", "fastmcp"])
def test_clients_in_one_process_one_after_the_other_and_side_by_side(
    dual: DualResponseServer, is_fast: bool
) -> None:
    server: Any = (fastmcp.FastMCP if is_fast else MCPServer)("schools", lifespan=dual.lifespan)

    @dual.tool(server)
    def search() -> AnySelect:
        """All schools."""
        return ALL

    async def ask(session: Any) -> None:
        result = await session.call_tool("search", {})
        assert result.structured_content["metadata"]["total_count"] == len(SCHOOLS)

    async def run() -> None:
        make: Any = fastmcp.Client if is_fast else mcp.Client
        for _ in range(2):
            async with make(server) as session:
                await ask(session)
        async with AsyncExitStack() as stack:
            second = await stack.enter_async_context(make(server))
            async with make(server) as first:
                await ask(first)
                await ask(second)
            await ask(second)

    asyncio.run(run())
    asyncio.run(run())


@pytest.mark.quick(1, "sqlite")
def test_engines_of_the_application_are_left_alone(filled_url: str) -> None:
    async def run() -> None:
        engine, kept = create_async_engine(filled_url), create_async_engine(filled_url)
        store = SQLResourceStore(kept)
        dual = DualResponseServer(engine, base_url=BASE_URL, tables=Base, store=store, secrets=[SECRET])
        pools = engine.pool, kept.pool
        for _ in range(2):
            async with dual:
                await crowd(dual)
        assert (engine.pool, kept.pool) == pools
        for each in (engine, kept):
            assert each.pool.status().startswith("Pool size")
            async with each.connect() as connection:
                assert len((await connection.execute(ALL)).all()) == len(SCHOOLS)
            await each.dispose()

    asyncio.run(run())


@pytest.mark.quick(1, "sqlite")
def test_in_two_event_loops_at_once_is_refused(dual: DualResponseServer) -> None:
    refusals: list[str] = []

    def elsewhere() -> None:
        with pytest.raises(ConfigurationError) as refused:
            asyncio.run(dual.start())
        refusals.append(refused.value.message)

    async def run() -> None:
        async with dual:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            await asyncio.to_thread(thread.join)
            await crowd(dual)

    asyncio.run(run())
    assert refusals == ["The server runs in another event loop."]
