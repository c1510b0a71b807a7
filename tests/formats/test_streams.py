"""Each format of a stream by itself: its head, its rows in any number of pieces, its end, and the end of a failure."""

from __future__ import annotations

import io
import json
import json as stdlib
import math
import sys
import time
import unicodedata
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import parquet
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Double,
    Float,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    func,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import NullType

from dualsql.columns.result import ResultColumn, result_columns
from dualsql.errors import BadParameterError, LimitExceededError, ValueNotRepresentableError
from dualsql.formats.csv import DatabaseCSVWriter, begins_formula
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import StreamEnd, Writer, WriterOptions
from tests.databases.streams.reading import read, read_csv

DIALECT = postgresql.dialect()
things = Table(
    "things",
    MetaData(),
    Column("id", Integer),
    Column("text", String),
    Column("flag", Boolean),
    Column("number", Float),
    Column("price", Numeric(10, 2)),
    Column("json", JSON),
)
COLUMNS = result_columns(select(things))
ROWS = [
    (1, "a", True, 0.5, Decimal("1.50"), {"k": [1]}),
    (2, "", False, None, None, None),
    (3, 'q"uote,\r\n', None, 1e300, Decimal("-2.00"), "text"),
]
DAY = timedelta(hours=24) - timedelta.resolution
PROBLEM = LimitExceededError("Too much.", hint="Ask for less.", details={"limit": "rows"})


def writer(format_name: str, columns: Any = COLUMNS, **options: Any) -> Writer:
    return FORMATS[format_name].writer(columns, DIALECT, WriterOptions(**options))


def whole(format_name: str, pieces: list[list[Any]], columns: Any = COLUMNS, **options: Any) -> bytes:
    one = writer(format_name, columns, **options)
    data = one.head() + b"".join([one.rows(rows).data for rows in pieces])
    return data + one.end(StreamEnd(sum(map(len, pieces))))


@pytest.mark.parametrize("format_name", FORMATS)
def test_however_it_is_cut(format_name: str) -> None:
    once = read(format_name, whole(format_name, [ROWS]), COLUMNS)
    assert read(format_name, whole(format_name, [[row] for row in ROWS]), COLUMNS) == once
    assert once["text"] == [row[1] for row in ROWS]
    assert once["price"] == [row[4] for row in ROWS]
    assert once["json"] == [{"k": [1]}, None, "text"]


@pytest.mark.parametrize("format_name", [name for name in FORMATS if FORMATS[name].is_stateless])
def test_a_writer_without_a_state_writes_several_streams_at_once(format_name: str) -> None:
    """Results keep such a writer for all of their streams."""
    shared = writer(format_name)
    streams = [shared.head(), shared.head()]
    for row in ROWS:
        streams = [data + shared.rows([row]).data for data in streams]
    streams[0] += shared.end(StreamEnd(len(ROWS)))
    assert shared.failure(PROBLEM, StreamEnd(len(ROWS))) == writer(format_name).failure(
        PROBLEM, StreamEnd(len(ROWS))
    )
    streams[1] += shared.end(StreamEnd(len(ROWS)))
    assert streams == [whole(format_name, [[row] for row in ROWS])] * 2


# fromisoformat() of Python 3.11 reads less than a second as UTC.
ZONES = st.timedeltas(-DAY, DAY).filter(lambda span: not span or abs(span) >= timedelta(seconds=1))


@given(
    st.lists(
        st.none() | st.datetimes(timezones=ZONES.map(timezone) | st.timezones()),
        min_size=1,
    )
)
def test_every_format_has_the_exact_instant_of_any_zone(instants: list[datetime | None]) -> None:
    """orjson writes zones in whole minutes."""
    moments = Table("moments", MetaData(), Column("id", Integer), Column("at", DateTime(timezone=True)))
    columns = result_columns(select(moments))
    rows = [(place, instant) for place, instant in enumerate(instants)]
    texts = [instant and instant.isoformat() for instant in instants]
    for format_name in ("ndjson", "json", "csv", "xlsx"):
        actual = read(format_name, whole(format_name, [rows], columns), columns)["at"]
        assert [instant and instant.isoformat() for instant in actual] == texts, format_name
    assert whole("csv", [rows], columns) == whole("csv", [[row] for row in rows], columns)


def test_null_is_not_an_empty_text_in_csv() -> None:
    lines = whole("csv", [ROWS[:2]]).split(b"\r\n")
    assert lines == [
        b"id,text,flag,number,price,json",
        b'1,"a",true,0.5,"1.50","{""k"":[1]}"',
        b'2,"",false,,,',
        b"",
    ]


