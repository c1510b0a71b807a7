"""Rows as NDJSON, one object a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats import cells, json
from dualsql.formats.writer import Chunk, Rows, StreamEnd, WriterOptions


class NDJSONWriter:
    """One object a line; the last line says whether the stream is complete.

    It is {"$summary": {"rows": n, "complete": true}} or {"$problem": {"code": ..., "message": ..., "rows": n, ...}}.
    With `summary=False` there is no such line, and a stream that fails is cut off.
    """

    line_format = "ndjson"

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        as_strings = cells.integer_columns(columns) if options.integer_strings else ()
        self._has_summary = options.summary
        self._records = cells.RecordMaker(
            columns, dialect, integer_strings=as_strings, text_columns=options.text_columns
        )
        self.plain = self._records.plain

    def head(self) -> bytes:
        return b""

    def rows(self, rows: Rows) -> Chunk:
        return self.written(self._records.lines(rows), len(rows))

    def written(self, lines: bytes, rows: int) -> Chunk:
        return Chunk(lines, rows)

    def end(self, summary: StreamEnd) -> bytes:
        return json.dumps({"$summary": summary._asdict()}) + b"\n" if self._has_summary else b""

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return json.dumps({"$problem": problem(error, summary)}) + b"\n" if self._has_summary else None


def problem(error: DualResponseError, summary: StreamEnd) -> dict[str, Any]:
    """The last record of a failed stream: the error, and the number of rows sent before it."""
    message = error.for_caller._asdict()
    return {"code": error.code, **message, "details": error.details, **summary._asdict()}


def first_line(data: bytes) -> tuple[bytes, bytes]:
    """Split NDJSON into the first row and the rest; see `Resuming.first_row`."""
    row, _, rest = data.partition(b"\n")
    return row, rest
