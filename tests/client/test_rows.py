"""Typed values are those of the database."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from dualsql_client import ParseError, decode_rows
from dualsql_client.answers import read_columns
from dualsql_client.ndjson import decoder
from dualsql_client.wire import Column, Encoding, Row

CASES: list[tuple[Encoding, Any, Any]] = [
    ("text", "007", "007"),
    ("integer", 2**63, 2**63),
    ("integer-string", "9007199254740993", 9007199254740993),
    ("float", 5, 5.0),
    ("decimal", "0.10", Decimal("0.10")),
    ("boolean", True, True),
    ("date", "1878-02-28", date(1878, 2, 28)),
    ("time", "23:59:59.000001", time(23, 59, 59, 1)),
    ("datetime", "2026-11-21T10:00:00Z", datetime(2026, 11, 21, 10, tzinfo=UTC)),
    ("datetime", "2026-11-21T10:00:00.5", datetime.fromisoformat("2026-11-21T10:00:00.500000")),
    (
        "datetime",
        "2026-11-21T10:00:00+05:30",
        datetime(2026, 11, 21, 10, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    ),
    ("interval", "P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    ("interval", "-P0DT0H0M0.000001S", timedelta(microseconds=-1)),
    ("interval", "P-1DT86399S", timedelta(seconds=-1)),
    ("interval", "PT90061S", timedelta(days=1, hours=1, minutes=1, seconds=1)),
    ("interval", "P3D", timedelta(days=3)),
    ("uuid", "8f14e45f-ceea-467f-ab3c-7c1b7e0c2a11", UUID("8f14e45f-ceea-467f-ab3c-7c1b7e0c2a11")),
    ("base64", "AP8=", b"\x00\xff"),
    ("base64", "", b""),
    ("json", {"a": [1, "2026-01-01"]}, {"a": [1, "2026-01-01"]}),
    ("array", [1, [2]], [1, [2]]),
    ("any", "2026-01-01", "2026-01-01"),
]


def column(encoding: Encoding) -> Column:
    return Column(name="value", type="string", encoding=encoding)


@pytest.mark.parametrize(("encoding", "written", "value"), CASES)
def test_each_encoding(encoding: Encoding, written: Any, value: Any) -> None:
    [row] = decode_rows([{"value": written, "other": "P1D"}], [column(encoding)])
    assert row == {"value": value, "other": "P1D"}
    assert type(row["value"]) is type(value)


def test_every_encoding_of_the_wire_has_a_case() -> None:
    assert {encoding for encoding, _, _ in CASES} == set(get_args(Encoding))


@pytest.mark.parametrize("encoding", get_args(Encoding))
def test_null_is_none_and_a_missing_value_stays_missing(encoding: Encoding) -> None:
    assert decode_rows([{"value": None}, {}], [column(encoding)]) == [{"value": None}, {}]


def test_arrays_decode_their_items_in_every_dimension() -> None:
    rows: list[Row] = [{"value": [["0.10", None], []]}, {"value": None}]
    decoded = decode_rows(rows, [{**column("array"), "items": "decimal"}])
    assert decoded == [{"value": [[Decimal("0.10"), None], []]}, {"value": None}]


def test_columns_that_need_nothing_cost_nothing() -> None:
    for encoding in ("text", "integer", "boolean", "json", "any"):
        assert decoder(column(encoding)) is None
    assert decoder({**column("array"), "items": "text"}) is None


@pytest.mark.parametrize("wrong", ["x", {}, ["a"], "2026-13-01", "P1Y"], ids=repr)
@pytest.mark.parametrize(
    "encoding", ["decimal", "date", "time", "datetime", "interval", "uuid", "base64", "float"]
)
def test_a_wrong_value_names_its_column_and_is_not_quoted(encoding: Encoding, wrong: Any) -> None:
    with pytest.raises(ParseError) as error:
        decode_rows([{"value": wrong}], [column(encoding)])
    assert error.value.code == "PARSE_ERROR"
    assert error.value.details == {"column": "value", "encoding": encoding}
    assert repr(wrong) not in str(error.value)


@pytest.mark.parametrize("encoding", ["date", "time", "datetime", "interval", "uuid", "base64"])
def test_a_number_is_no_text(encoding: Encoding) -> None:
    with pytest.raises(ParseError):
        decode_rows([{"value": 5}], [column(encoding)])


@given(st.timedeltas())
def test_intervals_keep_every_microsecond(value: timedelta) -> None:
    size = abs(value)
    text = f"{'-' if value < timedelta() else ''}P{size.days}DT{size.seconds}.{size.microseconds:06d}S"
    assert decode_rows([{"value": text}], [column("interval")]) == [{"value": value}]


@pytest.mark.parametrize(
    "written", ["P", "PT", "P1DT", "-P", "", "1D", "P1Y", "P1W", "P1.5D", "P1D\n", "PT1e5S"]
)
def test_durations_that_are_none(written: str) -> None:
    with pytest.raises(ParseError):
        decode_rows([{"value": written}], [column("interval")])


def test_a_server_that_describes_no_encodings_is_read_by_type() -> None:
    described = [
        {"name": "founded", "type": "date"},
        {"name": "seen", "type": "timestamp"},
        {"name": "odd", "type": "date", "encoding": "julian"},
        {"name": "works", "type": "integer"},
        {"name": "name", "type": "varchar"},
    ]
    columns = read_columns(described)
    assert columns is not None
    assert [entry["type"] for entry in columns] == ["date", "date", "date", "number", "string"]
    row = {"founded": "1878-01-01", "seen": "2026-11-21T10:00:00Z", "odd": "spring", "works": 17, "name": "x"}
    rows: list[Row] = [row, {"founded": 1878}]
    assert decode_rows(rows, columns) == [
        {
            "founded": date(1878, 1, 1),
            "seen": datetime(2026, 11, 21, 10, tzinfo=UTC),
            "odd": "spring",
            "works": 17,
            "name": "x",
        },
        {"founded": 1878},
    ]


@pytest.mark.parametrize("described", [5, {}, "x", [None], [{"type": "string"}], [{"name": 5}]])
def test_columns_without_names_are_none(described: Any) -> None:
    assert read_columns(described) is None