def test_names_that_need_quotes() -> None:
    odd = Table("odd", MetaData(), Column("a,b", Integer), Column('q"', Integer), Column("=1", Integer))
    columns = result_columns(select(odd))
    assert whole("csv", [], columns) == b'"a,b","q""","=1"\r\n'
    assert whole("csv", [], columns, guard_formulas=True).endswith(b',"\'=1"\r\n')


UNSEEN = [
    sign
    for sign in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(sign) in {"Cc", "Cf", "Zs", "Zl", "Zp"}
]


def test_a_formula_is_one_behind_whatever_nobody_sees() -> None:
    """Each control, format sign, blank and line end of Unicode, alone, twice and among others."""
    for sign in UNSEEN:
        for formula in "=+-@\uff1d\uff0b\uff0d\uff20":
            assert all(
                map(begins_formula, (f"{sign}{formula}1", f"{sign * 2}{formula}", f" {sign}\n{formula}x"))
            )
    assert not any(map(begins_formula, ("", "x", "1", "x=1", " x=1", "'=1", "\ufeffx", "\x00", " ", "é-")))


def test_a_long_cell_of_blanks_is_read_once() -> None:
    started = time.process_time()
    assert not begins_formula(" " * 5_000_000)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\tx",
        "\rx",
        "\nx",
        " =1",
        "\n=1",
        "\r\n=1",
        "\x00=1",
        "\ufeff=1",
        "\u3000\uff1d1",
    ],
)
def test_formulas_are_guarded_when_asked(text: str) -> None:
    row = (1, text, None, -1.5, Decimal("-1.50"), None)
    assert read_csv(whole("csv", [[row]], guard_formulas=True))["text"] == ["'" + text]
    assert read_csv(whole("csv", [[row]], guard_formulas=True))["price"] == ["-1.50"]
    assert read_csv(whole("csv", [[row]]))["text"] == [text]


def test_csv_for_excel() -> None:
    kinds: dict[str, Any] = {"text": String(), "at": DateTime(), "zoned": DateTime(timezone=True)}
    table = Table("instants", MetaData(), *(Column(name, kind) for name, kind in kinds.items()))
    columns = result_columns(select(table))
    at = datetime.fromisoformat("2026-01-31T08:30:00")
    row = (" \ufeff=1+1", at, at.replace(tzinfo=timezone(timedelta(hours=2))))
    written = whole("csv", [[row]], columns, excel=True)
    assert written.startswith(b"\xef\xbb\xbftext,at,zoned\r\n")
    assert (
        written.decode("utf-8-sig").splitlines()[1]
        == '"\' \ufeff=1+1",2026-01-31 08:30:00,2026-01-31 06:30:00'
    )


def test_whatever_is_no_number_is_guarded() -> None:
    """Bytes and intervals may begin with a sign, and a spreadsheet takes -Infinity for a name."""
    kinds: dict[str, Any] = {"blob": LargeBinary(), "span": Interval(), "ratio": Double(), "price": Numeric()}
    table = Table("signed", MetaData(), *(Column(name, kind) for name, kind in kinds.items()))
    columns = result_columns(select(table))
    row = (b"\xf8\xff", timedelta(seconds=-5), -math.inf, Decimal("-1.50"))
    written = whole("csv", [[row]], columns, guard_formulas=True).splitlines()[1]
    assert written == b'"\'+P8=","\'-P0DT0H0M5S","\'-Infinity","-1.50"'


def test_numbers_that_are_none() -> None:
    rows = [
        (number, None, None, float(word), Decimal(word), None)
        for number, word in enumerate(("NaN", "Infinity", "-Infinity"))
    ]
    words = read_csv(whole("csv", [rows]))
    assert words["number"] == words["price"] == ["NaN", "Infinity", "-Infinity"]
    lines = map(stdlib.loads, whole("ndjson", [rows]).splitlines()[:-1])
    assert [(row["number"], row["price"], row["$unfit"]) for row in lines] == [
        (word, word, ["number", "price"]) for word in ("NaN", "Infinity", "-Infinity")
    ]


def test_a_number_beyond_doubles_is_no_infinity() -> None:
    rows = [(1, None, None, None, Decimal("1E+400"), [Decimal("-1E+400")])]
    records = read_csv(whole("csv", [rows]))
    assert records["price"] == ["1" + "0" * 400]
    assert records["json"] == ['["-1' + "0" * 400 + '"]']
    texts = json.loads(whole("ndjson", [rows], text_columns=("price",)).splitlines()[0])
    assert texts["price"] == "1" + "0" * 400


_HARD = st.one_of(
    st.text(alphabet='a"{}[],\\null\n\r\t ', max_size=8),
    st.text(max_size=5),
    st.integers(),
    st.none(),
    st.booleans(),
)


