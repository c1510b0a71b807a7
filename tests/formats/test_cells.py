"""A value leaves in Arrow as it is, or not at all: whatever a driver gives for whatever a column declares."""

from __future__ import annotations

import datetime as dt
import io
import math
from decimal import Decimal
from ipaddress import ip_interface
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    Column,
    Date,
    DateTime,
    Float,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Time,
    TypeDecorator,
    Uuid,
    case,
    func,
    literal,
    null,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import Range

from dualsql.capabilities import DriverValues
from dualsql.columns.exact import Digits, Unfit
from dualsql.columns.result import result_columns
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats import json
from dualsql.formats.cells import Processor, Tolerant, processed, read_tolerantly
from dualsql.formats.fits import ColumnFit
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import StreamEnd, WriterOptions
from tests.databases.streams.reading import read_csv

PARIS = dt.timezone(dt.timedelta(hours=2))
TYPES: dict[str, Any] = {
    "integer": Integer(),
    "number": Float(),
    "money": Numeric(10, 2),
    "digits": Numeric(),
    "flag": Boolean(),
    "word": String(),
    "day": Date(),
    "moment": DateTime(),
    "instant": DateTime(timezone=True),
    "hour": Time(),
    "zoned_hour": Time(timezone=True),
    "length": Interval(),
    "id": Uuid(),
    "bytes": LargeBinary(),
    "document": JSON(),
    "integers": ARRAY(Integer),
    "days": ARRAY(Date),
    "words": ARRAY(String),
}
INSTANT = dt.datetime(2024, 2, 29, 12, tzinfo=PARIS)
MOMENT = INSTANT.replace(tzinfo=None)
VALUES: list[Any] = [
    0, 2**53 + 1, 2**63, True, 2.5, 2.0, math.nan, math.inf, Decimal("0.5"), Decimal("0.005"), Decimal(3),
    Decimal("NaN"), Decimal("Infinity"), "x", "", b"x", b"\xff", dt.date(2024, 2, 29), MOMENT, INSTANT,
    dt.time(12), dt.time(12, tzinfo=PARIS), dt.timedelta(days=1), UUID(int=7), [1, 2.5], [1, None], [MOMENT],
    [dt.date(2024, 1, 1)], ["a", b"b"], ["a"], [[1]], Unfit("odd"),
]  # fmt: skip
_table = Table("t", MetaData(), *(Column(name, type_) for name, type_ in TYPES.items()))


def arrow_of(name: str, values: list[Any], *, text: bool = False) -> pa.Array:
    columns = result_columns(select(_table.c[name]))
    options = WriterOptions(text_columns=(name,) if text else ())
    writer = FORMATS["arrow"].writer(columns, postgresql.dialect(), options)
    data = (
        writer.head() + writer.rows([(value,) for value in values]).data + writer.end(StreamEnd(len(values)))
    )
    return pa.ipc.open_stream(io.BytesIO(data)).read_all().column(0)


def is_the_same(given: Any, found: Any) -> bool:
    """Whether what a reader of Arrow has is the value: a whole number may be one in another class."""
    if isinstance(given, Decimal | int | float) and not isinstance(given, bool):
        if isinstance(found, str):
            found = Decimal(found)
        if isinstance(found, bool) or not isinstance(found, Decimal | int | float):
            return False
        return bool(found == given) or (math.isnan(found) and math.isnan(given))
    if isinstance(given, list):
        return len(given) == len(found) and all(map(is_the_same, given, found))
    if isinstance(given, dt.datetime) and isinstance(found, dt.datetime):
        return given == found and (given.tzinfo is None) is (found.tzinfo is None)
    if isinstance(given, dt.time) and isinstance(found, str):
        return bool(given.isoformat() == found)
    if isinstance(given, UUID):
        return bool(str(given) == found)
    return type(given) is type(found) and bool(given == found)


@pytest.mark.parametrize("name", [name for name in TYPES if name != "document"])
def test_arrow_changes_no_value(name: str) -> None:
    for value in VALUES:
        require_unchanged(name, value)


