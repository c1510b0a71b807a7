"""Instants on SQLite in every spelling: what is asked of them goes by what they mean, as in Python."""

from __future__ import annotations

import datetime as dt
import operator
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise, product
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Column, DateTime, Dialect, Integer, MetaData, Table, select, type_coerce
from sqlalchemy.dialects import sqlite

from dualsql import Registry
from dualsql.databases.sqlite.capabilities import CAPABILITIES
from dualsql.errors import InvalidSQLError
from dualsql.sql import read_select
from dualsql.tenancy import Policy
from dualsql_client.wire_requests import Bucket
from tests.columns.instants.conftest import Application, serving

metadata = MetaData()
events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", DateTime),
    Column("other", DateTime),
)

SPELLINGS = (
    "%Y-%m-%d %H:%M:%S.%f",  # SQLAlchemy
    "%Y-%m-%d %H:%M:%S",  # CURRENT_TIMESTAMP
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S.%fZ",
    "%Y-%m-%d %H:%M:%SZ",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
)
ZONES = ("+02:00", "-05:30", "+14:00", "-14:00", "+00:00")
BASES = [
    dt.datetime(2024, 1, 1),  # noqa: DTZ001
    dt.datetime(2024, 1, 1, 12, 30),  # noqa: DTZ001
    dt.datetime(2024, 1, 1, 12, 30, 0, 1),  # noqa: DTZ001
    dt.datetime(2024, 1, 1, 12, 30, 0, 500000),  # noqa: DTZ001
    dt.datetime(2024, 1, 1, 23, 59, 59, 999999),  # noqa: DTZ001
    dt.datetime(2024, 2, 1),  # noqa: DTZ001
    dt.datetime(2023, 12, 31, 23, 59, 59),  # noqa: DTZ001
]


def _spelled() -> list[str]:
    texts = [base.strftime(spelling) for base in BASES for spelling in SPELLINGS]
    for base in BASES:
        for zone in ZONES:
            local = base.replace(tzinfo=dt.UTC).astimezone(
                dt.datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo
            )
            texts += [local.isoformat(" "), local.isoformat("T", "milliseconds")]
    texts += ["2024-01-01 12:30:00.5", "2024-01-01T12:30:00.12", "2024-01-01 12:30:00.5+02:00"]
    texts += [
        "2024-01-01 14:30:00+02",
        "2024-01-01T07:00:00.5-0530",
        "2024-01-01T14:30+02",
        "2024-01-01T14:30+02:00",
    ]
    texts += ["2024-01-01 14:30:30+02:00:30", "2024-01-01 12:29:30.000001-000030"]
    return texts


ROWS = [(number, text, _spelled()[-number]) for number, text in enumerate(_spelled(), 1)]
ROWS.append((len(ROWS) + 1, None, None))  # type: ignore[arg-type]


def meant(text: Any) -> Any:
    """The instant in UTC, without a zone."""
    if text is None:
        return None
    instant = dt.datetime.fromisoformat(text)
    return instant if instant.tzinfo is None else instant.astimezone(dt.UTC).replace(tzinfo=None)


MEANT = {number: meant(text) for number, text, _ in ROWS}
KNOWN = {number: instant for number, instant in MEANT.items() if instant is not None}


@pytest.fixture(scope="module")
async def application(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Application]:
    path = tmp_path_factory.mktemp("spellings") / "events.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, at DATETIME, other DATETIME)")
    connection.execute("CREATE INDEX by_at ON events (at)")
    connection.execute("CREATE INDEX by_other ON events (other)")
    connection.executemany("INSERT INTO events VALUES (?, ?, ?)", ROWS)
    connection.commit()
    connection.close()
    async with serving(f"sqlite:///{path}", Registry(metadata)) as server:
        yield server


OPERATORS = {
    "=": ("eq", operator.eq),
    "<>": ("ne", operator.ne),
    "<": ("lt", operator.lt),
    "<=": ("le", operator.le),
    ">": ("gt", operator.gt),
    ">=": ("ge", operator.ge),
}


def _ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows)


written = st.sampled_from([text for _, text, _ in ROWS if text is not None])


