"""A file in memory for libraries that write to a file: pyarrow and zipfile."""

from __future__ import annotations

from io import RawIOBase
from typing import Any


class MemoryFile(RawIOBase):
    """A write-only file whose bytes are handed on while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # The bytes are copied, because Arrow reuses the memory.
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def drain(self) -> bytes:
        """The bytes written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
