"""SQLite decides the class of each value: decimals keep their digits, and computed values are what they are."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    DECIMAL,
    JSON,
    NUMERIC,
    REAL,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    case,
    cast,
    func,
    insert,
    null,
    select,
)

from dualsql.freeze import Registry
from dualsql.sql import read_select
from tests.columns.kinds.results import served, values_of
from tests.engines import opened

amounts = Table(
    "amounts",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("bare", NUMERIC),
    Column("whole", DECIMAL(20, 0)),
    Column("price", DECIMAL(10, 2)),
)
ROWS = (
    "(1, 12345678901234567, 9007199254740993, 21.989)",
    "(2, 1e-12, 1.5, 21.99)",
    "(3, 12, 5, 21.989)",
    "(4, 0.1, 9007199254740992, 5)",
)
SHOWN = {
    "bare": ["12345678901234567", "0.000000000001", "12", "0.1"],
    "whole": ["9007199254740993", "1.5", "5", "9007199254740992"],
    "price": ["21.989", "21.99", "21.989", "5.00"],
}


async def fill(url: str) -> None:
    async with opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(amounts.metadata.create_all)
        await connection.exec_driver_sql(f"INSERT INTO amounts VALUES {', '.join(ROWS)}")


async def test_decimals_keep_their_digits_and_are_found_by_them(sqlite_url: str) -> None:
    await fill(sqlite_url)
    async with served(sqlite_url, amounts.metadata) as server:
        result = await server.result(select(amounts).order_by(amounts.c.id))
        for name, shown in SHOWN.items():
            assert [row[name] for row in result.sample] == shown
            assert [row[name] for row in (await result.fetch()).data] == shown
            for format_name in ("ndjson", "json", "csv"):
                assert values_of(await server.rows(result, format_name), format_name, name) == shown
            grouped = (await result.query(group_by=[name], aggregates=["count"])).data
            assert {row[name]: row["count"] for row in grouped} == {one: shown.count(one) for one in shown}
            for value in shown:
                equal: Any = {"column": name, "op": "eq", "value": value}
                rows = (await result.query(filters=equal, aggregates=["count"])).data
                assert rows == [{"count": shown.count(value)}], (name, value)


async def test_a_value_that_contradicts_the_forecast_stays_what_it_is(sqlite_url: str) -> None:
    await fill(sqlite_url)
    registry = Registry(amounts.metadata)
    async with served(sqlite_url, amounts.metadata) as server:
        sql = "SELECT round(count(id) / count(*) * 0, 2) AS zero, 9223372036854775807 + id AS large FROM amounts"
        result = await server.result(read_select(sql, registry, "sqlite"))
        expected = {"zero": 0.0, "large": 2.0**63, "$unfit": ["large"]}
        for row in (result.sample[0], (await result.fetch()).data[0], (await result.fetch_all())[0]):
            assert row == expected and list(map(type, row.values())) == [float, float, list]
        assert (await server.rows(result, "arrow")).json()["code"] == "VALUE_NOT_REPRESENTABLE"


async def test_sums_of_conditions_are_numbers_everywhere(sqlite_url: str) -> None:
    await fill(sqlite_url)
    sql = (
        "SELECT sum(id > 1) AS a, sum(id IN (1, 2)) AS b, sum(NOT id > 1) AS c, max(id > 1) AS d FROM amounts"
    )
    async with served(sqlite_url, amounts.metadata) as server:
        statements = (
            read_select(sql, Registry(amounts.metadata), "sqlite"),
            select(
                func.sum(amounts.c.id > 1).label("a"),
                func.sum(amounts.c.id.in_([1, 2])).label("b"),
                func.sum(~(amounts.c.id > 1)).label("c"),
                func.count(func.distinct(amounts.c.id > 5)).label("d"),
            ),
        )
        for statement in statements:
            result = await server.result(statement)
            assert result.sample == (await result.fetch_all()) == [{"a": 3, "b": 2, "c": 1, "d": 1}]
            assert {type(value) for value in result.sample[0].values()} == {int}


async def test_whole_numbers_among_doubles_are_in_arrow_if_a_double_holds_them(sqlite_url: str) -> None:
    await fill(sqlite_url)
    async with served(sqlite_url, amounts.metadata) as server:
        statement = select((amounts.c.whole * 2).label("v")).where(amounts.c.id > 1).order_by(amounts.c.id)
        result = await server.result(statement)
        assert [row["v"] for row in result.sample] == [3.0, 10, 2 * 9007199254740992]
        assert result.columns[0]["encoding"] == "float"
        shown = values_of(await server.rows(result, "arrow"), "arrow", "v")
        assert shown == [3.0, 10.0, float(2 * 9007199254740992)]


@pytest.mark.filterwarnings("ignore:Type object:sqlalchemy.exc.SADeprecationWarning")
async def test_operators_of_what_is_no_number_are_of_no_announced_type(sqlite_url: str) -> None:
    await fill(sqlite_url)
    async with served(sqlite_url, amounts.metadata) as server:
        text = cast(amounts.c.id, String)
        chosen = case((amounts.c.id > 1, amounts.c.id), else_=amounts.c.whole / 4)
        statement = select(
            (-text).label("a"),
            text.op("<<")(2).label("b"),
            amounts.c.id.concat("x").label("c"),
            func.mod(amounts.c.id, 3).label("d"),
            chosen.label("e"),
        ).where(amounts.c.id == 1)
        result = await server.result(statement)
        assert result.sample == [{"a": -1, "b": 4, "c": "1x", "d": 1.0, "e": 2251799813685248.25}]
        assert [column["encoding"] for column in result.columns] == ["any", "any", "text", "float", "float"]


stored = Table(
    "stored", MetaData(), Column("id", Integer, primary_key=True), Column("ratio", REAL), Column("doc", JSON)
)


async def test_a_real_is_a_double_and_is_found_by_all_of_its_digits(sqlite_url: str) -> None:
    values = [0.1, 16777217.0, 0.10000000149011612]  # a single has neither the second nor the first
    async with opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(stored.metadata.create_all)
        await connection.execute(insert(stored), [{"ratio": value} for value in values])
    async with served(sqlite_url, stored.metadata) as server:
        result = await server.result(select(stored.c.ratio).order_by(stored.c.id))
        assert [row["ratio"] for row in result.sample] == values
        for format_name in ("ndjson", "csv", "arrow"):
            shown = values_of(await server.rows(result, format_name), format_name, "ratio")
            assert list(map(float, shown)) == values
        for value in values:
            equal: Any = {"column": "ratio", "op": "eq", "value": value}
            assert (await result.query(filters=equal, aggregates=["count"])).data == [{"count": 1}]


async def test_a_json_null_is_shown_as_null_and_is_no_sql_null(sqlite_url: str) -> None:
    async with opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(stored.metadata.create_all)
        await connection.execute(insert(stored), [{"doc": None}, {"doc": null()}, {"doc": [1]}])
    async with served(sqlite_url, stored.metadata) as server:
        result = await server.result(select(stored.c.doc).order_by(stored.c.id))
        assert result.sample == [{"doc": None}, {"doc": None}, {"doc": [1]}]
        is_null: Any = {"column": "doc", "op": "is_null", "value": True}
        assert (await result.query(filters=is_null, aggregates=["count"])).data == [{"count": 1}]
        assert (await server.result(select(func.count(stored.c.doc).label("n")))).sample == [{"n": 2}]
