"""Constants of a text as PostgreSQL reads them: dates in any spelling, and numbers beyond doubles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from sqlalchemy import (
    REAL,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    Interval,
    MetaData,
    Table,
    Time,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import InvalidSQLError, Registry
from dualsql.sql import read_select
from tests import engines
from tests.http.application import running

METADATA = MetaData()
READINGS = Table(
    "readings",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("day", Date),
    Column("at", DateTime),
    Column("zoned", DateTime(timezone=True)),
    Column("clock", Time),
    Column("span", Interval),
    Column("ratio", Double),
    Column("single", REAL),
)


@pytest.fixture
async def readings(postgresql_url: str) -> AsyncIterator[AsyncEngine]:
    async with engines.opened(postgresql_url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)
            await connection.execute(insert(READINGS), [_row(number) for number in (1, 2, 3)])
        yield engine


def _row(number: int) -> dict[str, Any]:
    at = datetime(2012, 1, number, 10)  # noqa: DTZ001 - of a column without a zone
    return {
        "id": number, "day": date(2012, 1, number), "at": at, "zoned": at.astimezone(), "clock": time(9 + number),
        "span": timedelta(days=number), "ratio": number / 7, "single": number / 10,
    }  # fmt: skip


_SPELLED = {
    "day": ("2012/1/2", "201201", "20120102", "2012-01-02 20:29:39+00", "Jan 2, 2012", "1/2/2012"),
    "at": ("2012/1/2", "2012-01-02 10:00", "2012-01-02 10:00:00+02", "2 Jan 2012 10:00:00", "20120102T100000"),
    "zoned": ("2012/1/2", "2012-01-02 10:00:00-05", "Mon Jan 2 10:00:00 2012 UTC"),
    "clock": ("10:00", "11:00 AM", "110000", "2012-01-01 11:00"),
    "span": ("1 day", "P2D", "48 hours", "2 days 00:00:01", "1-2"),
}  # fmt: skip
CONDITIONS = [
    *(
        f"{name} {sign} '{word}'"
        for name, words in _SPELLED.items()
        for word in words
        for sign in ("=", ">=")
    ),
    "day BETWEEN '2012/1/1' AND '2012/1/2'",
    "day IN ('2012/1/1', '1/3/2012')",
    "'2012/1/2' <= day",
    "day >= CAST('2012/1/2' AS DATE)",
    "at >= TIMESTAMP '2012/1/2'",
    "date_trunc('month', at) = '2012/1/1'",
    "single * 3 = CAST(id AS REAL) * 3 / 10",
    "CAST(ratio AS REAL) = ratio",
    "CAST(ratio AS REAL) * CAST(7 AS REAL) = id",
    "id < 1e400",
]


async def test_a_text_is_read_as_postgresql_reads_it(readings: AsyncEngine) -> None:
    async with running(readings, tables=METADATA) as application, readings.connect() as connection:
        path = await application.create(select(READINGS))
        for condition in CONDITIONS:
            wanted = await connection.execute(text(f"SELECT id FROM readings WHERE {condition} ORDER BY id"))
            question = {"sql": f"SELECT id FROM data WHERE {condition} ORDER BY id"}
            answer = await application.http.post(f"{path}/sql", json=question)
            assert answer.status_code == 200, (condition, answer.text)
            assert [row["id"] for row in answer.json()["data"]] == list(wanted.scalars()), condition


@pytest.mark.parametrize(
    "condition",
    [
        "day = 'nonsense'", "day = '2012/99/99'", "at = 'yes'", "clock > '25:99'", "span > '3 moons'",
        "ratio = 1e400", "ratio < -1e400", "ratio = 1e-400", "id + ratio > 1e309", "single < 1e400",
    ],
)  # fmt: skip
async def test_what_it_cannot_read_is_the_texts_fault(readings: AsyncEngine, condition: str) -> None:
    async with running(readings, tables=METADATA) as application:
        path = await application.create(select(READINGS))
        answer = await application.http.post(
            f"{path}/sql", json={"sql": f"SELECT id FROM data WHERE {condition}"}
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_SQL"), answer.text


async def test_the_average_of_intervals_is_one(readings: AsyncEngine) -> None:
    span = READINGS.c.span
    statement = select(func.avg(span).label("a"), func.sum(span).label("s"), func.max(span).label("m"))
    async with running(readings, tables=METADATA) as application:
        for statement_read in (
            statement,
            select(func.avg(span).over(partition_by=READINGS.c.id % 5).label("a")),
        ):
            path = await application.create(statement_read)
            page = (await application.http.get(path, params={"limit": 9})).json()["data"]
            answer = await application.http.get(f"{path}/rows", params={"format": "csv"})
            assert answer.status_code == 200
            assert page[0]["a"] in ("P2DT0H0M0S", "P1DT0H0M0S")
        question = {"sql": "SELECT avg(span) AS a FROM data"}
        path = await application.create(select(READINGS))
        assert (await application.http.post(f"{path}/sql", json=question)).json()["data"] == [
            {"a": "P2DT0H0M0S"}
        ]


def test_a_date_that_may_be_none_is_read_behind_a_fence() -> None:
    registry = Registry(METADATA)
    for condition, is_fenced in (("day = '2012-01-01'", False), ("day = '2012/1/1'", True)):
        statement = read_select(
            f"SELECT id FROM readings WHERE {condition}", registry, "postgresql", hides=lambda _: True
        )
        assert ("OFFSET" in str(statement)) is is_fenced
    with pytest.raises(InvalidSQLError):
        read_select("SELECT id FROM readings WHERE day = 'x'", registry, "postgresql")
