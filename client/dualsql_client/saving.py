"""A stream into a file; the rule: under its name stands a whole file or what stood there before."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from dualsql_client.formats import BY_NAME, BY_SUFFIX, Format
from dualsql_client.framing import Block
from dualsql_client.wire import StreamFormat

_BUFFER_BYTES = 1024 * 1024


def format_of(path: Path, name: StreamFormat | None = None) -> Format:
    """The format of that name, or that the suffix names.

    Raises:
        ValueError: there is none.
    """
    found = BY_SUFFIX.get(path.suffix.lower()) if name is None else BY_NAME.get(name)
    if found is None and name is None:
        raise ValueError(f"The file's suffix must be one of {', '.join(BY_SUFFIX)}.")
    if found is None:
        raise ValueError(f"A file can be of {', '.join(BY_NAME)}, not {name}.")
    return found


async def write(blocks: AsyncIterable[Block], path: Path) -> None:
    """Write all blocks beside `path`, and give the file its name when it is whole and on the disk.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{token_hex(4)}.part")
    file = part.open("xb", buffering=_BUFFER_BYTES)
    try:
        with file:
            async for block in blocks:
                await asyncio.to_thread(file.write, block.data)
            await asyncio.to_thread(_settle, file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
