"""MCP and REST as one application; the rule: the paths are those of the base URL, and a foreign host is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount, Route

from dualsql.http.guard import Guard, origin_of, own_hosts
from dualsql.server import DualResponseServer
from dualsql.serving.door import METHODS, ContextProvider, Door
from dualsql.serving.tools import build_mcp

LONGEST_REQUEST = 1024 * 1024
"""Bytes of one MCP request."""


def serve_app(
    dual: DualResponseServer, mcp: MCPServer[Any] | None = None, *, context: ContextProvider | None = None
) -> Starlette:
    """MCP at /mcp beside the path of `dual.base_url`, and REST at that path; starts and stops `dual`.

    The MCP endpoint is stateless streamable HTTP: each POST stands for itself, other methods are answered 405.
    Callers of both halves are told apart by the `authenticate` of `dual`.

    Args:
        mcp: a server of yours; else that of `build_mcp`.
        context: called on every MCP request; see `provided`.
    """
    server = build_mcp(dual) if mcp is None else mcp
    # Called for the session manager that it makes; what else is in it stands here, for MCP and REST together.
    server.streamable_http_app(
        stateless_http=True,
        max_request_body_size=LONGEST_REQUEST,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    sessions = server.session_manager

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with dual, sessions.run():
            yield

    door = Door(sessions.handle_request, dual, context)
    return Starlette(
        routes=[
            Route(mcp_path(dual.base_url), door, middleware=_cross_origin(dual)),
            dual.well_known(),
            Mount(urlsplit(dual.base_url).path, dual.router()),
        ],
        middleware=[_guard(dual)],
        lifespan=lifespan,
    )


def mcp_path(base_url: str) -> str:
    """The path of the MCP endpoint: beside that of the resources."""
    return urlsplit(base_url).path.rpartition("/")[0] + "/mcp"


def _guard(dual: DualResponseServer) -> Middleware:
    """Whom REST refuses by its name, the MCP endpoint refuses too."""
    settings = dual.settings
    return Middleware(
        Guard,
        hosts=own_hosts(dual.base_url) | frozenset(settings.allowed_hosts),
        origins=[origin_of(dual.base_url), *map(origin_of, settings.cors_origins)],
    )


def _cross_origin(dual: DualResponseServer) -> list[Middleware]:
    origins = [origin_of(origin) for origin in dual.settings.cors_origins]
    pages = Middleware(CORSMiddleware, allow_origins=origins, allow_methods=METHODS, allow_headers=["*"])
    return [pages] if origins else []