def require_unchanged(name: str, value: Any) -> None:
    try:
        actual = arrow_of(name, [None, value]).to_pylist()
    except ValueNotRepresentableError as error:
        refusal = error
    else:
        assert actual[0] is None
        assert is_the_same(value, actual[1]), (value, actual)
        return
    assert refusal.details["text_columns"] == [name]
    texts = arrow_of(name, [None, value], text=True)
    assert texts.type == pa.string() and texts.null_count == 1


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2.5, "2.5"),
        (Decimal("1.50"), "1.50"),
        (math.inf, "Infinity"),
        (Decimal("NaN"), "NaN"),
        (b"x", "eA=="),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.timedelta(days=1), "P1DT0H0M0S"),
        ([1.5, math.nan, None], '[1.5,"NaN",null]'),
        ({"a": [Decimal("NaN")]}, '{"a":["NaN"]}'),
        (True, "true"),
        (Unfit("odd"), "odd"),
    ],
)
def test_a_column_as_text_is_what_csv_has(value: Any, written: str) -> None:
    columns = result_columns(select(_table.c.document))
    assert arrow_of("document", [value], text=True).to_pylist() == [written]
    in_json = FORMATS["ndjson"].writer(
        columns, postgresql.dialect(), WriterOptions(text_columns=("document",))
    )
    assert in_json.rows([(value,)]).data.decode() == f'{{"document":{_quoted(written)}}}\n'
    csv = FORMATS["csv"].writer(columns, postgresql.dialect(), WriterOptions())
    data = csv.head() + csv.rows([(value,)]).data
    if not isinstance(value, str | dt.date | bytes | dt.timedelta | float | Decimal | bool | Unfit):
        assert read_csv(data)["document"] == [written]


def _quoted(written: str) -> str:
    return '"' + written.replace('"', '\\"') + '"'


class TestRowsOfJSON:
    """Cells that do not fit are texts, and their row names their columns."""

    def written(self, rows: list[Any], dialect: Any = None, **options: Any) -> str:
        columns = result_columns(select(_table.c.integer, _table.c.word, _table.c.bytes))
        writer = FORMATS["ndjson"].writer(columns, dialect or sqlite.dialect(), WriterOptions(**options))
        return writer.rows(rows).data.decode()

    def test_each_row_names_its_own(self) -> None:
        rows = [(1, "a", b"x"), (2.5, "b", b"y"), ("abc", b"\xff", "text"), (None, None, None)]
        assert self.written(rows).splitlines() == [
            '{"integer":1,"word":"a","bytes":"eA=="}',
            '{"integer":"2.5","word":"b","bytes":"eQ==","$unfit":["integer"]}',
            '{"integer":"abc","word":"/w==","bytes":"text","$unfit":["integer","word","bytes"]}',
            '{"integer":null,"word":null,"bytes":null}',
        ]

    def test_whole_numbers_as_texts_do_not_hide_them(self) -> None:
        written = self.written([(2.5, "b", None), (3, "c", None)], integer_strings=True)
        assert written.splitlines() == [
            '{"integer":"2.5","word":"b","bytes":null,"$unfit":["integer"]}',
            '{"integer":"3","word":"c","bytes":null}',
        ]

    def test_what_is_asked_for_as_text_fits(self) -> None:
        written = self.written([(2.5, b"\xff", None), (3, "c", None)], text_columns=("integer", "word"))
        assert written.splitlines() == [
            '{"integer":"2.5","word":"/w==","bytes":null}',
            '{"integer":"3","word":"c","bytes":null}',
        ]

    def test_a_decimal_that_is_whole_is_a_whole_number(self) -> None:
        # PostgreSQL and MariaDB make decimals of the sums of whole numbers.
        rows = [(Decimal(5), "a", None), (Decimal("5.5"), "b", None)]
        assert self.written(rows, postgresql.dialect()).splitlines() == [
            '{"integer":5,"word":"a","bytes":null}',
            '{"integer":"5.5","word":"b","bytes":null,"$unfit":["integer"]}',
        ]

    def test_a_column_of_that_name_is_not_hidden(self) -> None:
        columns = result_columns(select(_table.c.integer.label("$unfit")))
        writer = FORMATS["ndjson"].writer(columns, sqlite.dialect(), WriterOptions())
        assert writer.rows([(1,)]).data == b'{"$unfit":1}\n'
        with pytest.raises(ValueNotRepresentableError, match="reserved name"):
            writer.rows([("x",)])


n, money, word = _table.c.integer, _table.c.money, _table.c.word