async def _agree(application: Application, sign: str, text: str) -> None:
    name, compare = OPERATORS[sign]
    expected = sorted(number for number, instant in KNOWN.items() if compare(instant, meant(text)))
    rows = await application.rows(f"SELECT id FROM events WHERE at {sign} '{text}'")
    assert _ids(rows) == expected, (sign, text)
    denied = await application.rows(f"SELECT id FROM events WHERE NOT (at {sign} '{text}')")
    assert _ids(denied) == sorted(set(KNOWN) - set(expected)), (sign, text)
    everything = await application.result(select(events))
    value = dt.datetime.fromisoformat(text).isoformat()
    condition: Any = {"column": "at", "op": name, "value": value}
    answer = await everything.query(filters=condition, aggregates=["count"])
    assert answer.data[0]["count"] == len(expected), (name, value)
    smaller = await everything.refine(name="smaller", filters=condition)
    assert _ids(await smaller.fetch_all()) == expected


@pytest.mark.long
async def test_each_comparison_with_each_spelling(application: Application) -> None:
    for sign in OPERATORS:
        for text in (
            "2024-01-01T12:30:00",
            "2024-01-01 12:30:00.500000",
            "2024-01-01",
            "2024-01-01 14:30:00+02:00",
        ):
            await _agree(application, sign, text)


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sign=st.sampled_from(list(OPERATORS)), text=written)
async def test_whatever_is_compared(application: Application, sign: str, text: str) -> None:
    await _agree(application, sign, text)


@pytest.mark.long
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(low=written, high=written)
async def test_ranges_and_lists(application: Application, low: str, high: str) -> None:
    between = sorted(number for number, instant in KNOWN.items() if meant(low) <= instant <= meant(high))
    listed = sorted(number for number, instant in KNOWN.items() if instant in (meant(low), meant(high)))
    for condition, expected in (
        (f"at BETWEEN '{low}' AND '{high}'", between),
        (f"at IN ('{low}', '{high}')", listed),
        (f"(at, 1) IN (VALUES ('{low}', 1), ('{high}', 1))", listed),
        (f"CASE at WHEN '{low}' THEN 1 WHEN '{high}' THEN 1 ELSE 0 END = 1", listed),
    ):
        assert _ids(await application.rows(f"SELECT id FROM events WHERE {condition}")) == expected, condition
    everything = await application.result(select(events))
    values = [dt.datetime.fromisoformat(text).isoformat() for text in (low, high)]
    for name, expected in (("between", between), ("in", listed)):
        parameters: Any = {"column": "at", "op": name, "value": values}
        assert _ids((await everything.query(filters=parameters, columns=["id"], limit=500)).data) == expected


@pytest.mark.parametrize("row", ["'2024-01-01'", "'2024-01-01', 1, 99"])
def test_rows_of_another_width_are_refused(row: str) -> None:
    text = f"SELECT id FROM events WHERE (at, id) IN (VALUES ({row}))"
    with pytest.raises(InvalidSQLError, match="another number of values"):
        read_select(text, Registry(metadata), dialect="sqlite")


@pytest.mark.parametrize("rows", ["(at, id) = ('2024-01-01', 1, 99)", "(id, id, id) < (1, 2)"])
def test_compared_rows_of_different_widths_are_refused(rows: str) -> None:
    text = f"SELECT id FROM events WHERE {rows}"
    with pytest.raises(InvalidSQLError, match="different numbers of values"):
        read_select(text, Registry(metadata), dialect="sqlite")


async def test_columns_compared_with_each_other(application: Application) -> None:
    others = {number: meant(text) for number, _, text in ROWS}
    for sign, (_, compare) in OPERATORS.items():
        expected = sorted(number for number in KNOWN if compare(KNOWN[number], others[number]))
        assert _ids(await application.rows(f"SELECT id FROM events WHERE at {sign} other")) == expected
    pairs = sum(one == other for one in KNOWN.values() for other in others.values() if other is not None)
    joined = "SELECT count(*) AS n FROM events AS a JOIN events AS b ON a.at = b.other"
    assert await application.rows(joined) == [{"n": pairs}]
    inside = "SELECT id FROM events WHERE at IN (SELECT other FROM events WHERE id < 20)"
    wanted = {others[number] for number in range(1, 20)}
    assert _ids(await application.rows(inside)) == sorted(n for n, each in KNOWN.items() if each in wanted)


