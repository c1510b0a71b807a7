"""JSON is exact: what a column holds comes out digit for digit, on every engine."""

from __future__ import annotations

import datetime as dt
import json as stdlib
from decimal import Decimal
from ipaddress import ip_address
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from hypothesis import given, strategies as st
from sqlalchemy import (
    ARRAY,
    Date,
    DateTime,
    Enum,
    Integer,
    Numeric,
    String,
    Time,
    column,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import Range
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.sql.elements import quoted_name

from dualsql import DualResponseServer, PageRequest, ValueNotRepresentableError, plan
from dualsql.columns.exact import Digits, Unfit
from dualsql.columns.result import result_columns
from dualsql.formats import cells, json
from dualsql.formats.csv import CSVWriter
from dualsql.formats.json_fallback import require_writable
from dualsql.formats.ndjson import NDJSONWriter
from dualsql.formats.writer import WriterOptions
from tests.schools import SCHOOLS, Base, Control, School, fill, visits


@pytest.fixture
async def filled(engine: AsyncEngine) -> AsyncEngine:
    await fill(engine)
    return engine


async def page_of(engine: AsyncEngine, statement: Any, **options: Any) -> dict[str, Any]:
    """The first page as a client would read it."""
    async with DualResponseServer(engine, base_url="http://127.0.0.1/r", tables=Base) as dual:
        response = await dual.create_response(statement, name="x")
        resource = await dual.open_resource(response.resource_id, None, "read")
        page = await dual.unchecked.read_page(resource, None, PageRequest(**options))
        decoded: dict[str, Any] = json.loads(json.dumps(page.to_wire()))
        return decoded


@pytest.mark.quick(1, "sqlite")
async def test_every_type_of_column(filled: AsyncEngine) -> None:
    page = await page_of(filled, select(School).order_by(School.id))
    first, original = page["data"][0], SCHOOLS[0]
    has_zone = filled.dialect.name == "postgresql"
    assert first == {
        "id": 1,
        "name": "School 1",
        "state": "NY",
        "enrollment": 100,
        "endowment": 2**53 + 1,
        "tuition": "1.10",
        "rating": original["rating"],
        "is_open": False,
        "founded": "1801-01-31",
        "updated": "2026-01-01T12:00:01.250000" + ("+00:00" if has_zone else ""),
        "bell": "08:01:00",
        "term": "P1DT0H0M1.5S",
        "code": "00000000-0000-0000-0000-000000000001",
        "crest": "Af8=",
        "control": "public",
        "extra": {"rank": 1, "tags": ["a", None]},
    }
    assert [row["endowment"] for row in page["data"]] == [row["endowment"] for row in SCHOOLS]


async def test_whole_numbers_as_strings_for_javascript(filled: AsyncEngine) -> None:
    page = await page_of(filled, select(School.id, School.endowment, School.rating), integer_strings=True)
    encodings = {column["name"]: column["encoding"] for column in page["columns"]}
    assert encodings == {"id": "integer-string", "endowment": "integer-string", "rating": "float"}
    assert page["data"][0]["endowment"] == str(2**53 + 1)


async def test_a_tool_result_writes_a_column_beyond_doubles_as_strings_as_a_whole(
    filled: AsyncEngine,
) -> None:
    async with filled.begin() as connection:
        await connection.execute(insert(visits), [{"school_id": 2**31 - 1}])
    async with DualResponseServer(filled, base_url="http://127.0.0.1/r", tables=Base) as dual:
        response = await dual.create_response(
            select(School.id, (School.endowment - School.id - 2).label("small"), School.endowment), name="x"
        )
    encodings = {column["name"]: column["encoding"] for column in response.columns}
    assert encodings == {"id": "integer", "small": "integer", "endowment": "integer-string"}
    assert {type(row["endowment"]) for row in response.sample} == {str}
    assert {type(row["small"]) for row in response.sample} == {int}


async def test_floats_json_has_no_word_for(filled: AsyncEngine) -> None:
    nan, infinity = literal(float("nan")), literal(float("inf"))
    page = await page_of(filled, select(School.id, nan.label("a"), infinity.label("b")).limit(1))
    is_null = filled.dialect.name == "sqlite"  # which has no NaN
    odd = ["b"] if is_null else ["a", "b"]
    words = {"id": 1, "a": None if is_null else "NaN", "b": "Infinity"}
    assert page["data"] == [{**words, "$unfit": odd}]


DIALECT = postgresql.dialect()
IN_SECONDS = dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(minutes=19, seconds=32)))


