"""A TCP relay before a server: it counts what the server sends, and can hold everything back or break connections."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeVar


class Relay:
    """Carries bytes between TCP connections and a server.

    Attributes:
        target: the server: a port of the loopback, or the path of a Unix socket.
        port: where it listens.
        sent: bytes that the server has sent.
    """

    def __init__(self, target: int | str) -> None:
        self.target = target
        self.port = 0
        self.sent = 0
        self._moved = asyncio.Event()
        self._flows = asyncio.Event()
        self._flows.set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._writers: set[StreamWriter] = set()

    def fall_silent(self) -> None:
        """Hold back every byte from here on. Connections stay open."""
        self._flows.clear()

    def speak(self) -> None:
        """Let through what was held back, and what comes."""
        self._flows.set()

    async def settled(self) -> int:
        """How many bytes the server has sent, once it has sent none for a second."""
        with suppress(TimeoutError):
            while True:
                self._moved.clear()
                async with asyncio.timeout(1):
                    await self._moved.wait()
        return self.sent

    def cut(self) -> None:
        """Break every connection."""
        for task in self._carrying:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def end(self) -> None:
        """Break every connection, and wait until nothing is carried any more."""
        carrying = tuple(self._carrying)
        self.cut()
        await asyncio.gather(*carrying, return_exceptions=True)

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Begin to carry one connection."""
        with suppress(OSError):
            far_reader, far_writer = await self._connect()
            self._writers |= {writer, far_writer}
            for carried in (
                self._carry(reader, far_writer),
                self._carry(far_reader, writer, counts=True),
            ):
                task = asyncio.create_task(carried)
                self._carrying.add(task)
                task.add_done_callback(self._carrying.discard)

    async def _connect(self) -> tuple[StreamReader, StreamWriter]:
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection("127.0.0.1", self.target)

    async def _carry(self, source: StreamReader, target: StreamWriter, *, counts: bool = False) -> None:
        with suppress(OSError):
            while chunk := await source.read(65_536):
                await self._flows.wait()
                if counts:
                    self.sent += len(chunk)
                    self._moved.set()
                target.write(chunk)
                await target.drain()
        target.close()


AnyRelay = TypeVar("AnyRelay", bound=Relay)


@asynccontextmanager
async def relaying(relay: AnyRelay) -> AsyncIterator[AnyRelay]:
    """The relay on a free port of the loopback, until the end of the block."""
    async with await asyncio.start_server(relay.accept, "127.0.0.1", 0) as listener:
        relay.port = listener.sockets[0].getsockname()[1]
        try:
            yield relay
        finally:
            await relay.end()