async def test_orders(application: Application) -> None:
    for result in (
        await application.result("SELECT id, at FROM events WHERE at IS NOT NULL ORDER BY at, id"),
        await (await application.result(select(events).where(events.c.at.is_not(None)))).refine(
            name="sorted", order_by=["at", "id"]
        ),
        await application.result(
            "SELECT id, max(at) AS at FROM events GROUP BY id HAVING max(at) > '0001-01-01' ORDER BY 2, 1"
        ),
    ):
        values = [row["id"] for row in await result.fetch_all()]
        assert values == sorted(KNOWN, key=lambda number: (KNOWN[number], number))
        paged, cursor = [], None
        while True:
            page = await result.fetch(limit=17, cursor=cursor)
            paged += [row["id"] for row in page.data]
            cursor = page.next_cursor
            if cursor is None or len(paged) > len(values):
                break
        assert paged == values
    united = await application.rows(
        "SELECT at FROM events WHERE id < 30 UNION SELECT other FROM events ORDER BY 1 DESC"
    )
    distinct = {KNOWN[number] for number in range(1, 30)} | {meant(text) for _, _, text in ROWS}
    shown = [row["at"] for row in united if row["at"] is not None]
    assert shown == sorted(distinct - {None}, reverse=True)
    assert all(one > other for one, other in pairwise(shown))


async def test_extremes_groups_and_distinct(application: Application) -> None:
    lowest, highest, different = min(KNOWN.values()), max(KNOWN.values()), len(set(KNOWN.values()))
    texts = "SELECT min(at) AS low, max(at) AS high, count(DISTINCT at) AS n FROM events"
    assert await application.rows(texts) == [{"low": lowest, "high": highest, "n": different}]
    everything = await application.result(select(events))
    figures: Any = [{"function": name, "column": "at"} for name in ("min", "max", "count_distinct")]
    page = await everything.query(aggregates=figures, typed=True)
    assert list(page.data[0].values()) == [lowest, highest, different]
    assert await application.rows("SELECT id FROM events WHERE at = (SELECT max(at) FROM events)") == [
        {"id": number} for number in sorted(KNOWN) if KNOWN[number] == highest
    ]
    distinct = await application.rows("SELECT DISTINCT at FROM events WHERE at IS NOT NULL ORDER BY at")
    assert [row["at"] for row in distinct] == sorted(set(KNOWN.values()))
    grouped = await application.rows("SELECT at, count(*) AS n FROM events WHERE at IS NOT NULL GROUP BY at")
    assert {row["at"]: row["n"] for row in grouped} == Counter(KNOWN.values())
    for bucket, cut in (("day", 10), ("month", 7), ("hour", 13)):
        answer = await everything.query(
            filters=[{"column": "at", "op": "is_null", "value": False}],
            group_by=[{"column": "at", "bucket": bucket, "as": "bucket"}],  # type: ignore[list-item]
            aggregates=["count"],
        )
        expected = Counter(instant.isoformat()[:cut] for instant in KNOWN.values())
        assert {row["bucket"][:cut]: row["count"] for row in answer.data} == expected
    profile = (await everything.profile(kind="full", columns=["at"]))["columns"][0]
    assert (profile["minimum"], profile["maximum"]) == (lowest.isoformat(), highest.isoformat())
    assert profile["distinct"] == different
    assert sum(one["count"] for one in profile["histogram"]) == len(KNOWN)


