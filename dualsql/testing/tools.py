"""Calls the tools of an application in its tests: over a real session of MCP, and over REST, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from dualsql.errors import ConfigurationError
from dualsql_client import DualResponseClient, ParsedDualResponse, ToolFailedError

if TYPE_CHECKING:
    from dualsql.features import DualResponseServer
    from dualsql.resource import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolClient:
    """Calls tools as a model does, and reads the rows as an application does.

    Attributes:
        model: the client of the MCP SDK, connected to the server.
        application: the client of the results.
        http: what it sends with, for requests of your own: `await tools.http.get(parsed.resource_url)`.
    """

    model: Any
    application: DualResponseClient
    http: httpx.AsyncClient

    async def call(self, tool: str, /, **arguments: Any) -> ParsedDualResponse:
        """The dual response of a tool: `sample`, `total_count`, `await .fetch_all()`.

        Raises:
            ToolFailedError: the tool failed; the code, message and hint are those that the model reads.
            ParseError: the tool has answered something else.
        """
        result = await self.result(tool, **arguments)
        if result.is_error:
            raise _failure(result)
        return self.application.parse(result, strict=True)

    async def result(self, tool: str, /, **arguments: Any) -> Any:
        """The whole result, as the model gets it, also of a tool that failed."""
        # A client of fastmcp raises an error of its own, without code and hint.
        call = getattr(self.model, "call_tool_mcp", None) or self.model.call_tool
        return await call(tool, arguments)


def _failure(result: Any) -> ToolFailedError:
    problem = (result.structured_content or {}).get("error")
    if not isinstance(problem, dict):
        text = "\n".join(block.text for block in result.content if hasattr(block, "text"))
        return ToolFailedError(text)
    return ToolFailedError(
        problem["message"], code=problem["code"], hint=problem["hint"], details=problem["details"]
    )


@asynccontextmanager
async def tool_client(
    dual: DualResponseServer, mcp: Any, *, headers: Mapping[str, str] | None = None
) -> AsyncIterator[ToolClient]:
    """Start `dual`, and connect a client to `mcp` and to the results.

    Args:
        mcp: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        headers: of each request; the `authenticate` of `dual` finds the caller by them, for tools and for rows. A
            tool with a `principal=` of its own sees a token without claims.

    Raises:
        ConfigurationError: `mcp` is of no supported SDK.
    """
    parts = urlsplit(dual.base_url)
    rest = Starlette(routes=[Mount(parts.path, dual.router())])
    request_headers = dict(headers or {})
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(dual)
        http = await stack.enter_async_context(
            httpx.AsyncClient(
                transport=httpx.ASGITransport(rest),
                base_url=f"{parts.scheme}://{parts.netloc}",
                headers=request_headers,
            )
        )
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
        raw = [(name.lower().encode(), value.encode()) for name, value in request_headers.items()]
        principal = await dual.access.identify(Request({**scope, "headers": raw, "app": rest}))
        model = await stack.enter_async_context(_session(mcp, principal))
        application = await stack.enter_async_context(DualResponseClient(dual.base_url, http=http))
        yield ToolClient(model=model, application=application, http=http)


@asynccontextmanager
async def _session(mcp: Any, principal: Principal | None) -> AsyncIterator[Any]:
    """A client of the server's own SDK, with the token of the principal where SDKs look for one."""
    from mcp.server.auth.middleware.auth_context import auth_context_var
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

    client, token = _sdk_of(mcp)
    user = None
    if principal is not None:
        # A class with a principal: dualsql.identity.principal_of_token reads it.
        identified = type("IdentifiedCaller", (token,), {"__annotations__": {"principal": Any}})
        user = AuthenticatedUser(
            identified(token="-", client_id=principal.id, scopes=[], principal=principal)
        )
    former = auth_context_var.set(user)
    try:
        async with client(mcp) as connected:
            yield connected
    finally:
        auth_context_var.reset(former)


def _sdk_of(mcp: Any) -> tuple[Any, Any]:
    """The classes of a client and of an access token, of the SDK that made the server."""
    packages = {ancestor.__module__.partition(".")[0] for ancestor in type(mcp).__mro__}
    if "fastmcp" in packages:
        return import_module("fastmcp").Client, import_module("fastmcp.server.auth").AccessToken
    if "mcp" in packages:
        return import_module("mcp").Client, import_module("mcp.server.auth.provider").AccessToken
    raise ConfigurationError(
        f"{type(mcp).__name__} is not the class of a supported MCP server.",
        hint="tool_client(dual, mcp), where mcp is an mcp.server.MCPServer or a fastmcp.FastMCP.",
    )


def tool_fixture(dual: DualResponseServer, mcp: Any, *, headers: Mapping[str, str] | None = None) -> Any:
    """A fixture of pytest, which gives a `ToolClient`: `tools = tool_fixture(dual, mcp)` in conftest.py.

    It is asynchronous; anyio's plugin for pytest, which dualsql brings along, runs it and the tests.
    """

    @pytest.fixture
    async def tools(anyio_backend: object) -> AsyncIterator[ToolClient]:
        async with tool_client(dual, mcp, headers=headers) as client:
            yield client

    return tools
