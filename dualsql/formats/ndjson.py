"""Rows as JSON lines, or as one JSON array; the rule: the last record says whether the stream is whole.

NDJSON: one object a line, then {"$summary": {"rows": n, "complete": true}} or {"$problem": {...}}.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Dialect

from dualsql.columns import ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats import json
from dualsql.formats.writer import Chunk, Options, Rows, Summary


class NDJSONWriter:
    """One object a line."""

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: Options) -> None:
        self._columns = columns
        self._dialect = dialect
        self._as_strings = json.integer_columns(columns) if options.integer_strings else ()

    def head(self) -> bytes:
        return b""

    def rows(self, rows: Rows) -> Chunk:
        records = json.records(self._columns, rows, self._dialect, integer_strings=self._as_strings)
        return Chunk(b"".join(json.dumps(record) + b"\n" for record in records), len(rows))

    def end(self, summary: Summary) -> bytes:
        return json.dumps({"$summary": summary._asdict()}) + b"\n"

    def failure(self, error: DualResponseError, summary: Summary) -> bytes | None:
        problem = {"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}
        return json.dumps({"$problem": problem | summary._asdict()}) + b"\n"


class JSONArrayWriter:
    """One array of objects; a stream that failed lacks its closing bracket."""

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: Options) -> None:
        self._lines = NDJSONWriter(columns, dialect, options)
        self._separator = b""

    def head(self) -> bytes:
        return b"["

    def rows(self, rows: Rows) -> Chunk:
        chunk = self._lines.rows(rows)
        data = self._separator + chunk.data.rstrip(b"\n").replace(b"\n", b",\n")
        self._separator = b",\n"
        return Chunk(data, chunk.rows)

    def end(self, summary: Summary) -> bytes:
        return b"]\n"

    def failure(self, error: DualResponseError, summary: Summary) -> bytes | None:
        return None
