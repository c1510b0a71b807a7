"""A server under uvicorn, with a tool on either MCP SDK, and what is asked of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastmcp import FastMCP
from mcp.server import MCPServer
from sqlalchemy import Column, Integer, MetaData, Select, Table, func, select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql.features import DualResponseServer
from tests.http.application import BASE_URL, INSTITUTIONS, METADATA
from tests.servers import create_server
from tests.telemetry.exporting import served

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"
SECRETS = ["a secret of at least thirty-two characters"]
SDKS = ["official", "fastmcp"]

MISSING = Table("missing", MetaData(), Column("id", Integer, primary_key=True))
_OTHERS = [INSTITUTIONS.alias(f"other_{number}") for number in range(4)]
SLOW = select(func.max(sum((other.c.id for other in _OTHERS), INSTITUTIONS.c.id)).label("greatest"))
"""The greatest sum of 60 to the power of five."""


@dataclass(frozen=True)
class Live:
    """A server under uvicorn, with MCP at /mcp and REST at /resources."""

    dual: DualResponseServer
    http: httpx.AsyncClient
    origin: str

    async def call(self, tool: str, arguments: dict[str, Any], **headers: str) -> dict[str, Any]:
        """The result of a tool, called by a client that knows nothing of OpenTelemetry; `traceparent` goes to _meta."""
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "plain", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        said = {"traceparent": headers.pop("meta")} if "meta" in headers else {}
        answer = await self.http.post(
            "/mcp",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": tool, "arguments": arguments, "_meta": {**meta, **said}},
            },
            headers={
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": tool,
                **headers,
            },
        )
        assert answer.status_code == 200, answer.text
        line = next(line for line in answer.text.splitlines() if line.startswith(("data: {", "{")))
        actual: dict[str, Any] = json.loads(line.removeprefix("data: "))["result"]
        return actual


@asynccontextmanager
async def live(database: str, sdk: str = "official", **options: Any) -> AsyncIterator[Live]:
    """The server, with one tool of the SDK."""
    dual = create_server(database, base_url=BASE_URL, tables=[METADATA, MISSING], **options)
    mcp: Any = MCPServer("colleges") if sdk == "official" else FastMCP("colleges")

    @dual.tool(mcp)
    def institutions(state: str) -> Select[Any]:
        """Institutions of a state."""
        return select(INSTITUTIONS).where(INSTITUTIONS.c.state == state).order_by(INSTITUTIONS.c.id)

    @dual.tool(mcp)
    def broken() -> Select[Any]:
        """Rows of a table that is not there."""
        return select(MISSING)

    @dual.tool(mcp)
    async def several() -> Select[Any]:
        """Institutions, after other results of the same call."""
        for name in ("One", "Two", "Three"):
            await dual.create_response(select(INSTITUTIONS), name=name)
        return select(INSTITUTIONS)

    make = mcp.streamable_http_app if sdk == "official" else mcp.http_app
    inner = make(stateless_http=True)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with dual, inner.router.lifespan_context(inner):
            yield

    app = Starlette(routes=[Mount("/resources", dual.router()), Mount("/", inner)], lifespan=lifespan)
    async with served(app) as origin, httpx.AsyncClient(base_url=origin, timeout=20) as http:
        yield Live(dual, http, origin)
