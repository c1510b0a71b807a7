"""Processes of the load as their parent sees them. What a process said is kept, also when it was killed."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.store.load import Order

ROOT = Path(__file__).parents[2]


class Worker:
    """A running process of `tests.store.load`, and what it has said so far.

    Attributes:
        events: lines as lists: the event, its moment, its facts.
        ended: when it was killed; infinity for one that came to its end.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._news = asyncio.Event()
        self.events: list[list[Any]] = []
        self.ended = float("inf")
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.endswith(b"\n"):  # the last one of a killed process may be cut
                self.events.append(json.loads(line))
                self._news.set()
        self._news.set()

    async def said(self, number: int) -> None:
        """Wait until it has said so many lines."""
        while len(self.events) < number and not self._listening.done():
            self._news.clear()
            await self._news.wait()

    async def kill(self) -> None:
        """SIGKILL; then read what is left in the pipe. One that ended by itself fails the test with its last words."""
        if self._listening.done():
            raise AssertionError(f"It ended by itself: {await self.finish()}")
        self.ended = time.monotonic()
        self._process.kill()
        await self._listening
        await self._process.wait()

    async def finish(self) -> str:
        """Wait for its end; what it wrote to stderr."""
        assert self._process.stderr is not None
        errors, _ = await asyncio.gather(self._process.stderr.read(), self._listening)
        await self._process.wait()
        return errors.decode()

    def facts(self, event: str) -> list[Any]:
        """The first fact of each such event."""
        return [line[2] for line in self.events if line[0] == event]

    def reads(self) -> Counter[str]:
        """How often it read each resource."""
        return Counter(self.facts("read"))

    def counted(self) -> Counter[str]:
        """What it read of each resource before the beginning of the last write of its count that ended."""
        begun = {name: line[2] for line in self.events if line[0] == "counted" for name in line[3]}
        return Counter(
            line[2] for line in self.events if line[0] == "read" and line[1] < begun.get(line[2], 0.0)
        )

    def expiries(self) -> Iterable[tuple[str, datetime]]:
        """What its pages said of when their resource expires."""
        for event, _, *facts in self.events:
            if event == "read" and facts[1] is not None:
                yield facts[0], datetime.fromisoformat(facts[1])


@asynccontextmanager
async def working(order: Order) -> AsyncIterator[Worker]:
    """A process that follows the order; killed at the end of the block if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.store.load", order.to_json(), cwd=ROOT, stdout=PIPE, stderr=PIPE
    )
    worker = Worker(process)
    try:
        yield worker
    finally:
        if process.returncode is None:
            await worker.kill()
