"""Rows as one JSON array."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats.ndjson import NDJSONWriter
from dualsql.formats.writer import ARRAY_SEPARATOR, Chunk, Rows, StreamEnd, WriterOptions


def first_object(data: bytes) -> tuple[bytes, bytes]:
    """Split rows of a JSON array into the first row and the rest; see `Resuming.first_row`."""
    end = data.find(ARRAY_SEPARATOR)
    return (data, b"") if end < 0 else (data[:end], data[end:])


class JSONArrayWriter:
    """One array of objects. A failed stream has no closing bracket, so it is not valid JSON."""

    line_format = "ndjson"

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        self._lines = NDJSONWriter(columns, dialect, options)
        self.plain = self._lines.plain
        self._separator = b""

    def head(self) -> bytes:
        return b"["

    def rows(self, rows: Rows) -> Chunk:
        return self.written(*self._lines.rows(rows)[:2])

    def written(self, lines: bytes, rows: int) -> Chunk:
        data = self._separator + lines.rstrip(b"\n").replace(b"\n", ARRAY_SEPARATOR)
        self._separator = ARRAY_SEPARATOR
        return Chunk(data, rows)

    def end(self, summary: StreamEnd) -> bytes:
        return b"]\n"

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return None
