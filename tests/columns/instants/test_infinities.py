"""The ends of time: date.max is 9999-12-31 and no infinity, and an infinity is none of Python's dates."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc
from sqlalchemy import (
    ARRAY,
    Column,
    Date,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    func,
    select,
    text,
    type_coerce,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.types import NullType

from dualsql import Registry
from tests.columns.instants.conftest import Application, serving
from tests.engines import PostgreSQL

metadata = MetaData()
prices = Table(
    "prices",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("day", Date),
    Column("moment", DateTime),
    Column("instant", DateTime(timezone=True)),
)
DAYS = {1: "2024-12-31", 2: "9999-12-31", 3: "infinity", 4: "0001-01-01", 5: "-infinity", 6: None}
MOMENTS = {
    1: "2024-12-31 08:30:00",
    2: "9999-12-31 23:59:59.999999",
    3: "infinity",
    4: "0001-01-01 00:00:00",
    5: "-infinity",
    6: None,
}
COLUMNS = ("day", "moment", "instant")

CREATE = "CREATE TABLE prices (id int PRIMARY KEY, day date, moment timestamp, instant timestamptz)"
KINDS = ("asyncpg", "psycopg", "psycopg of a URL", "psycopg2", "duckdb")


def _filling() -> list[str]:
    def written(value: str | None, after: str = "") -> str:
        return "NULL" if value is None else f"'{value}{'' if 'inf' in value else after}'"

    rows = [
        f"({n}, {written(DAYS[n])}, {written(MOMENTS[n])}, {written(MOMENTS[n], '+00')})" for n in range(1, 7)
    ]
    return [CREATE, f"INSERT INTO prices VALUES {', '.join(rows)}"]


async def _fill(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        for statement in _filling():
            await connection.exec_driver_sql(statement)
    await engine.dispose()


@pytest.fixture(scope="module", params=KINDS)
async def application(
    anyio_backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Application]:
    """The prices on a database, by one driver; no test writes to them."""
    if request.param == "duckdb":
        url = f"duckdb:///{tmp_path_factory.mktemp('infinities')}/prices.duckdb"
        engine = create_engine(url)
        with engine.begin() as connection:
            for statement in _filling():
                connection.exec_driver_sql(statement)
        engine.dispose()
        async with serving(url, Registry(metadata)) as other:
            yield other
        return
    server: PostgreSQL = request.getfixturevalue("postgresql_server")
    with server.database() as url:
        await _fill(create_async_engine(url))
        if request.param == "psycopg2":
            synchronous = create_engine(url.replace("asyncpg", "psycopg2"))
            async with serving(synchronous, Registry(metadata)) as other:
                yield other
            synchronous.dispose()
            return
        driver, is_engine = request.param.partition(" ")[0], request.param == "psycopg"
        own_url = url.replace("asyncpg", driver)
        given = create_async_engine(own_url)
        async with serving(given if is_engine else own_url, Registry(metadata)) as other:
            yield other
        await given.dispose()


def _ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows)


_LAST, _FIRST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1)  # noqa: DTZ001
LIMITS: list[tuple[str, str, Any, list[int]]] = [
    ("day", "=", dt.date.max, [2]),
    ("day", "<", dt.date.max, [1, 4, 5]),
    ("day", ">", dt.date.max, [3]),
    ("day", "=", dt.date.min, [4]),
    ("day", "<", dt.date.min, [5]),
    ("day", ">=", dt.date.min, [1, 2, 3, 4]),
    ("moment", "=", _LAST, [2]),
    ("moment", "<", _LAST, [1, 4, 5]),
    ("moment", "=", _FIRST, [4]),
    ("moment", "<", _FIRST, [5]),
    ("instant", "=", _LAST.replace(tzinfo=dt.UTC), [2]),
    ("instant", ">", _LAST.replace(tzinfo=dt.UTC), [3]),
    ("instant", "<=", _FIRST.replace(tzinfo=dt.UTC), [4, 5]),
]
OPERATORS = {"=": "eq", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}


@pytest.mark.long
async def test_limits_are_bound_as_they_are(application: Application) -> None:
    """In a Select, a SQL text and a question; also as one of several, and in a list."""
    everything = await application.result(select(prices))
    for name, operator, value, expected in LIMITS:
        column = prices.c[name]
        assert _ids(await application.rows(select(prices.c.id).where(column.op(operator)(value)))) == expected
        text = f"SELECT id FROM prices WHERE {name} {operator} '{value.isoformat()}'"
        assert _ids(await application.rows(text)) == expected, text
        parameters: Any = {"column": name, "op": OPERATORS[operator], "value": value.isoformat()}
        assert _ids((await everything.query(filters=parameters, columns=["id"])).data) == expected, parameters
    several = select(prices.c.id).where(prices.c.day.in_([dt.date.max, dt.date.min, dt.date(2024, 12, 31)]))
    assert _ids(await application.rows(several)) == [1, 2, 4]
    if application.dialect == "postgresql":
        listed = select(prices.c.id).where(
            prices.c.day == func.any(type_coerce([dt.date.max, dt.date.min], ARRAY(Date)))
        )
        assert _ids(await application.rows(listed)) == [2, 4]


@pytest.mark.quick(1, "postgresql")
async def test_infinities_are_shown_as_they_are(application: Application) -> None:
    result = await application.result(select(prices).order_by(prices.c.id))
    days = list(DAYS.values())
    moments = [value and value.replace(" ", "T").removesuffix(".000000") for value in MOMENTS.values()]
    page = await result.fetch(limit=10, typed=False)
    sample: Any = result.sample
    answers = [page.data, sample]
    for format_name in ("ndjson", "json", "csv"):
        answer = await application.http.get(f"{result.resource_url}/rows", params={"format": format_name})
        assert answer.status_code == 200, answer.text
        answers.append(_read(format_name, answer.text))
    for rows in answers:
        assert [row["day"] for row in rows] == days
        assert [row["moment"] for row in rows] == moments
        zoned = [row["instant"] for row in rows]
        assert zoned[2:5:2] == ["infinity", "-infinity"]
        assert zoned[5] is None
        assert zoned[1].startswith("9999-12-31T23:59:59.999999")
    typed = await result.fetch_all(typed=True)
    assert [row["day"] for row in typed] == [
        dt.date(2024, 12, 31),
        dt.date.max,
        "infinity",
        dt.date.min,
        "-infinity",
        None,
    ]
    assert [type(row["moment"]) for row in typed[:5]] == [dt.datetime, dt.datetime, str, dt.datetime, str]


def _read(written: str, body: str) -> list[dict[str, Any]]:
    if written == "csv":
        return [
            {name: value or None for name, value in row.items()} for row in csv.DictReader(io.StringIO(body))
        ]
    if written == "json":
        document: list[dict[str, Any]] = json.loads(body)
        return document
    return [json.loads(line) for line in body.splitlines()][:-1]


async def test_a_column_without_a_type(application: Application) -> None:
    untyped = select(prices.c.id, type_coerce(prices.c.moment, NullType).label("moment")).order_by(
        prices.c.id
    )
    rows = await application.rows(untyped)
    assert [row["moment"] for row in rows][2:5:2] == ["infinity", "-infinity"]
    assert rows[1]["moment"] == dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("stated", [String(), Date(), DateTime()])
async def test_a_column_with_another_type(application: Application, stated: Any, name: str) -> None:
    """asyncpg and DuckDB have the last day of year 9999 for infinity, whatever type is stated."""
    other = select(prices.c.id, type_coerce(prices.c[name], stated).label("other")).order_by(prices.c.id)
    rows = await application.rows(other)
    assert [row["other"] for row in rows][2:5:2] == ["infinity", "-infinity"]


async def test_arrow_has_no_place_for_them(application: Application) -> None:
    """Arrow knows no infinite date: the stream is no whole one, and never holds a date in its place."""
    result = await application.result(select(prices))
    answer = await application.http.get(
        f"{result.resource_url}/rows", params={"format": "arrow", "columns": "day"}
    )
    if answer.status_code == 200:
        with pytest.raises(pa.ArrowInvalid):
            ipc.open_stream(answer.content).read_all()
    finite = await application.result(select(prices).where(prices.c.id.in_([1, 2, 4])).order_by(prices.c.id))
    answer = await application.http.get(f"{finite.resource_url}/rows", params={"format": "arrow"})
    days = ipc.open_stream(answer.content).read_all()["day"].to_pylist()
    assert days == [dt.date(2024, 12, 31), dt.date.max, dt.date.min]


@pytest.mark.quick(1, "postgresql")
async def test_they_are_found_as_they_are_shown(application: Application) -> None:
    everything = await application.result(select(prices))
    for name in COLUMNS:
        for word, expected in (("infinity", [3]), ("-infinity", [5])):
            parameters: Any = {"column": name, "op": "eq", "value": word}
            assert _ids((await everything.query(filters=parameters, columns=["id"])).data) == expected
            text = f"SELECT id FROM prices WHERE {name} = '{word}'"
            assert _ids(await application.rows(text)) == expected


async def test_groups_extremes_and_a_profile(application: Application) -> None:
    everything = await application.result(select(prices))
    extremes = await everything.query(
        aggregates=[{"function": function, "column": name} for name in COLUMNS for function in ("min", "max")]
    )
    assert list(extremes.data[0].values()) == ["-infinity", "infinity"] * 3
    groups = await everything.query(group_by=["day"], aggregates=["count"], typed=False)
    assert {row["day"] for row in groups.data} == set(DAYS.values())
    profile = await everything.profile(kind="full")
    for column in profile["columns"][1:]:
        assert (column["minimum"], column["maximum"]) == ("-infinity", "infinity")
        assert column["distinct"] == 5
        assert "infinity" in [each["value"] for each in column["most_frequent"]]


@pytest.mark.quick(1, "postgresql")
async def test_cursors_across_the_ends(application: Application) -> None:
    for name in COLUMNS:
        result = await application.result(select(prices).order_by(prices.c[name].desc(), prices.c.id))
        whole = [row["id"] for row in await result.fetch_all()]
        page = await result.fetch(limit=1)
        paged = [row["id"] for row in page.data]
        while page.next_cursor:
            page = await result.fetch(limit=1, cursor=page.next_cursor)
            paged += [row["id"] for row in page.data]
            assert len(paged) <= len(whole)
        assert paged == whole


async def test_an_application_sees_its_connection_as_before(postgresql_url: str) -> None:
    """Its own connections bind and read as their drivers do, before and after ours."""
    await _fill(create_async_engine(postgresql_url))
    for driver in ("asyncpg", "psycopg"):
        engine = create_async_engine(postgresql_url.replace("asyncpg", driver), pool_size=1, max_overflow=0)
        before = [await _as_the_driver_does(engine, number) for number in range(1, 6)]
        async with serving(engine, Registry(metadata)) as application:
            assert len(await application.rows(select(prices))) == 6
            assert [await _as_the_driver_does(engine, number) for number in range(1, 6)] == before
        await engine.dispose()
    synchronous = create_engine(postgresql_url.replace("asyncpg", "psycopg2"), pool_size=1, max_overflow=0)
    async with serving(synchronous, Registry(metadata)) as application:
        assert len(await application.rows(select(prices))) == 6
    with synchronous.connect() as connection:
        actual = connection.execute(select(prices.c.day).where(prices.c.id == 3)).scalar()
    assert actual == dt.date.max
    synchronous.dispose()


async def _as_the_driver_does(engine: AsyncEngine, number: int) -> Any:
    async with engine.connect() as connection:
        try:
            row = (await connection.execute(select(prices).where(prices.c.id == number))).one()
            count = await connection.execute(
                text("SELECT count(*) FROM prices WHERE day = :day").bindparams(day=dt.date.max)
            )
        except Exception as error:  # noqa: BLE001 - psycopg's, of an infinity
            return type(error)
        return tuple(row), count.scalar()
