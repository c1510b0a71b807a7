"""`dualsql serve` met by the SDKs' own clients: in memory, over HTTP with many calls at once, and over stdio.

Those that cannot live beside mcp 2, or are too large for this environment, are met in tests/sdks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import fastmcp
import pytest
from fastmcp.client.transports import StdioTransport
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from dualsql.serve import Selection, build_mcp, build_server
from dualsql_client import DualResponseClient
from tests.serve.conftest import PROGRAM, environment, serving_process, text_of

Kind = Literal["official", "legacy", "fastmcp"]
KINDS: list[Kind] = ["official", "legacy", "fastmcp"]

TOOLS = {"list_tables", "describe_table", "search_catalog", "execute_query", "query_result", "refine_result"}


@asynccontextmanager
async def connected(kind: Kind, server: Any) -> AsyncIterator[Any]:
    """A client of the kind at `server`: a URL, a program's parameters, or a server in this process."""
    if kind == "fastmcp":
        async with fastmcp.Client(server) as client:
            yield client
    else:
        async with Client(server, mode="auto" if kind == "official" else "legacy") as client:
            yield client


async def call(client: Any, name: str, **arguments: Any) -> CallToolResult:
    called = client.call_tool_mcp if isinstance(client, fastmcp.Client) else client.call_tool
    result = await called(name, arguments)
    assert isinstance(result, CallToolResult)
    return result


async def converse(client: Any) -> CallToolResult:
    """From nothing known of the database to an answer."""
    listed = await client.list_tools()
    assert {tool.name for tool in getattr(listed, "tools", listed)} >= TOOLS
    assert "parts" in text_of(await call(client, "list_tables"))
    assert "maker_id" in text_of(await call(client, "describe_table", table="parts"))
    result = await call(client, "execute_query", query="SELECT * FROM parts WHERE maker_id = 7 ORDER BY id")
    assert "all 25 rows" in text_of(result)
    return result


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "calls"), [("official", 8), *(pytest.param(kind, 50, marks=pytest.mark.long) for kind in KINDS)]
)
async def test_over_http_with_many_calls_at_once(shop: str, kind: Kind, calls: int) -> None:
    async with serving_process("--database", shop, "--all") as served:
        async with (
            connected(kind, f"{served.origin}/mcp") as model,
            DualResponseClient(f"{served.origin}/resources") as application,
        ):
            rows = await application.parse(await converse(model), strict=True).fetch_all()
            assert len(rows) == 25
            makers = [number % 40 + 1 for number in range(calls)]
            results = await asyncio.gather(*(of_maker(model, maker) for maker in makers))
            for maker, result in zip(makers, results, strict=True):
                records = await application.parse(result, strict=True).fetch_all()
                assert {row["maker_id"] for row in records} == {maker}
        assert "Traceback" not in await served.stop()


async def of_maker(model: Any, maker: int) -> CallToolResult:
    """The parts of one maker. On a slow machine some of many calls are told to try again, and do."""
    query = "SELECT * FROM parts WHERE maker_id = :maker"
    while True:
        result = await call(model, "execute_query", query=query, parameters={"maker": maker})
        if not result.is_error:
            return result
        assert "Try again in " in text_of(result)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_over_stdio(shop: str, kind: Kind) -> None:
    arguments = [*PROGRAM[1:], "serve", "--stdio", "--all"]
    variables = environment(DUALSQL_DATABASE_URL=shop)
    server: Any = (
        StdioTransport(PROGRAM[0], arguments, env=variables)
        if kind == "fastmcp"
        else StdioServerParameters(command=PROGRAM[0], args=arguments, env=variables)
    )
    async with connected(kind, server) as model:
        result = await converse(model)
        base_url = str((result.structured_content or {})["resource"]["url"]).rpartition("/")[0]
        async with DualResponseClient(base_url) as application:
            assert len(await application.parse(result, strict=True).fetch_all()) == 25
        await asyncio.gather(*(of_maker(model, maker % 40 + 1) for maker in range(50)))


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", ["official", "legacy"])
async def test_in_memory(shop: str, kind: Kind) -> None:
    dual, _ = await build_server(shop, Selection(everything=True), base_url="http://127.0.0.1/resources")
    async with dual, connected(kind, build_mcp(dual)) as model:
        await converse(model)
        if kind == "official":
            assert {"io.modelcontextprotocol/tasks", "io.dualsql/resource-link-service"} <= set(
                model.server_capabilities.extensions or {}
            )
        await asyncio.gather(*(of_maker(model, maker % 40 + 1) for maker in range(50)))
