"""Content codings of a stream; the rule: what was compressed is flushed, so that rows arrive as they are read.

zstd is of Python 3.14, or of the extra dualsql[zstd].
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

_IN_PLACE = 8 * 1024
"""Bytes that are compressed faster than a thread is woken."""

_GZIP_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Compressor(Protocol):
    """One stream's compression."""

    def compress(self, data: bytes) -> bytes:
        """All of `data`, so that whoever reads can decompress it at once."""
        ...

    def finish(self) -> bytes:
        """What the coding needs at its end."""
        ...


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)

    def compress(self, data: bytes) -> bytes:
        return self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return self._stream.flush()


class _Zstd:
    def __init__(self) -> None:
        self._stream = _ZSTD.ZstdCompressor()

    def compress(self, data: bytes) -> bytes:
        flushed: bytes = self._stream.compress(data, self._stream.FLUSH_BLOCK)
        return flushed

    def finish(self) -> bytes:
        end: bytes = self._stream.flush()
        return end


def _zstd_module() -> Any:
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError:
        return None


_ZSTD = _zstd_module()

CODINGS: Mapping[str, Callable[[], Compressor]] = {"zstd": _Zstd, "gzip": _Gzip} if _ZSTD else {"gzip": _Gzip}
"""What there is, the best first."""


async def compressed(compressor: Compressor | None, data: bytes) -> bytes:
    """`data` in its coding; longer pieces in a thread, because the event loop serves others meanwhile."""
    if compressor is None or not data:
        return data
    if len(data) <= _IN_PLACE:
        return compressor.compress(data)
    return await asyncio.to_thread(compressor.compress, data)
