"""Rows as CSV (RFC 4180); the rule: NULL is an empty field."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy.engine import Dialect

from dualsql.columns import ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats import json
from dualsql.formats.writer import Chunk, Options, Rows, Summary

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CSVWriter:
    """A line of names, then one for each row."""

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: Options) -> None:
        self._columns = columns
        self._dialect = dialect
        self._guard = options.guard_formulas

    def head(self) -> bytes:
        return self._lines([[column.name for column in self._columns]])

    def rows(self, rows: Rows) -> Chunk:
        records = json.records(self._columns, rows, self._dialect)
        plain = orjson.loads(json.dumps(records))
        return Chunk(self._lines([[self._cell(value) for value in row.values()] for row in plain]), len(rows))

    def end(self, summary: Summary) -> bytes:
        return b""

    def failure(self, error: DualResponseError, summary: Summary) -> bytes | None:
        return None

    def _lines(self, rows: Sequence[Sequence[Any]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, lineterminator="\r\n").writerows(rows)
        return text.getvalue().encode()

    def _cell(self, value: Any) -> Any:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list | dict):
            return orjson.dumps(value).decode()
        if self._guard and isinstance(value, str) and value.startswith(_FORMULA):
            return "'" + value
        return value
