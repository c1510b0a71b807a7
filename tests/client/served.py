"""A real dualsql server with one result. Tests reach it by HTTP only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import MetaData, Select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer
from dualsql.settings import ALL_ACTIONS
from tests.client.hosting import listening_socket, origin_of, serving
from tests.servers import create_server


@dataclass
class Served:
    """It runs.

    Attributes:
        loop: it runs in this one.
        tool_result: as MCP has it, of the result that was made first.
    """

    base_url: str
    dual: DualResponseServer
    loop: asyncio.AbstractEventLoop
    tool_result: dict[str, Any]

    @property
    def url(self) -> str:
        """Where that result is."""
        url: str = self.tool_result["structuredContent"]["resource"]["url"]
        return url

    async def tool_result_of(self, statement: Select[Any], **options: Any) -> dict[str, Any]:
        """That of another one."""
        wanted: dict[str, Any] = {"name": "Schools", "sample_size": 3} | options
        response = await self.dual.create_response(statement, **wanted)
        return response.to_mcp_tool_result()


@asynccontextmanager
async def serving_results(
    database: str | AsyncEngine, tables: MetaData, statement: Select[Any], **settings: Any
) -> AsyncIterator[Served]:
    """Serve the statement's result, named "Schools", on loopback until the end of the block."""
    with listening_socket() as bound:
        base_url = f"{origin_of(bound)}/resources"
        options: dict[str, Any] = {"anonymous_actions": ALL_ACTIONS, "allowed_hosts": ["*"]} | settings
        dual = create_server(database, base_url=base_url, tables=tables, **options)
        app = Starlette(routes=[Mount("/resources", dual.router())], lifespan=dual.lifespan)
        async with serving(app, bound):
            served = Served(base_url, dual, asyncio.get_running_loop(), {})
            served.tool_result = await served.tool_result_of(statement)
            yield served