@pytest.mark.parametrize(
    ("expression", "encoding"),
    [
        (func.coalesce(n, 0.5), "float"),
        (func.coalesce(n, 1), "integer"),
        (func.coalesce(n, Decimal("0.5")), "decimal"),
        (func.coalesce(money, 0.5), "float"),
        (func.coalesce(n, null()), "integer"),
        (case((n > 1, n), else_=2.75), "float"),
        (case((n > 1, 0.5), else_=n), "float"),
        (case((n > 1, n)), "integer"),
        (case((n > 1, n), (n > 2, Decimal("2.75")), else_=1), "decimal"),
        (func.sum(case((n > 1, 1), else_=0.5)), "float"),
        (func.max(func.coalesce(n, 0.5)).label("most"), "float"),
        (func.coalesce(n, 0.5) + 1, "float"),
        (1 + func.coalesce(n, case((n > 1, n), else_=0.5)), "float"),
        (func.sum(func.coalesce(n, 0.5)).over(partition_by=n), "float"),
        (func.max(n).filter(n > 1), "integer"),
        (n * literal(1.5), "float"),
        (func.coalesce(word, "x"), "text"),
        (n, "integer"),
    ],
    ids=lambda value: str(value) if not isinstance(value, str) else value,
)
def test_numbers_have_the_widest_type_of_their_parts(expression: Any, encoding: str) -> None:
    (column,) = result_columns(select(expression))
    assert column.describe()["encoding"] == encoding


def test_a_type_of_a_dialect_that_wraps_another_reads_and_binds() -> None:
    """The dialects of Databricks and Snowflake have such types in place of String and DateTime."""

    class Wrapped(TypeDecorator[str]):
        impl = String
        cache_ok = True

    dialect = sqlite.dialect()
    dialect.colspecs = {**dialect.colspecs, String: Wrapped}
    read_tolerantly(dialect, DriverValues())
    name = Column("name", String(9))
    sql = str(select(name).where(name == "x").compile(dialect=dialect))
    assert sql.endswith("WHERE name = ?")


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_processor_reads_each_cell_once_also_behind_one_that_it_cannot_read(kind: Any) -> None:
    """Rows in lists are changed in place."""
    digits: list[tuple[int, Processor]] = [(0, Tolerant(lambda value: int(value) + 1)), (2, str)]
    rows = processed([kind(row) for row in (("1", 5, 7), ("x", 5, 7), ("3", 5, None), ("y", 5, 7))], digits)
    assert rows == [[2, 5, "7"], [Unfit("x"), 5, "7"], [4, 5, "None"], [Unfit("y"), 5, "7"]]
    assert processed([], digits) == []
    with pytest.raises(ValueError, match="x"):
        processed([kind(["x"])], [(0, int)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"), (7, "7"), (2**80, "1208925819614629174706176"), (0.5, "0.5"), (1e20, "1e+20"),
        (math.nan, "NaN"), (-math.inf, "-Infinity"), (Decimal("1E+3"), "1000"), (Decimal("NaN"), "NaN"),
        (Decimal("1.50"), "1.50"),
        ("a", "a"), (b"\xff", "/w=="), (memoryview(b"x"), "eA=="), (dt.date(2026, 1, 31), "2026-01-31"),
        (dt.datetime(2026, 1, 31, 1, 2, 3, 70_000, dt.UTC), "2026-01-31T01:02:03.070000+00:00"),
        (dt.time(1, 24, 17, 70_000), "01:24:17.070000"), (dt.timedelta(1, 5.5), "P1DT0H0M5.5S"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"), (Digits("1.50"), "1.50"),
        (ip_interface("10.0.0.1/8"), "10.0.0.1/8"), ({1}, "[1]"), (Range(1, 5), "[1,5)"), ({7: "a"}, '{"7":"a"}'),
        (
            {"a": [1, Decimal("1.5"), math.inf, 2**80, None, dt.time(1)]},
            '{"a":[1,"1.5","Infinity",1208925819614629174706176,null,"01:00:00"]}',
        ),
    ],
)  # fmt: skip
def test_a_cell_that_does_not_fit_has_the_text_of_csv(value: Any, text: str) -> None:
    assert ColumnFit((complex,)).fitted(value) == Unfit(text)
    assert json.text(value) == text


def test_what_has_no_text_stays_and_is_refused() -> None:
    value = object()
    assert ColumnFit((str,)).fitted(value) is value
    assert Tolerant(int)(value) == Unfit(str(value))
    columns = result_columns(select(_table.c.word))
    with pytest.raises(ValueNotRepresentableError):
        FORMATS["ndjson"].writer(columns, postgresql.dialect(), WriterOptions()).rows([(value,)])
