"""The messages of an Arrow IPC stream, read without pyarrow."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from dualsql_client.errors import FetchError
from dualsql_client.framing import Block, check_end, ended_early, row_too_large

# https://arrow.apache.org/docs/format/Columnar.html, IPC Streaming Format: a message begins with the continuation
# indicator and the length of its metadata; the length 0 ends the stream.
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + b"\0\0\0\0"
_PREFIX = 8
_SCHEMA, _BATCH = 1, 3
_MAXIMUM_NOTES = 16


class Message(NamedTuple):
    """The metadata of a message.

    Attributes:
        kind: of Message.fbs's MessageHeader: 1 a schema, 2 a dictionary, 3 a batch.
        rows: of a batch.
        notes: the custom metadata of a batch without rows.
    """

    kind: int
    rows: int
    body: int
    notes: dict[str, Any]


class ArrowFramer:
    """Splits a stream into its messages: a block is one message."""

    def __init__(self, maximum_bytes: int) -> None:
        self._maximum_bytes = maximum_bytes
        self._pending = bytearray()
        self._needed = _PREFIX
        self._head: list[Block] = []
        self._has_rows = False
        self._notes: dict[str, Any] | None = None
        self._is_closed = False

    def feed(self, data: bytes) -> list[Block]:
        """See `Framer`."""
        self._pending += data
        if len(self._pending) < self._needed:
            return []
        blocks = list(self._messages())
        # Returned with the first row: if the stream breaks before that, the next attempt begins with the schema.
        if not self._has_rows and not any(block.rows for block in blocks):
            self._head += blocks
            return []
        self._has_rows = True
        return self._take_head() + blocks

    def finish(self, rows: int) -> list[Block]:
        """See `Framer`."""
        if self._notes is None or (not self._is_closed and "problem" not in self._notes):
            raise ended_early()
        check_end(self._notes, self._notes.get("problem"), rows)
        return [*self._take_head(), Block(_END, 0)]

    def forget(self) -> None:
        """See `Framer`."""
        self._pending.clear()
        self._needed, self._notes, self._is_closed = _PREFIX, None, False

    def last_digest(self) -> str | None:
        """See `Framer`."""
        return None

    def _take_head(self) -> list[Block]:
        head, self._head = self._head, []
        return head

    def _messages(self) -> Iterator[Block]:
        while (pair := self._next_message()) is not None:
            if self._notes is not None:
                raise _no_arrow()  # something follows the end
            message, data = pair
            if message.notes:
                self._notes = message.notes
            else:
                yield Block(data, message.rows)

    def _next_message(self) -> tuple[Message, bytes] | None:
        pending = self._pending
        self._needed = _PREFIX
        if self._is_closed or len(pending) < _PREFIX:
            return None
        if pending[:_PREFIX] == _END:
            self._is_closed = True
            return None
        if pending[:4] != _CONTINUES:
            raise _no_arrow()
        start = _PREFIX + self._checked_length(struct.unpack_from("<i", pending, 4)[0])
        self._needed = start
        if len(pending) < start:
            return None
        message = read_message(bytes(pending[_PREFIX:start]))
        self._needed = start + self._checked_length(message.body)
        if len(pending) < self._needed:
            return None
        data = bytes(pending[: self._needed])
        del pending[: self._needed]
        return message, data

    def _checked_length(self, length: int) -> int:
        if length < 0:
            raise _no_arrow()
        if length > self._maximum_bytes:
            raise row_too_large(self._maximum_bytes)
        return length


def read_message(metadata: bytes) -> Message:
    """Read the metadata of a message.

    Raises:
        FetchError: the bytes are no such metadata.
    """
    try:
        return _read_message(_FlatTable(metadata, _offset(metadata, 0)))
    except (struct.error, ValueError, TypeError, RecursionError):
        raise _no_arrow() from None


# The numbers of fields follow Message.fbs; a union (header) has two numbers, of its kind and of its table.
def _read_message(message: _FlatTable) -> Message:
    kind = message.number(1, "<B")
    batch = message.table(2)
    rows = batch.number(0, "<q") if kind == _BATCH and batch is not None else 0
    if rows < 0 or kind not in {_SCHEMA, 2, _BATCH}:
        raise ValueError("no such message")
    if kind == _BATCH and batch is not None and batch.has(3):
        raise ValueError("compressed: a few bytes could become gigabytes")
    notes = dict(message.notes(4)) if kind == _BATCH and not rows else {}
    return Message(
        kind, rows, message.number(3, "<q"), {name: json.loads(text) for name, text in notes.items()}
    )


class _FlatTable:
    """A table of a flatbuffer, whose vtable has the offset of each field."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._vtable = position - _number(data, position, "<i")
        self._size = _number(data, self._vtable, "<H")

    def has(self, field: int) -> bool:
        """Whether a field is present."""
        return bool(self._field(field))

    def number(self, field: int, form: str) -> int:
        """The number in a field; 0 when it is absent."""
        position = self._field(field)
        return _number(self._data, position, form) if position else 0

    def table(self, field: int) -> _FlatTable | None:
        """The table that a field refers to; None when it is absent."""
        position = self._field(field)
        return _FlatTable(self._data, position + _offset(self._data, position)) if position else None

    def text(self, field: int) -> str:
        """The string that a field refers to; empty when it is absent."""
        position = self._field(field)
        if not position:
            return ""
        start = position + _offset(self._data, position)
        length = _number(self._data, start, "<I")
        if start + 4 + length > len(self._data):
            raise ValueError("beyond the end")
        return self._data[start + 4 : start + 4 + length].decode()

    def notes(self, field: int) -> Iterator[tuple[str, str]]:
        """The pairs of a vector of KeyValue."""
        position = self._field(field)
        if not position:
            return
        start = position + _offset(self._data, position)
        for number in range(min(_number(self._data, start, "<I"), _MAXIMUM_NOTES)):
            entry = start + 4 + 4 * number
            pair = _FlatTable(self._data, entry + _offset(self._data, entry))
            yield pair.text(0), pair.text(1)

    def _field(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        offset = _number(self._data, self._vtable + entry, "<H")
        # 0 stands for an absent field (flatbuffers, "Tables").
        return self._position + offset if offset else 0


def _number(data: bytes, position: int, form: str) -> int:
    if position < 0:
        raise ValueError("before the beginning")
    number: int = struct.unpack_from(form, data, position)[0]
    return number


def _offset(data: bytes, position: int) -> int:
    return _number(data, position, "<I")


def _no_arrow() -> FetchError:
    return FetchError("The stream is not an Arrow IPC stream.", status=200)
