"""Rows as CSV (RFC 4180). NULL is an empty field; an empty text is "".

A value is written as in JSON, without JSON's quotes. Lists and objects are written as JSON in one field. NaN, Infinity
and -Infinity are written as these words, also inside such fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

import orjson
from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats import json
from dualsql.formats.cells import Unfit
from dualsql.formats.writer import Chunk, Rows, StreamEnd, WriterOptions

# A spreadsheet leaves out what nobody sees before a formula, and East Asian ones read signs of full width. The class
# has all of Unicode's controls, spaces and formats. The page's own CSV has the same pattern (web/static/csv.js).
_UNSEEN = (
    r"\x00-\x20\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_FORMULA = re.compile(rf"[\t\r\n]|[{_UNSEEN}]*+[=+\-@\uff1d\uff0b\uff0d\uff20]")
_STRUCTURED = frozenset({"json", "array"})


class CSVWriter:
    """A line of column names, then one line for each row.

    With `guard_formulas`, it writes an apostrophe before each cell that a spreadsheet would run as a formula.
    """

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        self._names = [column.name for column in columns]
        self._converters = json.converters(columns, dialect)
        self._has_times = json.may_hold_times(columns)
        self._is_guarded = options.guard_formulas
        self._structured = [
            (position, _as_json) for position, column in enumerate(columns) if column.encoding in _STRUCTURED
        ]

    def head(self) -> bytes:
        return ",".join([self._name(name) for name in self._names]).encode() + b"\r\n"

    def rows(self, rows: Rows) -> Chunk:
        ready = json.converted(json.converted(rows, self._converters), self._structured)
        return Chunk(self._lines(ready), len(rows))

    def end(self, summary: StreamEnd) -> bytes:
        return b""

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return None

    def _name(self, name: str) -> str:
        if self._is_guarded and begins_formula(name):
            return _guarded_cell(name)
        return name if name.isidentifier() else _quoted(name)

    def _lines(self, rows: Rows) -> bytes:
        if self._is_guarded:
            return _one_by_one(rows, _guarded_cell)
        return _from_json(rows, has_times=self._has_times) or _one_by_one(rows, _cell)


class DatabaseCSVWriter(CSVWriter):
    """Also accepts lines from a database that writes CSV itself."""

    def text(self, lines: bytes) -> Chunk:
        """Whole lines that end in a line feed, with values as in this format."""
        if b'"' not in lines or not any(line.count(b'"') & 1 for line in lines.split(b"\n")):
            return Chunk(lines.replace(b"\n", b"\r\n"), lines.count(b"\n"))
        # Every second piece is inside quotes, where a line feed belongs to a value.
        pieces = lines.split(b'"')
        ended = [piece.replace(b"\n", b"\r\n") for piece in pieces[::2]]
        rows = sum(piece.count(b"\n") for piece in pieces[::2])
        pieces[::2] = ended
        return Chunk(b'"'.join(pieces), rows)


@runtime_checkable
class CSVWitness(Protocol):
    """A writer of another format that has to know how the database would write its columns as CSV."""

    def note_csv(self, written: Sequence[int | None]) -> None:
        """The database's own number of the type of each column that it writes as CSV itself; else None."""
        ...


class CopiedCSVWriter(CSVWriter):
    """Writes values as PostgreSQL does with COPY: only texts that need it are quoted, and times have no zeros.

    Args:
        written: the number of the type of each column in PostgreSQL.
    """

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        dialect: Dialect,
        options: WriterOptions,
        *,
        written: Sequence[int],
    ) -> None:
        super().__init__(columns, dialect, options)
        self._written = written
        self._alone = len(written) == 1

    def rows(self, rows: Rows) -> Chunk:
        lines = [
            ",".join([self._copied(value, kind) for value, kind in zip(row, self._written, strict=True)])
            for row in json.converted(rows, self._converters)
        ]
        return Chunk("".join([f"{line}\r\n" for line in lines]).encode(), len(rows))

    def _copied(self, value: Any, kind: int) -> str:
        if value is None:
            return ""
        text = _copied_text(value, kind)
        # A lone \. ends the data of COPY, so PostgreSQL quotes it (copyto.c: CopyAttributeOutCSV).
        is_safe = text and not _QUOTED.intersection(text) and not (self._alone and text == "\\.")
        return text if is_safe else _quoted(text)


_QUOTED = frozenset('",\r\n')
# OIDs of PostgreSQL (src/include/catalog/pg_type.dat).
_JSONB, _FLOAT4 = 3802, 700


