"""Rows as CSV (RFC 4180). NULL is an empty field; an empty text is "".

A value is written as in JSON, without JSON's quotes. Lists and objects are written as JSON in one field. NaN, Infinity
and -Infinity are written as these words, also inside such fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

import orjson
from sqlalchemy.engine import Dialect

from dualsql.columns.exact import Unfit
from dualsql.columns.result import ResultColumn, is_sqlalchemys_own
from dualsql.errors import DualResponseError
from dualsql.formats import cells, json
from dualsql.formats.fits import loose_encodings
from dualsql.formats.row_objects import columns_at, csv_lines, have_odd_times
from dualsql.formats.writer import Chunk, PlainColumns, Rows, StreamEnd, WriterOptions

# A spreadsheet leaves out what nobody sees before a formula, and East Asian ones read signs of full width. The class
# has all of Unicode's controls, spaces and formats. The page's own CSV has the same pattern (web/static/csv.js).
_UNSEEN = (
    r"\x00-\x20\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_FORMULA = re.compile(rf"[\t\r\n]|[{_UNSEEN}]*+[=+\-@\uff1d\uff0b\uff0d\uff20]")
STRUCTURED = frozenset({"json", "array"})
_NO_QUOTES = bytes(set(range(256)) - set(b'"\n'))


class CSVWriter:
    """A line of column names, then one line for each row.

    With `guard_formulas`, it writes an apostrophe before each cell that a spreadsheet would run as a formula. With
    `excel`, it also writes a byte order mark, without which Excel takes UTF-8 for another encoding, and instants
    without T.
    """

    line_format = "csv"

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        self._columns, self._dialect = columns, dialect
        self._names = [column.name for column in columns]
        self._converters = cells.converters(columns, dialect)
        # In the other columns, cells are as the database stores them: no time is one.
        encodings = loose_encodings(dialect)
        unchecked = [
            place
            for place, column in enumerate(columns)
            if column.encoding not in encodings or not is_sqlalchemys_own(column.type, dialect)
        ]
        self._unchecked = columns_at(unchecked, len(columns))
        self._is_guarded = options.guards
        self._is_for_excel = options.excel
        self._structured = [
            (position, as_json) for position, column in enumerate(columns) if column.encoding in STRUCTURED
        ]

    def head(self) -> bytes:
        mark = b"\xef\xbb\xbf" if self._is_for_excel else b""
        return mark + ",".join([self._name(name) for name in self._names]).encode() + b"\r\n"

    def rows(self, rows: Rows) -> Chunk:
        ready = cells.converted(cells.converted(rows, self._converters), self._structured)
        return Chunk(self._lines(ready), len(rows))

    def written(self, lines: bytes, rows: int) -> Chunk:
        return Chunk(lines, rows)

    @property
    def plain(self) -> PlainColumns | None:
        return None if self._is_guarded else cells.RecordMaker(self._columns, self._dialect).plain

    def end(self, summary: StreamEnd) -> bytes:
        return b""

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return None

    def _name(self, name: str) -> str:
        if self._is_guarded and begins_formula(name):
            return _guarded_cell(name)
        return name if name.isidentifier() else quoted(name)

    def _lines(self, rows: Rows) -> bytes:
        if self._is_guarded:
            return _one_by_one(rows, _excel_cell if self._is_for_excel else _guarded_cell)
        has_odd_times = have_odd_times(self._unchecked(rows))
        lines = csv_lines(json.dumps(rows, has_odd_times=has_odd_times), rows)
        return _one_by_one(rows, _cell) if lines is None else lines


class DatabaseCSVWriter(CSVWriter):
    """Also accepts lines from a database that writes CSV itself."""

    def text(self, lines: bytes) -> Chunk:
        """Whole lines that end in a line feed, with values as in this format."""
        # A line that closes its quotes has an even number of them.
        if b'"' not in lines or b'"' not in lines.translate(None, _NO_QUOTES).replace(b'""', b""):
            ended = lines.replace(b"\n", b"\r\n")
        else:
            # Every second piece is inside quotes, where a line feed belongs to a value.
            pieces = lines.split(b'"')
            pieces[::2] = [piece.replace(b"\n", b"\r\n") for piece in pieces[::2]]
            ended = b'"'.join(pieces)
        return Chunk(ended, len(ended) - len(lines))


@runtime_checkable
class CSVWitness(Protocol):
    """A writer of another format that has to know how the database would write its columns as CSV."""

    def note_csv(self, oids: Sequence[int | None]) -> None:
        """The database's own number of the type of each column that it writes as CSV itself; else None."""
        ...


def begins_formula(text: str) -> bool:
    """Whether a spreadsheet would run a cell with this text."""
    return _FORMULA.match(text) is not None


def csv_writer(columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> CSVWriter:
    """The writer for these options."""
    writer_type = DatabaseCSVWriter if is_database_csv(options) else CSVWriter
    return writer_type(columns, dialect, options)


def is_database_csv(options: WriterOptions) -> bool:
    """Whether a database may write the lines itself: none guards formulas."""
    return not options.guards


def first_record(data: bytes) -> tuple[bytes, bytes]:
    """Split CSV into the first row and the rest; see `Resuming.first_row`."""
    start = quotes = 0
    while (end := data.find(b"\r\n", start)) >= 0:
        quotes += data.count(b'"', start, end)
        if quotes % 2 == 0:
            return data[:end], data[end + 2 :]
        start = end + 2  # inside quotes, where a line break belongs to the value
    return data, b""


def _one_by_one(rows: Rows, cell: Any) -> bytes:
    return "".join([",".join([cell(value) for value in row]) + "\r\n" for row in rows]).encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float | Decimal) and not json.is_finite(value):
        return json.number_word(value)
    text = json.dumps(value)
    if not text.startswith((b'"', b"[", b"{")):
        return text.decode()
    return quoted(orjson.loads(text) if text.startswith(b'"') else text.decode())


def _guarded_cell(value: Any) -> str:
    value = value.text if isinstance(value, Unfit) else value
    if isinstance(value, str):
        return quoted("'" + value) if begins_formula(value) else _cell(value)
    cell = _cell(value)
    if isinstance(value, float | Decimal):
        return quoted("'" + cell) if cell == "-Infinity" else cell
    # Bytes and intervals may begin with a sign, too.
    return f"\"'{cell[1:]}" if cell.startswith('"') and begins_formula(cell[1:]) else cell


def _excel_cell(value: Any) -> str:
    if not isinstance(value, datetime):
        return _guarded_cell(value)
    return (value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)).isoformat(sep=" ")


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def as_json(value: Any) -> str:
    """A list or an object in one cell."""
    return json.dumps(json.with_words(value)).decode()