def encoded(type_: Any, value: Any) -> Any:
    """One value through a column of `type_`."""
    columns = result_columns(select(column("x", type_)))
    return stdlib.loads(json.dumps(cells.RecordMaker(columns, DIALECT).records([(value,)])))[0]["x"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("1E+5"), "100000"),
        (Decimal("0.10"), "0.10"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-0.000000000000000000001"), "-0.000000000000000000001"),
        (dt.timedelta(days=-1, hours=1), "-P0DT23H0M0S"),
        (dt.timedelta(microseconds=5), "P0DT0H0M0.000005S"),
        (
            dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
            "2026-01-01T00:00:00+05:30",
        ),
        (dt.time(1, 2, 3, tzinfo=dt.UTC), "01:02:03+00:00"),
        (IN_SECONDS, "2026-01-01T00:00:00+00:19:32"),
        ({IN_SECONDS: [IN_SECONDS]}, {IN_SECONDS.isoformat(): [IN_SECONDS.isoformat()]}),
        (Range(1, 5), "[1,5)"),
        (ip_address("::1"), "::1"),
        (memoryview(b"\xff"), "/w=="),
        ({"big": 10**30, "deep": [float("nan")]}, {"big": 10**30, "deep": ["NaN"]}),
    ],
)
def test_single_values(value: Any, expected: Any) -> None:
    assert encoded(None, value) == expected


def test_arrays_of_enums_and_decimals() -> None:
    control = School.__table__.c.control.type
    assert encoded(ARRAY(control), [[Control.public], [None]]) == [["public"], [None]]
    assert encoded(ARRAY(Numeric), [Decimal("1.0"), None]) == ["1.0", None]


def test_a_value_without_an_encoding_is_refused_not_guessed() -> None:
    for value in (object(), {1, object()}, "\ud800"):
        with pytest.raises(ValueNotRepresentableError) as refused:
            json.dumps([value])
        assert "CAST" in refused.value.hint


@pytest.mark.parametrize(
    ("type_", "hint"), [(None, "type_=INT4RANGE"), (Integer(), "Registry(..., converters={Range: function})")]
)
def test_a_value_without_an_encoding_in_an_untyped_column_is_told_of_types(type_: Any, hint: str) -> None:
    columns = result_columns(select(func.int4range(1, 5, type_=type_).label("span")))
    with pytest.raises(ValueNotRepresentableError) as error:
        # Which asyncpg reads where no type says otherwise.
        require_writable(columns, [[asyncpg.Range(1, 5)]], json.encoded)
    assert hint in error.value.developer_hint
    assert ("type_" in error.value.developer_hint) == (type_ is None)


@given(st.integers())
def test_any_whole_number_survives(number: int) -> None:
    assert json.loads(json.dumps(number)) == number


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.decimals()
    | st.datetimes(timezones=st.none() | st.just(dt.timezone(dt.timedelta(hours=1))))
    | st.times()
    | st.uuids()
    | st.binary(max_size=9)
    | st.sampled_from([Digits("0.1234567890123456789"), Digits("1" * 30), Digits("1e400"), Unfit("?")]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=9,
)


