"""Workbooks as other programs read them: exact values, texts that are never formulas, several sheets, little memory."""

from __future__ import annotations

import datetime as dt
import gc
import io
import math
import tracemalloc
import zipfile
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from openpyxl import load_workbook
from openpyxl.cell import Cell
from openpyxl.utils.escape import unescape
from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, select
from sqlalchemy.dialects import postgresql

from dualsql.columns.result import ResultColumn, result_columns
from dualsql.errors import BadParameterError, ValueNotRepresentableError
from dualsql.formats import xlsx
from dualsql.formats.writer import StreamEnd, WriterOptions
from dualsql.formats.xlsx import XLSXWriter, letters

things = Table("things", MetaData(), Column("id", BigInteger), Column("value", String))
COLUMNS = result_columns(select(things))


def workbook(rows: list[Any], columns: Any = COLUMNS, pieces: int = 1, **options: Any) -> bytes:
    writer = XLSXWriter(columns, postgresql.dialect(), WriterOptions(**options))
    size = max(1, len(rows) // pieces)
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    data = writer.head() + b"".join([writer.rows(part).data for part in parts])
    return data + writer.end(StreamEnd(len(rows)))


def cells(data: bytes, name: str = "Rows") -> list[list[Cell]]:
    """The cells below the names."""
    sheet = load_workbook(io.BytesIO(data))[name]
    return [list(row) for row in sheet.iter_rows(min_row=2)]  # type: ignore[arg-type]


def cell_of(value: Any, **options: Any) -> Cell:
    return cells(workbook([(1, value)], **options))[0][1]


def text_of(cell: Cell) -> str:
    assert cell.data_type == "s"
    return unescape(str(cell.value))


instant = dt.datetime.fromisoformat

KEPT: dict[str, Any] = {
    "whole": 999_999_999_999_999,
    "negative": -999_999_999_999_999,
    "float": 0.1 + 0.2,
    "large float": 1.7976931348623157e308,
    "small float": 2.2250738585072014e-308,
    "decimal": Decimal("-1234567890.12345"),
    "decimal of zeros": Decimal("1.500000000000000000000"),
    "decimal of a large exponent": Decimal("1E+20"),
    "true": True,
    "false": False,
    "first day": instant("1900-03-01"),
    "last instant": instant("9999-12-31T23:59:59.999"),
    "seconds": instant("2024-02-29T12:30:59"),
    "milliseconds": instant("2024-02-29T12:30:59.001"),
    "time": dt.time(23, 59, 59, 999_000),
    "midnight": dt.time(0),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_value_that_excel_shows_unchanged_keeps_its_type(name: str) -> None:
    given, cell = KEPT[name], cell_of(KEPT[name])
    assert cell.data_type != "s"
    actual = Decimal(repr(cell.value)) if isinstance(given, Decimal) else cell.value
    assert actual == given
    assert isinstance(actual, bool) is isinstance(given, bool)


def test_dates_are_days() -> None:
    cell = cell_of(dt.date(2024, 2, 29))
    assert (cell.value, cell.number_format) == (instant("2024-02-29"), "yyyy\\-mm\\-dd")


TEXTS = [
    (10**15, "1000000000000000"),
    (-(2**63), "-9223372036854775808"),
    (Decimal("1234567890.123456"), "1234567890.123456"),
    (Decimal("1E+400"), "1" + "0" * 400),
    (Decimal("NaN"), "NaN"),
    (math.inf, "Infinity"),
    (math.nan, "NaN"),
    (5e-324, "5e-324"),
    (dt.date(1900, 2, 28), "1900-02-28"),
    (instant("1899-12-31T01:00:00"), "1899-12-31T01:00:00"),
    (instant("2024-02-29T01:02:03.456789"), "2024-02-29T01:02:03.456789"),
    (dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "2024-02-29T00:00:00+00:00"),
    (dt.time(1, 2, 3, 1), "01:02:03.000001"),
    (dt.timedelta(days=-1), "-P1DT0H0M0S"),
    (b"x", "eA=="),
    ([1, None], "[1,null]"),
]


@pytest.mark.parametrize(("value", "written"), TEXTS)
def test_a_value_that_excel_would_change_is_its_text(value: Any, written: str) -> None:
    assert text_of(cell_of(value)) == written


def test_null_has_no_cell_and_an_empty_text_has_one() -> None:
    data = workbook([(None, None), (None, "")])
    sheet = zipfile.ZipFile(io.BytesIO(data)).read("xl/worksheets/sheet1.xml").decode()
    assert '<row r="2"><c r="A2"/></row>' in sheet, "a row of its own, for readers that look at cells"
    assert '<row r="3"><c r="B3" s="1" t="inlineStr"><is><t xml:space="preserve"></t></is></c></row>' in sheet


def test_columns_as_text_and_whole_numbers_as_strings() -> None:
    assert text_of(cells(workbook([(5, "a")], text_columns=("id",)))[0][0]) == "5"
    assert text_of(cells(workbook([(5, "a")], integer_strings=True))[0][0]) == "5"


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "0012", "1e5", "TRUE", "#N/A", "2024-01-01"]
)
def test_no_text_is_evaluated_nor_changed(text: str) -> None:
    cell = cell_of(text)
    assert text_of(cell) == text
    assert cell.number_format == "@", "so it stays a text when a person edits the cell"


