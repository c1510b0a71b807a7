"""A file in memory for libraries that write to one: Arrow, and zip."""

from __future__ import annotations

from io import RawIOBase
from typing import Any


class TakenFile(RawIOBase):
    """A write-only file for libraries that write to one; `taken` returns the bytes since the last call."""

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

    def taken(self) -> bytes:
        """What was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