@given(st.lists(st.dictionaries(st.text(), _VALUES, max_size=3), max_size=3))
def test_values_that_doubles_hold_are_what_is_read_of_their_json(records: list[dict[str, Any]]) -> None:
    assert json.read_back(records) in (None, json.loads(json.dumps(records)))


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**53 + 1, 2**63, 2**64, -(10**30)])
def test_a_whole_number_that_a_double_may_not_hold_is_no_exact_value(number: int) -> None:
    assert json.read_back([{"a": 1}, {"a": [{"b": number}]}]) is None


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_any_decimal_survives(number: Decimal) -> None:
    assert Decimal(json.loads(json.dumps(number))) == number


@given(st.timedeltas())
def test_any_interval_is_an_iso_duration(interval: dt.timedelta) -> None:
    document = json.loads(json.dumps(interval))
    sign, days, hours, minutes, seconds = _parts(document)
    size = dt.timedelta(days=days, hours=hours, minutes=minutes) + dt.timedelta(
        microseconds=round(Decimal(seconds) * 1_000_000)
    )
    assert sign * size == interval


def _parts(written: str) -> tuple[int, int, int, int, str]:
    import re

    match = re.fullmatch(r"(-?)P(\d+)DT(\d+)H(\d+)M([\d.]+)S", written)
    assert match
    return -1 if match[1] else 1, int(match[2]), int(match[3]), int(match[4]), match[5]


def test_the_string_an_enum_has_in_the_database() -> None:
    columns = result_columns(select(School.control))
    assert cells.RecordMaker(columns, sqlite.dialect()).records([(Control.private,)]) == [
        {"control": "private"}
    ]


def test_columns_that_are_checked_together_are_marked_alone() -> None:
    """Columns of one kind are checked at once. What does not fit is marked where it is, and nowhere else."""
    names = ["a", "b", "c", "d"]
    numbers = [column(name, Integer) for name in names[:2]]
    texts = [column(name, String) for name in names[2:]]
    columns = plan.shape(select(*numbers, *texts)).columns
    plain = [(1, 2, "x", "y"), (None, 3, None, "z")]
    rows = cells.RecordMaker(columns, sqlite.dialect()).records(plain)
    assert rows == [dict(zip(names, row, strict=True)) for row in plain]
    rows = cells.RecordMaker(columns, sqlite.dialect()).records([*plain, (4, "no number", b"no text", "w")])
    assert rows[:2] == [dict(zip(names, row, strict=True)) for row in plain]
    unfit = {"a": 4, "b": "no number", "c": "bm8gdGV4dA==", "d": "w", "$unfit": ["b", "c"]}
    assert rows[2] == unfit


@pytest.mark.parametrize("width", [0, 1, 2, 20, 300])
@pytest.mark.parametrize("count", [3, 100])
def test_objects_of_rows_of_any_width(width: int, count: int) -> None:
    names = [f"column {place}" for place in range(width)]
    rows = [tuple(range(place, place + width)) for place in range(count)]
    assert cells.objects(names, rows) == [dict(zip(names, row, strict=True)) for row in rows]
    assert cells.objects(names, []) == []


_NAMES = st.sampled_from(
    [*dir(object), "__dict__", "__slots__", "Record", "record", "rows", "v0", "v1", "append", ""]
)


@given(st.lists(_NAMES | st.text(st.characters()), unique=True, max_size=40))
def test_objects_of_many_rows_have_any_names(names: list[str]) -> None:
    """They are the attributes of an object, which has some of its own."""
    rows = [[*range(place, place + len(names))] for place in range(16)]
    objects = cells.objects(names, rows)
    assert [[*row.items()] for row in objects] == [[*zip(names, row, strict=True)] for row in rows]
    assert {type(row) for row in objects} == {dict}
    objects[0]["more"] = 1
    assert "more" not in objects[1] or "more" in names


def test_objects_of_many_rows_with_names_that_are_not_kept() -> None:
    """Python keeps the names of attributes. Long names, and subclasses of str, make the same objects."""
    for names in (["a" * 3_000, "b"], [quoted_name("a", quote=True), "b"]):
        assert cells.objects(names, [(1, 2)] * 16) == [{names[0]: 1, "b": 2}] * 16


