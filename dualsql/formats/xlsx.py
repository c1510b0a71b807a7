"""Rows as an Excel workbook (ECMA-376), written row by row into a zip of parts.

A cell has its value's own type if Excel shows the value unchanged: a number of at most 15 digits, a boolean, a date or
time of whole milliseconds. All other values are texts, as in CSV. NULL has no cell. A text is an inline string with the
number format of texts, so no spreadsheet evaluates it as a formula, also after it was edited.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.errors import BadParameterError, DualResponseError, ValueNotRepresentableError
from dualsql.formats import cells, json
from dualsql.formats.csv import STRUCTURED, as_json
from dualsql.formats.memory_file import MemoryFile
from dualsql.formats.writer import Chunk, Rows, StreamEnd, WriterOptions

# "Excel specifications and limits", https://support.microsoft.com: 1,048,576 rows, 16,384 columns, 32,767 characters.
MOST_ROWS = 1_048_575
"""Rows of one sheet, below its line of names. The next rows are in a further sheet, with the same names."""

MOST_COLUMNS = 16_384

MOST_CHARACTERS = 32_767
"""Of one cell, in UTF-16 units."""

MOST_SHEET_BYTES = 2**30
"""Bytes of XML after which a further sheet begins. zipfile writes parts of up to 2 GiB without ZIP64."""


class XLSXWriter:
    """A workbook. A failed stream has no central directory, so it is not a valid zip file.

    Raises:
        BadParameterError: there are more columns than a sheet has.
        ValueNotRepresentableError: the name of a column is too long for a cell.
    """

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        if len(columns) > MOST_COLUMNS:
            raise BadParameterError(
                f"The result has {len(columns):,} columns. A sheet of Excel has at most {MOST_COLUMNS:,}.",
                hint="Ask for fewer columns, or for csv.",
            )
        as_strings = cells.integer_columns(columns) if options.integer_strings else ()
        self._converters = cells.converters(columns, dialect, integer_strings=as_strings)
        self._structured = [
            (position, as_json) for position, column in enumerate(columns) if column.encoding in STRUCTURED
        ]
        self._texts = [
            position for position, column in enumerate(columns) if column.name in options.text_columns
        ]
        self._columns = [
            _ColumnWriter(letters(position), column.name) for position, column in enumerate(columns)
        ]
        names = "".join(column.heading() for column in self._columns)
        self._sheet_head = _SHEET_HEAD.format(
            widths="".join(_width(position, column) for position, column in enumerate(columns, 1)),
            names=names,
        ).encode()
        self._book = _Book()
        self._rows = self._size = 0

    def head(self) -> bytes:
        self._next_sheet()
        return self._book.drain()

    def rows(self, rows: Rows) -> Chunk:
        ready = cells.converted(cells.converted(rows, self._converters), self._structured)
        ready = cells.with_texts(ready, self._texts)
        start = size = 0
        while start < len(ready):
            if self._rows == MOST_ROWS or self._size > MOST_SHEET_BYTES:
                self._next_sheet()
            part = ready[start : start + MOST_ROWS - self._rows]
            data = self._lines(part)
            self._book.write(data)
            start, size = start + len(part), size + len(data)
            self._rows, self._size = self._rows + len(part), self._size + len(data)
        return Chunk(self._book.drain(), len(rows), size)

    def end(self, summary: StreamEnd) -> bytes:
        self._book.write(_SHEET_END)
        self._book.close(summary)
        return self._book.drain()

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return None

    def _next_sheet(self) -> None:
        if self._book.sheets:
            self._book.write(_SHEET_END)
        self._book.add_sheet()
        self._book.write(self._sheet_head)
        self._rows = self._size = 0

    def _lines(self, rows: Rows) -> bytes:
        first = self._rows + 2
        # Rows are equally long.
        cells = [column.cells(values, first) for column, values in zip(self._columns, zip(*rows))]  # noqa: B905
        lines = enumerate(map("".join, zip(*cells)), first)  # noqa: B905
        # Readers such as openpyxl take rows without a cell for the end of the sheet.
        return "".join(
            [f'<row r="{number}">{line or f"""<c r="A{number}"/>"""}</row>' for number, line in lines]
        ).encode()


class _ColumnWriter:
    """Writes the cells of one column."""

    def __init__(self, at: str, name: str) -> None:
        self._at = at
        self._name = name

    def heading(self) -> str:
        """The cell with the name of the column."""
        self._require_short(self._name)
        return _text_cell(f"{self._at}1", escape(self._name), _Style.HEADING)

    def cells(self, values: Sequence[Any], first: int) -> list[str]:
        """The cells of some rows; the first row has this number in its sheet."""
        kinds = set(map(type, values)) - {type(None)}
        if kinds == {str}:
            return self._texts(values, first)
        if kinds == {int} and max(map(abs, filter(None, values)), default=0) < _FIFTEEN_DIGITS:
            at = self._at
            return [
                "" if value is None else f'<c r="{at}{row}"><v>{value}</v></c>'
                for row, value in enumerate(values, first)
            ]
        return [self._cell(f"{self._at}{row}", value) for row, value in enumerate(values, first)]

    def _texts(self, values: Sequence[str | None], first: int) -> list[str]:
        # One search of all texts takes a tenth of the time of escaping each.
        present = list(filter(None, values))
        if max(map(len, present), default=0) > MOST_CHARACTERS // 2:
            for value in present:
                self._require_short(value)
        if _TO_ESCAPE.search("".join(present)):
            values = [value and escape(value) for value in values]
        return [
            "" if text is None else _text_cell(f"{self._at}{row}", text)
            for row, text in enumerate(values, first)
        ]

    def _cell(self, at: str, value: Any) -> str:
        if value is None:
            return ""
        typed = _TYPED[type(value)](value) if type(value) in _TYPED else None
        if typed is not None:
            return f'<c r="{at}"{typed[0]}><v>{typed[1]}</v></c>'
        text = json.text(value)
        self._require_short(text)
        return _text_cell(at, escape(text))

    def _require_short(self, text: str) -> None:
        if len(text) <= MOST_CHARACTERS // 2:
            return
        size = len(text.encode("utf-16-le", "surrogatepass")) // 2
        if size > MOST_CHARACTERS:
            name = self._name[:80]
            raise ValueNotRepresentableError(
                f"The column {name!r} holds a text of {size:,} characters. A cell of Excel has at most "
                f"{MOST_CHARACTERS:,}.",
                hint=f"Leave the column {name!r} out, shorten it in the query, or use another format: csv.",
                details={"column": self._name, "characters": size},
            )


def letters(position: int) -> str:
    """The letters of a column, counted from 0: A, B, ..., Z, AA."""
    name = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


# XML has no such characters, and readers of XML take a return for a line feed.
_UNWRITABLE = "\x00-\x08\x0b-\x1f\ufffe\uffff\ud800-\udfff"
_TO_ESCAPE = re.compile(f"[&<>{_UNWRITABLE}]|_x")
# A text that looks like such an escape is escaped itself (ECMA-376 part 1, 22.9.2.19).
_ESCAPED = re.compile(f"[{_UNWRITABLE}]|_(?=x[0-9A-Fa-f]{{4}}[_{_UNWRITABLE}])")


def escape(text: str) -> str:
    """A text as the content of an element `t`. Characters that XML cannot hold are written as _xHHHH_."""
    if _TO_ESCAPE.search(text) is None:
        return text
    text = _ESCAPED.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Style:
    """Positions in `cellXfs` of the part styles.xml, as attributes of a cell."""

    TEXT = ' s="1"'
    DATE = ' s="2"'
    SECONDS = ' s="3"'
    MILLISECONDS = ' s="4"'
    TIME = ' s="5"'
    TIME_MILLISECONDS = ' s="6"'
    HEADING = ' s="7"'


def _text_cell(at: str, text: str, style: str = _Style.TEXT) -> str:
    return f'<c r="{at}"{style} t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'


Typed = tuple[str, object]
"""The attributes and the content of a cell."""

_FIFTEEN_DIGITS = 10**15
"""Excel shows 15 digits of a number, and zeros for the others."""


def _integer(value: int) -> Typed | None:
    return ("", value) if -_FIFTEEN_DIGITS < value < _FIFTEEN_DIGITS else None


def _float(value: float) -> Typed | None:
    is_kept = value == 0 or sys.float_info.min <= abs(value) < math.inf  # Excel takes smaller ones for 0
    return ("", repr(value)) if is_kept else None


def _decimal(value: Decimal) -> Typed | None:
    if not value.is_finite():
        return None
    number = float(value)
    digits = f"{number:.15g}"
    return ("", digits) if _float(number) and Decimal(digits) == value else None


_EPOCH = dt.datetime(1899, 12, 30)  # noqa: DTZ001 - a spreadsheet's instants have no zone
# Spreadsheets disagree on earlier days: Excel counts a 29 February 1900, others do not.
_FIRST_DAY = dt.date(1900, 3, 1)
_DAY = dt.timedelta(days=1)


def _date(value: dt.date) -> Typed | None:
    return (_Style.DATE, (value - _EPOCH.date()).days) if value >= _FIRST_DAY else None


def _datetime(value: dt.datetime) -> Typed | None:
    if value.tzinfo is not None or value.date() < _FIRST_DAY or value.microsecond % 1000:
        return None
    return (_Style.MILLISECONDS if value.microsecond else _Style.SECONDS, (value - _EPOCH) / _DAY)


def _time(value: dt.time) -> Typed | None:
    if value.tzinfo is not None or value.microsecond % 1000:
        return None
    passed = dt.datetime.combine(_EPOCH, value) - _EPOCH
    return (_Style.TIME_MILLISECONDS if value.microsecond else _Style.TIME, passed / _DAY)


_TYPED: Mapping[type[Any], Callable[[Any], Typed | None]] = {
    bool: lambda value: (' t="b"', int(value)),
    int: _integer,
    float: _float,
    Decimal: _decimal,
    dt.date: _date,
    dt.datetime: _datetime,
    dt.time: _time,
}
"""By class, what writes a value as it is. It returns None for a value that Excel would change."""


_WIDTHS = {
    "date": 11,
    "datetime": 24,
    "time": 13,
    "decimal": 14,
    "float": 14,
    "text": 24,
    "json": 24,
    "uuid": 37,
}


def _width(position: int, column: ResultColumn) -> str:
    # A date in a narrow column is shown as ####.
    width = max(_WIDTHS.get(column.encoding, 9), min(len(column.name) + 2, 40))
    return f'<col min="{position}" max="{position}" width="{width}" customWidth="1"/>'


class _Book:
    """The zip file, part by part.

    Attributes:
        sheets: the number of sheets so far.
    """

    def __init__(self) -> None:
        # zipfile writes sizes and checksums after each part, since it cannot seek.
        self._sink = MemoryFile()
        # The lowest level: 60 % of the time of the usual one, for a tenth more bytes.
        self._zip = _Zip(self._sink, "w", ZIP_DEFLATED, compresslevel=1)
        self._part: IO[bytes] | None = None
        self.sheets = 0

    def add_sheet(self) -> None:
        """Begin a further sheet."""
        self.sheets += 1
        self._begin(f"xl/worksheets/sheet{self.sheets}.xml")

    def write(self, data: bytes) -> None:
        """Write into the present part."""
        assert self._part is not None, "add_sheet was called"
        self._part.write(data)

    def close(self, summary: StreamEnd) -> None:
        """Write the parts that name the sheets, and the end of the file."""
        numbers = range(1, self.sheets + 1)
        for name, template in _PARTS.items():
            each = _FOR_EACH_SHEET.get(name, "")
            inside = "".join(each.format(n=n, name=f"Rows {n}" if n > 1 else "Rows") for n in numbers)
            self._begin(name)
            self.write(template.format(sheets=inside, rows=summary.rows).encode())
        self._end_part()
        self._zip.close()

    def drain(self) -> bytes:
        """The bytes written since the last call."""
        return self._sink.drain()

    def _begin(self, name: str) -> None:
        self._end_part()
        part = ZipInfo(name)  # its time is that of the format's begin, so that equal rows are equal bytes
        part.compress_type = ZIP_DEFLATED
        self._part = self._zip.open(part, "w")

    def _end_part(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None


class _Zip(ZipFile):
    def __del__(self) -> None:
        """ZipFile would complete the file of a stream that was cut off, or fail to."""


_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_TYPE = "application/vnd.openxmlformats-officedocument"

_SHEET_HEAD = (
    f'{_XML}<worksheet {_MAIN}><sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" '
    'activePane="bottomLeft" state="frozen"/></sheetView></sheetViews><cols>{widths}</cols><sheetData>'
    '<row r="1">{names}</row>'
)
_SHEET_END = b"</sheetData></worksheet>"

_STYLES = (
    f"{_XML}<styleSheet {_MAIN}>"
    '<numFmts count="5"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
    '<numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/>'
    '<numFmt numFmtId="166" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss.000"/>'
    '<numFmt numFmtId="167" formatCode="hh:mm:ss;@"/><numFmt numFmtId="168" formatCode="hh:mm:ss.000;@"/></numFmts>'
    '<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    '<cellXfs count="8">{formats}</cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
).replace(
    "{formats}",
    "".join(
        f'<xf numFmtId="{number}" fontId="{font}" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
        for number, font in ((0, 0), (49, 0), (164, 0), (165, 0), (166, 0), (167, 0), (168, 0), (49, 1))
    ),
)

_PARTS = {
    "xl/styles.xml": _STYLES,
    "xl/workbook.xml": (
        f'{_XML}<workbook {_MAIN} xmlns:r="{_OFFICE}/relationships"><sheets>{{sheets}}</sheets></workbook>'
    ),
    "xl/_rels/workbook.xml.rels": (
        f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">{{sheets}}'
        f'<Relationship Id="styles" Type="{_OFFICE}/relationships/styles" Target="styles.xml"/></Relationships>'
    ),
    "docProps/custom.xml": (
        f'{_XML}<Properties xmlns="{_OFFICE}/custom-properties" xmlns:vt="{_OFFICE}/docPropsVTypes">'
        '<property fmtid="{{D5CDD505-2E9C-101B-9397-08002B2CF9AE}}" pid="2" name="dualsql.rows">'
        "<vt:r8>{rows}</vt:r8></property></Properties>"
    ),
    "_rels/.rels": (
        f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="book" Type="{_OFFICE}/relationships/officeDocument" Target="xl/workbook.xml"/>'
        f'<Relationship Id="custom" Type="{_OFFICE}/relationships/custom-properties" Target="docProps/custom.xml"/>'
        "</Relationships>"
    ),
    "[Content_Types].xml": (
        f'{_XML}<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.spreadsheetml.sheet.main+xml"/>{{sheets}}'
        f'<Override PartName="/xl/styles.xml" ContentType="{_TYPE}.spreadsheetml.styles+xml"/>'
        f'<Override PartName="/docProps/custom.xml" ContentType="{_TYPE}.custom-properties+xml"/></Types>'
    ),
}
"""The parts besides the sheets."""

_FOR_EACH_SHEET = {
    "xl/workbook.xml": '<sheet name="{name}" sheetId="{n}" r:id="sheet{n}"/>',
    "xl/_rels/workbook.xml.rels": (
        f'<Relationship Id="sheet{{n}}" Type="{_OFFICE}/relationships/worksheet" Target="worksheets/sheet{{n}}.xml"/>'
    ),
    "[Content_Types].xml": (
        '<Override PartName="/xl/worksheets/sheet{n}.xml" '
        f'ContentType="{_TYPE}.spreadsheetml.worksheet+xml"/>'
    ),
}
