"""A server over one database in this process, and the client that reads its results."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer, Registry
from dualsql.sql import read_select
from dualsql_client import DualResponseClient, ParsedDualResponse

BASE_URL = "http://127.0.0.1:8000/resources"


class Application:
    """A server, and the client of what it makes."""

    def __init__(self, server: DualResponseServer, http: httpx.AsyncClient, registry: Registry) -> None:
        self.server = server
        self.http = http
        self._client = DualResponseClient(BASE_URL, http=http)
        self._registry = registry

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name of the database's dialect."""
        return self.server.parts.sources["default"].engine.dialect.name

    async def result(self, statement: Any, **options: Any) -> ParsedDualResponse:
        """The stored result of a Select, or of a SQL text."""
        if isinstance(statement, str):
            statement = read_select(statement, self._registry, self.dialect)
        response = await self.server.create_response(statement, name="x", **options)
        return self._client.parse(response.to_mcp_tool_result(), strict=True)

    async def rows(self, statement: Any) -> list[dict[str, Any]]:
        """All its rows, as Python values."""
        return await (await self.result(statement)).fetch_all(typed=True)


@asynccontextmanager
async def serving(database: Any, registry: Registry) -> AsyncIterator[Application]:
    """The application, for the length of the block."""
    async with DualResponseServer(database, base_url=BASE_URL, tables=registry) as server:
        app = Starlette(routes=[Mount("/resources", server.router())])
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000"
        ) as http:
            yield Application(server, http, registry)
