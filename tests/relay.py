"""A TCP relay before a server: it counts what the server sends, and can hold everything back or break connections."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

# Linux: a filter of a socket is asked before TCP is, so that a segment which it drops is not acknowledged.
_SO_ATTACH_FILTER = 26
_RETURN_NOTHING = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
_DROP_ALL = struct.pack("HL", 1, ctypes.addressof(_RETURN_NOTHING))


class Relay:
    """Carries bytes between TCP connections and a server.

    Attributes:
        target: the server: a port of the loopback, or the path of a Unix socket.
        port: where it listens.
        sent: bytes that the server has sent.
        latency: seconds that bytes take each way.
        listening: the sockets on which it does.
    """

    def __init__(self, target: int | str, *, latency: float = 0.0) -> None:
        self.target = target
        self.latency = latency
        self.port = 0
        self.sent = 0
        self._moved = asyncio.Event()
        self._flows = asyncio.Event()
        self._flows.set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._writers: set[StreamWriter] = set()
        self._accepted: set[StreamWriter] = set()
        self.listening: Sequence[Any] = ()

    def fall_silent(self) -> None:
        """Hold back every byte from here on. Connections stay open."""
        self._flows.clear()

    def vanish(self) -> None:
        """Acknowledge no byte more, and hold back every one: the machine is gone, or the way to it."""
        self.fall_silent()
        for each in (*self.listening, *(writer.get_extra_info("socket") for writer in self._accepted)):
            each.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _DROP_ALL)

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

    async def has_sent(self, number: int) -> None:
        """Wait until the server has sent so many bytes."""
        while self.sent < number:
            self._moved.clear()
            await self._moved.wait()

    def cut(self) -> None:
        """Break every connection."""
        for task in self._carrying:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        self._accepted.clear()

    async def end(self) -> None:
        """Break every connection, and wait until nothing is carried any more."""
        carrying = tuple(self._carrying)
        self.cut()
        await asyncio.gather(*carrying, return_exceptions=True)

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Begin to carry one connection."""
        try:
            far_reader, far_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        self._accepted.add(writer)
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
                if self.latency:
                    await asyncio.sleep(self.latency)
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
        relay.listening = listener.sockets
        relay.port = listener.sockets[0].getsockname()[1]
        try:
            yield relay
        finally:
            await relay.end()