_ODD = (dt.time(1, 24, 17, 70_000), IN_SECONDS, [dt.time(1, 24, 17, 70_000)], {"at": IN_SECONDS})


@given(
    st.lists(st.sampled_from([*_ODD, None, 1, 0.5, "a", True, dt.date(2026, 1, 31)]), min_size=1, max_size=4),
    st.sampled_from([String(), Integer(), Date(), None]),
)
def test_times_are_written_exactly_whatever_stands_beside_them_and_is_announced(
    values: list[Any], announced: Any
) -> None:
    columns = result_columns(select(column("id", Integer), column("x", announced)))
    rows = [(number, value) for number, value in enumerate(values)]
    fitting = {"text": str, "integer": int, "date": dt.date, "any": object}[columns[1].encoding]
    expected = [
        stdlib.loads(stdlib.dumps(value, default=lambda one: one.isoformat()))
        if value is None or (isinstance(value, fitting) and not (fitting is int and value is True))
        else json.text(value)
        for value in values
    ]
    records, has_odd_times = cells.RecordMaker(columns, DIALECT).page_records(rows)
    written = stdlib.loads(json.dumps(records, has_odd_times=has_odd_times))
    assert [record["x"] for record in written] == expected
    for writer in (NDJSONWriter, CSVWriter):
        lines = writer(columns, DIALECT, WriterOptions()).rows(rows).data
        assert lines == b"".join(writer(columns, DIALECT, WriterOptions()).rows([row]).data for row in rows)
        if writer is NDJSONWriter:
            assert [stdlib.loads(line)["x"] for line in lines.splitlines()] == expected


@pytest.mark.parametrize("announced", [Date(), DateTime()])
def test_an_infinite_date_fits_whatever_stands_beside_it(announced: Any) -> None:
    """A row is written alike in pages and streams, alone and beside others: else a stream could not be resumed."""
    columns = result_columns(select(column("id", Integer), column("x", announced)))
    rows = [(1, "infinity"), (2, Unfit("0044-03-15 BC")), (3, "-infinity")]
    expected = [
        {"id": 1, "x": "infinity"},
        {"id": 2, "x": "0044-03-15 BC", "$unfit": ["x"]},
        {"id": 3, "x": "-infinity"},
    ]
    lines = NDJSONWriter(columns, DIALECT, WriterOptions()).rows(rows).data
    assert [stdlib.loads(line) for line in lines.splitlines()] == expected
    records, _ = cells.RecordMaker(columns, DIALECT).page_records(rows)
    assert stdlib.loads(json.dumps(records)) == expected


@pytest.mark.parametrize("microseconds", [0, 1, 9_999, 10_000, 70_000, 99_999, 100_000, 999_999])
def test_a_time_of_day_keeps_its_microseconds_in_json_and_csv(microseconds: int) -> None:
    moment = dt.time(1, 24, 17, microseconds)
    for type_ in (Time(), None):
        assert encoded(type_, moment) == moment.isoformat()
    assert encoded(ARRAY(Time()), [moment, None]) == [moment.isoformat(), None]
    assert json.text(moment) == moment.isoformat()
    columns = result_columns(select(column("x", Time())))
    for writer in (NDJSONWriter, CSVWriter):
        assert moment.isoformat() in writer(columns, DIALECT, WriterOptions()).rows([(moment,)]).data.decode()


def test_no_other_process_writes_what_may_not_fit_as_it_reads_it() -> None:
    """A text may be no member of an Enum, which SQLAlchemy's type finds."""
    for type_, is_plain in ((String(), True), (Enum("a", "b", name="e"), False), (Time(), False)):
        columns = result_columns(select(column("id", Integer), column("x", type_)))
        assert (cells.RecordMaker(columns, DIALECT).plain is not None) is is_plain
        assert cells.RecordMaker(columns, DIALECT, text_columns=("x",)).plain is None
