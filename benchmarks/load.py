"""Ask for pages as fast as a server gives them. The asker costs as little as it can, the same for all.

A client library takes longer for a page of 100 rows than some servers do; this one reads Content-Length and
counts bytes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
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
    pool = [await _Connection.opened(request) for _ in range(connections)]
    start = perf_counter()
    answers = await asyncio.gather(*(one.ask_until(start + seconds) for one in pool))
    return sum(answers) / (perf_counter() - start)


class _Connection:
    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._request, self._encoded = request, request.encoded()
        self._reader, self._writer = reader, writer

    @classmethod
    async def opened(cls, request: Request) -> _Connection:
        """A connection that was answered once."""
        parts = urlsplit(request.url)
        connection = cls(request, *await asyncio.open_connection(parts.hostname, parts.port, limit=2**22))
        await connection._ask()
        return connection

    async def ask_until(self, deadline: float) -> int:
        """Ask until then, and close the connection; the number of answers."""
        count = 0
        try:
            while perf_counter() < deadline:
                await self._ask()
                count += 1
        finally:
            self._writer.close()
        return count

    async def _ask(self) -> None:
        self._writer.write(self._encoded)
        body = await _answer(self._reader)
        if self._request.expected not in body:
            raise SystemExit(f"{self._request.url} did not answer with the page: {body[:200]!r}")


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise SystemExit(f"A server answered {head[:200]!r}")
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
