"""A TCP proxy that forwards bytes unchanged and cuts each connection after a given number."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.client.hosting import listening_socket, origin_of

Budget = Callable[[], int | None]
"""How many bytes of its answers a new connection is to carry; None for all of them."""


@dataclass
class CuttingProxy:
    """Stands between a client and the server at `port`.

    Attributes:
        cuts: connections that were cut.
    """

    port: int
    budget: Budget
    cuts: int = 0
    _writers: set[StreamWriter] = field(default_factory=set)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Its origin, until the end of the block."""
        with listening_socket() as bound:
            server = await asyncio.start_server(self._serve, sock=bound)
            async with server:
                yield origin_of(bound)
                for writer in self._writers:
                    writer.transport.abort()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers |= {writer, back}
        with suppress(OSError):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_forward(reader, back, None))
                tasks.create_task(self._answer(there, writer, back))

    async def _answer(self, there: StreamReader, writer: StreamWriter, back: StreamWriter) -> None:
        budget = self.budget()
        if await _forward(there, writer, budget):
            self.cuts += 1
        # One after the other: a reset (abort) may throw away what was not read yet, a close does not.
        (writer.transport.abort if self.cuts % 2 else writer.close)()
        back.transport.abort()


async def _forward(reader: StreamReader, writer: StreamWriter, budget: int | None) -> bool:
    """Whether the budget was used up."""
    with suppress(OSError):
        while data := await reader.read(65_536):
            if budget is not None and len(data) >= budget:
                writer.write(data[:budget])
                await writer.drain()
                return True
            budget = None if budget is None else budget - len(data)
            writer.write(data)
            await writer.drain()
    return False
