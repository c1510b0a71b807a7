"""Waiting for what happens in another task, process or database, and tells nobody: ask until it is so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from dualsql.log import _writer

Found = TypeVar("Found")

PATIENCE = 60.0
"""Seconds until it fails. Two cores may be shared by many: a busy machine took 20 s for what takes 0.1 s."""
PAUSE = 0.01
"""Seconds between two questions. Without it, asking takes the time of those who are waited for."""


async def until(
    ask: Callable[[], Awaitable[Found]],
    holds: Callable[[Found], Any] = bool,
    *,
    patience: float = PATIENCE,
) -> Found:
    """The first answer that `holds`; `ask` is called again until there is one."""
    async with asyncio.timeout(patience):
        while not holds(answer := await ask()):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(PAUSE)
    return answer


def wait_until_logged() -> None:
    """Wait until the thread of `dualsql.log` has written all tracebacks."""
    _writer().submit(int).result()


async def longest_pause(work: Awaitable[Found]) -> tuple[Found, float]:
    """The most CPU time of this process between two turns of the event loop. Other processes do not count."""
    pauses = [0.0]

    async def watch() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            pauses.append(now - last)
            last = now

    watching = asyncio.create_task(watch())
    try:
        return await work, max(pauses)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
