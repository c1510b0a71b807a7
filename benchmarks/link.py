"""A far link: a relay that delays each byte and carries so many a second."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

from tests.relay import Relay

DELAY, RATE = 0.040, 100_000_000 / 8
"""Seconds there and back, and bytes a second."""


class Link(Relay):
    """A relay that delays each byte and carries so many a second in each direction."""

    def __init__(self, target: int, *, delay: float = DELAY / 2, rate: float = RATE) -> None:
        super().__init__(target)
        self._delay = delay
        self._rate = rate

    async def _carry(self, source: StreamReader, target: StreamWriter, *, counts: bool = False) -> None:
        """As a link does: what is on its way does not hold up what follows. At most a window is on its way."""
        loop = asyncio.get_running_loop()
        way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)
        free = loop.time()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._arrive(way, target))
            with suppress(OSError):
                while chunk := await source.read(65_536):
                    free = max(free, loop.time()) + len(chunk) / self._rate
                    if counts:
                        self.sent += len(chunk)
                    await way.put((free + self._delay, chunk))
            await way.put((free + self._delay, b""))

    async def _arrive(self, way: asyncio.Queue[tuple[float, bytes]], target: StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                at, chunk = await way.get()
                if (left := at - loop.time()) > 0:
                    await asyncio.sleep(left)
                if not chunk:
                    break
                target.write(chunk)
                await target.drain()
        target.close()
