"""A real uvicorn on a free loopback port, spoken to byte by byte. Wait for events, not for time."""

from __future__ import annotations

import asyncio
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql.features import DualResponseServer
from tests.http.application import ALL, METADATA
from tests.servers import with_features
from tests.waiting import PATIENCE

SMALL_BUFFER = 32 * 1024
"""Bytes that a socket may hold."""


@dataclass(frozen=True)
class LiveServer:
    """A server that listens, and the resource it was started with."""

    server: DualResponseServer
    http: httpx.AsyncClient
    port: int
    path: str

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
        """A bare TCP connection, for what no well-behaved client would send."""
        connecting = socket.socket()
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=connecting)
        try:
            yield reader, writer
        finally:
            writer.close()

    def head_of(self, method: str, *fields: str, query: str = "") -> bytes:
        """The first lines of a request to the resource."""
        lines = [f"{method} {self.path}?{query} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *fields, "", ""]
        return "\r\n".join(lines).encode()


@asynccontextmanager
async def listening(
    database: str | AsyncEngine,
    *,
    kind: type[DualResponseServer] = DualResponseServer,
    statement: Any = ALL,
    tables: MetaData = METADATA,
    **options: Any,
) -> AsyncIterator[LiveServer]:
    """A server of `kind` under uvicorn, serving one result, until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        # What a socket holds counts as sent: little of it, so that a reader who pauses is felt early.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        port = bound.getsockname()[1]
        base_url = f"http://127.0.0.1:{port}/resources"
        server = kind(database, base_url=base_url, tables=tables, **with_features(options))
        app = Starlette(routes=[Mount("/resources", server.router())], lifespan=server.lifespan)
        # The socket listens already: who connects before uvicorn accepts is kept waiting by the system.
        uvicorn_server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        serving = asyncio.create_task(uvicorn_server.serve([bound]))
        try:
            response = await server.create_response(statement, name="Institutions", count="none")
            path = f"/resources/{response.resource_id}"
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
                yield LiveServer(server, http, port, path)
        finally:
            uvicorn_server.should_exit = True
            await serving


async def answer(reader: StreamReader) -> tuple[int, dict[str, str], bytes]:
    """The next response on a connection: status, headers, body."""
    async with asyncio.timeout(PATIENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(status.split()[1]), headers, body
