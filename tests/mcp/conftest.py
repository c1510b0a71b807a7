"""Servers of both SDKs and real clients to call their tools. What is looked at has crossed the protocol."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fastmcp
import jsonschema
import mcp
import pytest
from mcp.server import MCPServer
from mcp_types import CallToolResult, Implementation, Tool
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer
from tests.engines import sqlite_url_in
from tests.schools import Base, fill
from tests.servers import create_server

BASE_URL = "http://127.0.0.1:8000/resources"

Kind = Literal["official", "official, older protocol", "fastmcp"]
KINDS = ["official", pytest.param("official, older protocol", marks=pytest.mark.long), "fastmcp"]

AnyServer = MCPServer[Any] | fastmcp.FastMCP[Any]
MakeDual = Callable[..., DualResponseServer]


@dataclass(frozen=True)
class Connection:
    """A client's connection to an MCP server."""

    session: Any

    async def tools(self) -> dict[str, Tool]:
        """The tools by name."""
        listed = await self.session.list_tools()
        return {tool.name: tool for tool in getattr(listed, "tools", listed)}

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        """The result as the client has it; it must be as its tool has published it, if that is listed."""
        if isinstance(self.session, fastmcp.Client):
            result = await self.session.call_tool_mcp(name, arguments)
        else:
            result = await self.session.call_tool(name, arguments)
        assert isinstance(result, CallToolResult)
        tool = (await self.tools()).get(name)
        if tool is not None:
            assert tool.output_schema is not None
            jsonschema.validate(result.structured_content, tool.output_schema)
        return result


@dataclass(frozen=True)
class Host:
    """Servers and clients of one SDK."""

    kind: Kind

    def server(self, **options: Any) -> AnyServer:
        """A new server."""
        return fastmcp.FastMCP("schools", **options) if self.is_fast else MCPServer("schools", **options)

    @property
    def is_fast(self) -> bool:
        return self.kind == "fastmcp"

    @asynccontextmanager
    async def connected(
        self, server: Any, *, client: str = "a-host", **options: Any
    ) -> AsyncIterator[Connection]:
        """A client by the name of `client` at `server`, which may be a URL."""
        introduced = Implementation(name=client, version="1")
        async with AsyncExitStack() as stack:
            if self.is_fast:
                session: Any = fastmcp.Client(server, client_info=introduced, **options)
            else:
                mode = "auto" if self.kind == "official" else "legacy"
                session = mcp.Client(server, client_info=introduced, mode=mode, **options)
            yield Connection(await stack.enter_async_context(session))


@pytest.fixture(params=KINDS)
def host(request: pytest.FixtureRequest) -> Host:
    return Host(request.param)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the school database, to be copied: no engine makes a difference to a tool."""
    folder = tmp_path_factory.mktemp("schools")

    async def write() -> None:
        engine = create_async_engine(sqlite_url_in(folder))
        await fill(engine)
        await engine.dispose()

    asyncio.run(write())
    return next(folder.iterdir())


@pytest.fixture
async def schools(sqlite_url: str, filled: Path, make_engine: Callable[[str], AsyncEngine]) -> AsyncEngine:
    """The school database."""
    shutil.copy(filled, str(make_url(sqlite_url).database))
    return make_engine(sqlite_url)


@pytest.fixture
async def make_dual(schools: AsyncEngine) -> AsyncIterator[MakeDual]:
    """A function from options to a server; all it made are shut down when the test ends."""
    async with AsyncExitStack() as made:

        def make(**options: Any) -> DualResponseServer:
            settings: dict[str, Any] = {"base_url": BASE_URL, "tables": Base, **options}
            dual = create_server(settings.pop("databases", schools), **settings)
            made.push_async_callback(dual.shutdown)
            return dual

        yield make


@pytest.fixture
def dual(make_dual: MakeDual) -> DualResponseServer:
    return make_dual()


def text_of(result: CallToolResult) -> str:
    """The text of a result, which is its first block."""
    block = result.content[0]
    assert block.type == "text"
    return block.text


def wire_of(result: CallToolResult) -> str:
    """The whole result as JSON."""
    return result.model_dump_json(by_alias=True, exclude_none=True)


def application_of(dual: DualResponseServer, server: Any) -> Starlette:
    """Tools at /mcp and rows at /resources, in one application."""
    is_fast = isinstance(server, fastmcp.FastMCP)
    tools = (
        server.http_app(stateless_http=True) if is_fast else server.streamable_http_app(stateless_http=True)
    )
    routes = [Mount("/resources", dual.router()), Mount("/", tools)]
    return Starlette(routes=routes, lifespan=tools.router.lifespan_context)