@given(st.lists(st.tuples(_HARD, _HARD, _HARD), max_size=6))
def test_lines_cut_out_of_one_array_are_those_written_one_by_one(rows: list[tuple[Any, ...]]) -> None:
    """The quick way to a line is only taken where it is safe."""
    columns = [ResultColumn(name, things.c.text, NullType()) for name in ("a", "b", "c")]
    lines = whole("ndjson", [rows], columns).splitlines()[:-1] if rows else []
    assert [tuple(json.loads(line).values()) for line in lines] == rows
    records = read_csv(whole("csv", [rows], columns))
    expected = [[_field(row[place]) for row in rows] for place in range(3)]
    assert list(records.values()) == expected


def _field(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def test_lines_of_a_database_get_their_ends() -> None:
    csv_writer = writer("csv")
    assert isinstance(csv_writer, DatabaseCSVWriter)
    assert csv_writer.text(b"1,a\n2,b\n") == (b"1,a\r\n2,b\r\n", 2, 0)
    assert csv_writer.text(b'1,"a\nb"\n2,"c""\n"\n') == (b'1,"a\nb"\r\n2,"c""\n"\r\n', 2, 0)


def test_whole_numbers_as_strings() -> None:
    assert json.loads(whole("ndjson", [ROWS[:1]], integer_strings=True).splitlines()[0])["id"] == "1"


def test_a_failure_is_the_last_record() -> None:
    said = writer("ndjson").failure(PROBLEM, StreamEnd(2, complete=False))
    assert said is not None
    problem = json.loads(said)["$problem"]
    assert (problem["code"], problem["rows"], problem["complete"]) == ("LIMIT_EXCEEDED", 2, False)


def test_a_failure_in_arrow_is_told_and_stops_a_careless_reader() -> None:
    arrow_writer = writer("arrow")
    data = arrow_writer.head() + arrow_writer.rows(ROWS).data
    failed = arrow_writer.failure(PROBLEM, StreamEnd(3, complete=False))
    assert failed is not None
    reader = pa.ipc.open_stream(data + failed)
    batches = reader.iter_batches_with_custom_metadata()
    assert next(batches)[0].num_rows == 3
    last, metadata = next(batches)
    assert last.num_rows == 0
    assert json.loads(metadata[b"problem"])["code"] == "LIMIT_EXCEEDED"
    with pytest.raises(pa.ArrowInvalid):
        pa.ipc.open_stream(data + failed).read_all()


@pytest.mark.parametrize("format_name", ["json", "csv", "parquet", "xlsx"])
def test_formats_without_a_last_record_are_cut(format_name: str) -> None:
    each_writer = writer(format_name)
    each_writer.head()
    assert each_writer.failure(PROBLEM, StreamEnd(0, complete=False)) is None


def test_a_parquet_file_says_how_many_rows_it_has() -> None:
    file = parquet.ParquetFile(io.BytesIO(whole("parquet", [ROWS, ROWS])))
    assert file.metadata.num_rows == 6
    assert json.loads(file.metadata.metadata[b"dualsql.complete"]) is True


def test_row_groups_are_written_as_they_fill() -> None:
    parquet_writer = writer("parquet")
    parquet_writer.head()
    wide = [(number, "x" * 100_000, None, None, None, None) for number in range(20)]
    sizes = [len(parquet_writer.rows(wide).data) for _ in range(10)]
    assert sum(map(bool, sizes)) >= 2
    assert parquet_writer.rows(wide).held >= 2_000_000


def test_arrow_s_types_are_those_of_the_select() -> None:
    columns = result_columns(select(things, func.sum(things.c.price).label("total")))
    schema = pa.ipc.open_stream(whole("arrow", [], columns)).schema
    assert schema.field("price").type == pa.decimal128(10, 2)
    # A sum has more digits than what is summed.
    assert schema.field("total").type == pa.string()
    assert schema.field("total").metadata[b"dualsql.encoding"] == b"decimal"
    assert schema.field("json").metadata == {b"dualsql.encoding": b"json"}


def test_a_value_that_is_not_what_its_column_declares() -> None:
    arrow_writer = writer("arrow")
    arrow_writer.head()
    with pytest.raises(ValueNotRepresentableError, match="'id'") as raised:
        arrow_writer.rows([("x", None, None, None, None, None)])
    assert raised.value.details == {"column": "id", "type": "int64", "text_columns": ["id"]}


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for format_name in ("arrow", "parquet"):
        with pytest.raises(BadParameterError) as raised:
            writer(format_name)
        assert "dualsql[arrow]" in raised.value.developer_hint


def test_an_unknown_format() -> None:
    with pytest.raises(BadParameterError, match="format must not be"):
        FORMATS["xls"]
