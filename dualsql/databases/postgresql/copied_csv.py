"""CSV as PostgreSQL's COPY writes it, for rows that it has sent before and that are kept in another database."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import orjson
from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.formats import cells, json
from dualsql.formats.csv import CSVWriter, is_database_csv, quoted
from dualsql.formats.writer import Chunk, Rows, WriterOptions


def copied_csv_writer(
    columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions, oids: Sequence[int]
) -> CSVWriter:
    """See `Backend.copied_writers`. What COPY cannot write is written as for any database."""
    if is_database_csv(options):
        return CopiedCSVWriter(columns, dialect, options, oids)
    return CSVWriter(columns, dialect, options)


class CopiedCSVWriter(CSVWriter):
    """Writes values as COPY does: only texts that need it are quoted, and times have no zeros.

    Args:
        oids: the OID of the type of each column.
    """

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        dialect: Dialect,
        options: WriterOptions,
        oids: Sequence[int],
    ) -> None:
        super().__init__(columns, dialect, options)
        self._oids = oids
        self._alone = len(oids) == 1

    def rows(self, rows: Rows) -> Chunk:
        lines = [
            ",".join([self._copy(value, oid) for value, oid in zip(row, self._oids, strict=True)])
            for row in cells.converted(rows, self._converters)
        ]
        return Chunk("".join([f"{line}\r\n" for line in lines]).encode(), len(rows))

    def _copy(self, value: Any, oid: int) -> str:
        if value is None:
            return ""
        text = _copied_text(value, oid)
        # A lone \. ends the data of COPY, so PostgreSQL quotes it (copyto.c: CopyAttributeOutCSV).
        is_safe = text and not _QUOTED.intersection(text) and not (self._alone and text == "\\.")
        return text if is_safe else quoted(text)


_QUOTED = frozenset('",\r\n')
# OIDs (src/include/catalog/pg_type.dat).
_JSONB, _FLOAT4 = 3802, 700


def _copied_text(value: Any, oid: int) -> str:
    if oid == _JSONB:
        return _jsonb_text(value)
    if isinstance(value, float):
        return _shortest(repr(value), 6) if oid == _FLOAT4 else _shortest(_inside(value), 15)
    if isinstance(value, datetime | time):
        return _WHOLE_SECONDS.sub("", _TRAILING_ZEROS.sub(r"\1", value.isoformat()))
    if isinstance(value, Decimal) and not json.is_finite(value):
        return json.number_word(value)
    document = json.dumps(value)
    return str(orjson.loads(document)) if document.startswith(b'"') else document.decode()


_TRAILING_ZEROS = re.compile(r"(\.[0-9]*?)0+(?=[+-]|$)")
_WHOLE_SECONDS = re.compile(r"\.(?=[+-]|$)")


def _jsonb_text(value: Any) -> str:
    """A document as PostgreSQL writes a jsonb."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_jsonb_text(key)}: {_jsonb_text(part)}' for key, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_jsonb_text, value))}]"
    return json.dumps(value).decode()


def _shortest(text: str, digits: int) -> str:
    """A number as PostgreSQL writes it: with an exponent from so many digits on, and without a fraction of zero."""
    number = Decimal(text)
    if not number.is_finite():
        return json.number_word(number)
    sign, numerals, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    power = len(numerals) + exponent - 1
    if number == 0 or -4 <= power < digits:
        return format(Decimal((sign, numerals, exponent)), "f")
    first, *rest = map(str, numerals)
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
