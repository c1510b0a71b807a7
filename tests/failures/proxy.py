"""A TCP proxy that can fall silent: connections stay open, and nothing comes through any more."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Proxy:
    """Carries bytes between TCP connections and a Unix socket, as long as it is told to."""

    def __init__(self, target: str) -> None:
        self.port = 0
        self._target = target
        self._flows = asyncio.Event()
        self._carrying: set[asyncio.Task[None]] = set()
        self._flows.set()

    def fall_silent(self) -> None:
        """Hold back every byte from here on."""
        self._flows.clear()

    def speak(self) -> None:
        """Let through what was held back, and what comes."""
        self._flows.set()

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
            for source, target in ((reader, far_writer), (far_reader, writer)):
                task = asyncio.create_task(self._carry(source, target))
                self._carrying.add(task)
                task.add_done_callback(self._carrying.discard)

    async def _carry(self, source: StreamReader, target: StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(65_536):
                await self._flows.wait()
                target.write(chunk)
                await target.drain()
        target.close()

    async def end(self) -> None:
        """Cut every connection."""
        for task in (waiting := tuple(self._carrying)):
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@asynccontextmanager
async def proxied(target: str) -> AsyncIterator[Proxy]:
    """A proxy on a free port of the loopback, until the end of the block."""
    proxy = Proxy(target)
    async with await asyncio.start_server(proxy.accept, "127.0.0.1", 0) as listener:
        proxy.port = listener.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            await proxy.end()
