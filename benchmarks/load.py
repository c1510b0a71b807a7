"""Ask for pages as fast as a server gives them. The asker costs as little as it can, the same for all.

A client library takes longer for a page of 100 rows than some servers do; this one reads Content-Length and
counts bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from urllib.parse import urlsplit

CONNECTIONS = 16


@dataclass(frozen=True)
class Request:
    """One request, and what must be in its answer's body."""

    method: str
    url: str
    body: bytes = b""
    expected: bytes = b""
    headers: tuple[str, ...] = ()

    @cached_property
    def encoded(self) -> bytes:
        parts = urlsplit(self.url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Accept: */*", *self.headers]
        if self.body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


async def pages_per_second(request: Request, *, seconds: float, connections: int = CONNECTIONS) -> float:
    """How many answers come in a second, on `connections` that each ask again as soon as they are answered.

    They are opened one after the other, as clients come: of connections that are opened at once, one of several workers
    takes all.
    """
    async with AsyncExitStack() as stack:
        pool = [await stack.enter_async_context(Connection.opened(request)) for _ in range(connections)]
        start = perf_counter()
        answers = await asyncio.gather(*(each.ask_until(request, start + seconds) for each in pool))
        return sum(answers) / (perf_counter() - start)


@dataclass(frozen=True)
class Connection:
    """A connection that is kept alive, for one request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    @asynccontextmanager
    async def opened(cls, request: Request) -> AsyncIterator[Connection]:
        """A connection on which this was answered, until the end of the block."""
        parts = urlsplit(request.url)
        connection = cls(*await asyncio.open_connection(parts.hostname, parts.port, limit=2**22))
        try:
            await connection.ask(request)
            yield connection
        finally:
            connection.writer.close()

    async def ask_until(self, request: Request, deadline: float) -> int:
        """Ask again and again until then; the number of answers."""
        count = 0
        while perf_counter() < deadline:
            await self.ask(request)
            count += 1
        return count

    async def ask(self, request: Request) -> None:
        """Ask, and read the answer."""
        self.writer.write(request.encoded)
        body = await _answer(self.reader)
        if request.expected not in body:
            raise SystemExit(f"{request.url} did not answer with the page: {body[:200]!r}")


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise SystemExit(f"A server answered {head!r} {await reader.read(500)!r}")
    if b"transfer-encoding: chunked" in head:
        return await _chunks(reader)
    size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return await reader.readexactly(size)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return bytes(body)