BEGINNINGS = (
    "2024-01-31 23:59:59",
    "2024-01-31T23:59:59",
    "2024-01-31  23:59  ",
    "2024-01-31 23:59   ",
    "2024-01-31         ",
    "2024-02-30 10:00:00",
    "2024-13-01 00:00:00",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59",
    "-024-01-31 23:59:59",
    "abcd-ef-gh ij:kl:mn",
    "12:00:00.1234567890",
    "0000000000002460341",
    "            2460341",
    "       +00001720000",  # of the year -3, which strftime() and date() spell differently
    "0000000000001720000",
    "2460341.50000000000",
    "2024-01-31 23:59",
    "2024-01-31",
    "23:59",
    "",
)
ENDS = (
    *("", ".000000", ".0000004", ".000000999", ".9996", ".999999", ".5+02:00", "Z"),
    *(".000000Z", ".000000+02:00", ".000000-14:00", ".000000x", ".000000.000000", "\0.000000", ".000000\0x"),
)
NUMBERS = (None, 0, 1720000, 2460341, 2460341.5, 2460341.499999999, -1, 2**62, float("inf"))
BLOBS = (b"2024-01-28 23:59:59.000000", b"2024-01-31 23:59:59.000000", b"\xff")
PIECES = (
    ("0000", "0999", "2023", "2024", "9999", "é024"),
    ("-00", "-01", "-02", "-06", "-12", "-13"),
    ("-00", "-01", "-08", "-09", "-28", "-29", "-30", "-31", "-3 "),
    (" ", "T", "é"),
    ("00:00:00", "23:59:59", "23:59:60", "24:00:00", "é3:59:59"),
    (".000000", ".9996", "+02:00"),
)


@pytest.mark.parametrize("bucket", get_args(Bucket))
def test_whole_seconds_are_cut_as_all_spellings_are(bucket: Bucket) -> None:
    """They are read as they are, whatever else begins like them."""
    column = events.c.at
    cut = CAPABILITIES.query.bucket_start
    quick, normalized = cut(column, bucket), cut(type_coerce(column, DateTime()), bucket)
    assert quick is not None
    assert normalized is not None
    texts = [begin + end for begin in BEGINNINGS for end in ENDS]
    values = [*texts, *NUMBERS, *BLOBS, *map("".join, product(*PIECES))]
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE events (at)")
    connection.executemany("INSERT INTO events VALUES (?)", [(value,) for value in values])
    sql, parameters = _sent(select(column.label("at"), quick, normalized), sqlite.dialect())
    rows = connection.execute(sql, parameters).fetchall()
    connection.close()
    assert [row for row in rows if row[1] != row[2]] == []
    assert len({row[1] for row in rows}) > 5


def _sent(statement: Any, dialect: Dialect) -> tuple[str, list[Any]]:
    """What is sent to SQLite: the text, and the values."""
    compiled = statement.compile(dialect=Policy(Registry(metadata)).rules_for(None).dialect(dialect))
    values = [compiled.params[name] for name in compiled.positiontup]
    return compiled.string, [str(value) if isinstance(value, dt.datetime) else value for value in values]


def _plan(application: Application, statement: Any) -> str:
    """What SQLite says of the statement that is sent."""
    engine = application.server.parts.sources["default"].engine
    sql, values = _sent(statement, engine.dialect)
    connection = sqlite3.connect(engine.url.database or "")
    try:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    finally:
        connection.close()
    return "; ".join(row[-1] for row in rows)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("at = '2024-01-01 12:30:00'", "at>? AND at<?"),
        ("at < '2024-01-01'", "at<?"),
        ("at >= '2024-01-01'", "at>?"),
        ("at BETWEEN '2024-01-01' AND '2024-02-01'", "at>? AND at<?"),
        ("at IN ('2024-01-01', '2024-02-01')", "at>? AND at<?"),
    ],
)
async def test_an_index_serves_them(application: Application, condition: str, bounds: str) -> None:
    read = read_select(f"SELECT id FROM events WHERE {condition}", Registry(metadata), "sqlite")
    plan = _plan(application, read)
    assert "USING INDEX by_at" in plan or "USING COVERING INDEX by_at" in plan, plan
    assert bounds in plan, plan


async def test_an_authors_own_select_runs_as_sqlalchemy_runs_it(application: Application) -> None:
    wanted = select(events.c.id).where(events.c.at >= BASES[1]).order_by(events.c.at, events.c.id)
    values = [row["id"] for row in await application.rows(wanted)]
    text = BASES[1].strftime(SPELLINGS[0])
    assert values == [
        number for number, at, _ in sorted(ROWS[:-1], key=lambda row: (row[1], row[0])) if at >= text
    ]
