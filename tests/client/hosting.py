"""HTTP servers on the loopback for tests of the client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dualsql_client.wire import Column, Row

RESOURCE_ID = "q4T79hXv2ZkLwPmB7sYd1RcE0aKLOHLki"
OTHER_ID = "Zk3qT9vWmm4LxR7bNc1YdPo8HsTzESv9s"
EXPIRES_AT = "2999-01-01T00:00:00Z"

Handler = Callable[[Request], Awaitable[Response]]


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def listening_socket() -> socket.socket:
    """A socket on a free port of loopback."""
    # Not socket.create_server: it leaves proto 0, for which asyncio does not turn Nagle's algorithm off, and
    # an answer written in two parts then takes 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    return listening


def origin_of(listening: socket.socket) -> str:
    """Its address, such as `http://127.0.0.1:40123`."""
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def serving(app: ASGIApp, *sockets: socket.socket) -> AsyncIterator[None]:
    """Run `app` under uvicorn until the end of the block."""
    server = _Server(uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve(list(sockets)))
    await server.ready.wait()
    try:
        yield
    finally:
        server.should_exit = True
        await running


class Host:
    """Handlers under addresses of their own; a server for each would take most of the tests' time."""

    def __init__(self) -> None:
        self.origins: list[str] = []
        self._handlers: list[Handler] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Listen on two ports, which are two origins, until the end of the block."""
        methods = ["GET", "POST", "PUT", "DELETE"]
        app = Starlette(routes=[Route("/{number:int}/{id:path}", self._answer, methods=methods)])
        with listening_socket() as one, listening_socket() as two:
            self.origins = [origin_of(one), origin_of(two)]
            async with serving(app, one, two):
                yield self

    def serve(self, handler: Handler, *, origin: int = 0) -> str:
        """The base URL below which `handler` answers every request."""
        self._handlers.append(handler)
        return f"{self.origins[origin]}/{len(self._handlers) - 1}"

    async def _answer(self, request: Request) -> Response:
        number: int = request.path_params["number"]
        return await self._handlers[number](request)


def structured(*, uri: str = f"resource://{RESOURCE_ID}", url: str = "") -> dict[str, Any]:
    """What a tool of such a server returns."""
    return {
        "results": [{"id": 0}],
        "resource": {"uri": uri, "url": url, "name": "Institutions", "mimeType": "application/json"},
        "metadata": {
            "total_count": 3,
            "total_count_kind": "exact",
            "sample_count": 1,
            "columns": [{"name": "id", "type": "number", "encoding": "integer"}],
            "executed_at": "2026-11-21T10:00:00Z",
            "expires_at": EXPIRES_AT,
        },
    }


def problem(status: int, code: str | None, **more: Any) -> Response:
    """An error answer in the wire's shape."""
    body = {"error": "refused", "code": code, "message": "No.", "hint": "Ask again.", "details": {}, **more}
    return JSONResponse(body, status)


@dataclass
class Contract:
    """The REST half of a dual response server with one resource, as the specification has it: pages, no streams."""

    rows: list[Row]
    columns: list[Column] = field(default_factory=list)
    largest_page: int = 1_000
    deleted: bool = False
    requests: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def pages(self) -> list[Any]:
        """What was asked for of the resource itself."""
        return [body for method, body in self.requests if method == "POST" and "format" not in body]

    async def __call__(self, request: Request) -> Response:
        body = await request.json() if request.method == "POST" else None
        self.requests.append((request.method, body))
        if self.deleted or request.path_params["id"] != RESOURCE_ID:
            return problem(404, "RESOURCE_NOT_FOUND")
        match request.method:
            case "POST":
                return JSONResponse(self.page(body))
            case "PUT":
                return JSONResponse({"status": "pinned", "expires_at": None})
            case "DELETE":
                self.deleted = True
                return Response(status_code=204)
        return JSONResponse(self.metadata())

    def page(self, wanted: Any) -> dict[str, Any]:
        offset, rows = wanted.get("offset", 0), list(self.rows)
        match wanted.get("sort"):
            case {"field": name, **more}:
                rows.sort(key=lambda row: row[name], reverse=more.get("order") == "desc")
        end = offset + min(wanted.get("limit", 100), self.largest_page)
        data = rows[offset:end]
        has_next = end < len(rows)
        return {
            "data": data,
            "columns": self.columns,
            "total_count": len(rows),
            "returned_count": len(data),
            "offset": offset,
            "has_next": has_next,
            "has_previous": offset > 0,
            "next_offset": end if has_next else None,
            "expires_at": EXPIRES_AT,
        }

    def metadata(self) -> dict[str, Any]:
        return {
            "status": "ready",
            "name": "Institutions",
            "uri": f"resource://{RESOURCE_ID}",
            "total_count": len(self.rows),
            "columns": self.columns,
            "created_at": "2026-11-21T10:00:00Z",
            "expires_at": EXPIRES_AT,
            "access_count": 3,
            "last_accessed_at": None,
            "metadata": {"state": "NJ"},
        }
