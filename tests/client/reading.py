"""Reads what a program writes to a terminal while it runs."""

from __future__ import annotations

import asyncio
import os


async def until(terminal: int, wanted: bytes) -> None:
    """Read from our end of a pseudo-terminal until it is there."""
    loop, seen, there = asyncio.get_running_loop(), bytearray(), asyncio.Event()

    def read() -> None:
        try:
            seen.extend(os.read(terminal, 65_536))
        except OSError:  # the other end is closed
            there.set()
        if wanted in seen:
            there.set()

    loop.add_reader(terminal, read)
    try:
        await asyncio.wait_for(there.wait(), 60)
    finally:
        loop.remove_reader(terminal)
    assert wanted in seen