def _copied_text(value: Any, kind: int) -> str:
    if kind == _JSONB:
        return _spaced(value)
    if isinstance(value, float):
        return _shortest(repr(value), 6) if kind == _FLOAT4 else _shortest(_inside(value), 15)
    if isinstance(value, datetime | time):
        return _WHOLE_SECONDS.sub("", _TRAILING_ZEROS.sub(r"\1", value.isoformat()))
    if isinstance(value, Decimal) and not json.is_finite(value):
        return json.word(value)
    written = json.dumps(value)
    return str(orjson.loads(written)) if written.startswith(b'"') else written.decode()


_TRAILING_ZEROS = re.compile(r"(\.[0-9]*?)0+(?=[+-]|$)")
_WHOLE_SECONDS = re.compile(r"\.(?=[+-]|$)")


def _spaced(value: Any) -> str:
    """A document as PostgreSQL writes a jsonb."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_spaced(key)}: {_spaced(part)}' for key, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_spaced, value))}]"
    return json.dumps(value).decode()


def _shortest(text: str, digits: int) -> str:
    """A number as PostgreSQL writes it: with an exponent from so many digits on, and without a fraction of zero."""
    number = Decimal(text)
    if not number.is_finite():
        return json.word(number)
    sign, found, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(found) + exponent - 1
    if number == 0 or -4 <= power < digits:
        return format(Decimal((sign, found, exponent)), "f")
    first, *rest = map(str, found)
    fraction = f".{''.join(rest)}" if rest else ""
    return f"{'-' if sign else ''}{first}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _inside(value: float) -> str:
    """The fewest digits that are nearer to a number of 8 bytes than to any other.

    Python also takes digits that are half-way to the next number (1e23), PostgreSQL does not (acceptBounds in d2s.c).
    Only of whole numbers beyond 2**54 can they be fewer than the number's own.
    """
    shortest = repr(value)
    if not math.isfinite(value) or abs(value) < _MOST_HALVES:
        return shortest
    part, power = math.frexp(value)
    above = 1 << power - 54
    below = above // 2 if abs(part) == 0.5 else above

    def is_inside(text: str) -> bool:
        return -below < abs(int(Decimal(text))) - abs(int(value)) < above

    tried = (f"{value:.{places}e}" for places in range(17))
    return shortest if is_inside(shortest) else next(text for text in tried if is_inside(text))


_MOST_HALVES = 2.0**54


def begins_formula(text: str) -> bool:
    """Whether a spreadsheet would run a cell with this text."""
    return _FORMULA.match(text) is not None


def csv_writer(columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> CSVWriter:
    """The writer for these options. No database guards formulas."""
    chosen = CSVWriter if options.guard_formulas else DatabaseCSVWriter
    return chosen(columns, dialect, options)


def first_record(data: bytes) -> tuple[bytes, bytes]:
    """Split CSV into the first row and the rest; see `Resuming.first_row`."""
    start = quotes = 0
    while (end := data.find(b"\r\n", start)) >= 0:
        quotes += data.count(b'"', start, end)
        if quotes % 2 == 0:
            return data[:end], data[end + 2 :]
        start = end + 2  # inside quotes, where a line break belongs to the value
    return data, b""


def _from_json(rows: Rows, *, has_times: bool) -> bytes | None:
    """The lines cut out of one JSON array of arrays, three times as fast as one by one; None if that is not safe.

    It is safe if no text contains an escape, a bracket or null.
    """
    written = json.dumps(rows, has_times=has_times)
    if b"\\" in written or b"{" in written or written.count(b"[") != len(rows) + 1:
        return None
    nulls = written.count(b"null")
    if nulls and nulls != sum([row.count(None) for row in rows]):
        return None
    return written[2:-2].replace(b"],[", b"\r\n").replace(b"null", b"") + b"\r\n" if rows else b""


def _one_by_one(rows: Rows, cell: Any) -> bytes:
    return "".join([",".join([cell(value) for value in row]) + "\r\n" for row in rows]).encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float | Decimal) and not json.is_finite(value):
        return json.word(value)
    written = json.dumps(value)
    if not written.startswith((b'"', b"[", b"{")):
        return written.decode()
    return _quoted(orjson.loads(written) if written.startswith(b'"') else written.decode())


def _guarded_cell(value: Any) -> str:
    value = value.text if isinstance(value, Unfit) else value
    if isinstance(value, str):
        return _quoted("'" + value) if begins_formula(value) else _cell(value)
    cell = _cell(value)
    if isinstance(value, float | Decimal):
        return _quoted("'" + cell) if cell == "-Infinity" else cell
    # Bytes and intervals may begin with a sign, too.
    return f"\"'{cell[1:]}" if cell.startswith('"') and begins_formula(cell[1:]) else cell


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _as_json(value: Any) -> str:
    return json.dumps(json.with_words(value)).decode()