_TEXT = st.one_of(
    st.text(max_size=12),
    st.text(alphabet=st.sampled_from("_x0041\x00\x01\r\n\t<>&\"'A \ufffe\uffff\ud800"), max_size=24),
)


@pytest.mark.long
@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), _TEXT), min_size=1, max_size=5), _TEXT.filter(bool))
def test_any_text_comes_back(texts: list[str | None], name: str) -> None:
    column = ResultColumn(name, things.c.value, things.c.value.type)
    data = workbook([(text,) for text in texts], [column])
    # openpyxl does not read escapes.
    assert [None if row[0].value is None else unescape(str(row[0].value)) for row in cells(data)] == texts
    head = load_workbook(io.BytesIO(data))["Rows"]["A1"].value
    assert unescape(str(head)) == name


def test_a_stream_that_is_cut_off_leaves_nothing_to_complete() -> None:
    writer = XLSXWriter(COLUMNS, postgresql.dialect(), WriterOptions())
    writer.head()
    writer.rows([(1, "a")])
    circle: list[Any] = [writer]
    circle.append(circle)
    del writer, circle
    gc.collect()  # an error in a finaliser fails a test


def test_the_next_rows_are_in_a_further_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MOST_ROWS", 3)
    for pieces in (1, 2, 8):
        data = workbook([(number, "x") for number in range(8)], pieces=pieces)
        book = load_workbook(io.BytesIO(data))
        assert book.sheetnames == ["Rows", "Rows 2", "Rows 3"]
        assert [sheet["A1"].value for sheet in book] == ["id"] * 3
        rows = [[row[0].value for row in cells(data, name)] for name in book.sheetnames]
        assert rows == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_sheet_that_is_full_to_its_last_row_has_no_empty_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MOST_ROWS", 3)
    assert load_workbook(io.BytesIO(workbook([(n, "x") for n in range(3)]))).sheetnames == ["Rows"]


def test_a_sheet_of_many_bytes_has_a_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MOST_SHEET_BYTES", 1)
    data = workbook([(number, "x") for number in range(3)], pieces=3)
    assert load_workbook(io.BytesIO(data)).sheetnames == ["Rows", "Rows 2", "Rows 3"]
    assert [cells(data, name)[0][0].value for name in ("Rows", "Rows 2", "Rows 3")] == [0, 1, 2]


def test_the_limits_are_excel_s() -> None:
    assert (xlsx.MOST_ROWS + 1, xlsx.MOST_COLUMNS, xlsx.MOST_CHARACTERS) == (1_048_576, 16_384, 32_767)
    assert letters(16_383) == "XFD"


@pytest.mark.parametrize("text", ["x" * 32_768, "\U0001f600" * 16_384])
def test_a_text_that_no_cell_holds_is_refused(text: str) -> None:
    assert text_of(cell_of(text[: 32_767 if text[0] == "x" else 16_383]))
    with pytest.raises(
        ValueNotRepresentableError, match=r"'value' holds a text of 32,768 characters"
    ) as raised:
        workbook([(1, None), (2, text)])
    assert raised.value.details == {"column": "value", "characters": 32_768}
    assert "csv" in raised.value.hint


def test_a_document_that_no_cell_holds_is_refused() -> None:
    with pytest.raises(ValueNotRepresentableError, match="'value'"):
        workbook([(1, ["x" * 40_000])])


def test_more_columns_than_a_sheet_has() -> None:
    columns = [ResultColumn(f"c{n}", things.c.id, Integer()) for n in range(16_385)]
    with pytest.raises(BadParameterError, match="16,385 columns"):
        workbook([], columns)


def test_equal_rows_are_equal_bytes() -> None:
    assert workbook([(1, "a")]) == workbook([(1, "a")])


def test_a_cut_workbook_is_no_zip_file() -> None:
    writer = XLSXWriter(COLUMNS, postgresql.dialect(), WriterOptions())
    data = writer.head() + writer.rows([(1, "a")]).data
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(data))


@pytest.mark.long
def test_its_memory_does_not_grow_with_its_rows() -> None:
    writer = XLSXWriter(COLUMNS, postgresql.dialect(), WriterOptions())
    writer.head()
    rows = [(number, f"name {number * 7919 % 100_003}") for number in range(1_000)]
    writer.rows(rows)
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(2):
            tracemalloc.reset_peak()
            for _ in range(20):
                writer.rows(rows)
            peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000
    assert peaks[0] < 4_000_000
