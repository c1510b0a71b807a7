"""Every digit of a stored number is shown, whatever class the application asks SQLAlchemy to make of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Column, Double, Float, Integer, MetaData, Numeric, Table, func, select

from dualsql.freeze import Registry
from dualsql.sql import read_select
from tests.columns.kinds.results import served, values_of
from tests.engines import opened

numbers = Table(
    "numbers",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("rounded", Double(asdecimal=True)),
    Column("plain", Numeric(30, 10, asdecimal=False)),
    Column("few", Float(53, decimal_return_scale=2, asdecimal=True)),
)
DOUBLES = (1e-12, 0.123456789012345, 1e300)
DECIMALS = ("9007199254740993.0000000000", "0.1234567891", "12345678901234567890.1234567891")
FORMATS = ("ndjson", "json", "arrow")


async def fill(url: str) -> MetaData:
    """Fill the table; returns what SQLAlchemy reflects, which takes MySQL's DOUBLE for a decimal of ten digits."""
    reflected = MetaData()
    async with opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(numbers.metadata.create_all)
        for place, (double, decimal) in enumerate(zip(DOUBLES, DECIMALS, strict=True)):
            row = f"({place}, {double!r}, {decimal}, {double!r})"
            await connection.exec_driver_sql(f"INSERT INTO numbers VALUES {row}")
        await connection.run_sync(reflected.reflect)
    return reflected


@pytest.mark.parametrize("origin", ["declared", "reflected", "text"])
async def test_all_digits_are_shown(source_url: str, origin: str) -> None:
    reflected = await fill(source_url)
    tables = reflected if origin == "reflected" else numbers.metadata
    table = tables.tables["numbers"]
    statement: Any = select(table).order_by(table.c.rounded)
    async with served(source_url, tables) as server:
        if origin == "text":
            sql = "SELECT * FROM numbers ORDER BY rounded"
            statement = read_select(sql, Registry(tables), source_url.partition("+")[0])
        result = await server.result(statement)
        pages = await result.fetch_all()
        for rows in (result.sample, pages, (await result.fetch(sort="rounded", limit=2)).data):
            assert [row["rounded"] for row in rows] == [*DOUBLES][: len(rows)]
            assert [row["few"] for row in rows] == [*DOUBLES][: len(rows)]
        for format_name in FORMATS:
            assert values_of(await server.rows(result, format_name), format_name, "rounded") == [*DOUBLES]
        for place, double in enumerate(DOUBLES):
            equal: Any = {"column": "rounded", "op": "eq", "value": double}
            assert [row["id"] for row in (await result.query(filters=equal)).data] == [place]
        if source_url.startswith("sqlite"):  # it has no decimals: the column holds integers and doubles
            return
        for format_name in FORMATS:
            shown = values_of(await server.rows(result, format_name), format_name, "plain")
            assert [Decimal(one) for one in shown] == [Decimal(one) for one in DECIMALS], format_name


async def test_computed_numbers_too(source_url: str) -> None:
    await fill(source_url)
    column = numbers.c.rounded
    statement = select(
        func.min(column).label("a"), func.max(column).label("b"), func.min(column + 0).label("c")
    )
    async with served(source_url, numbers.metadata) as server:
        result = await server.result(statement)
        assert result.sample == [{"a": 1e-12, "b": 1e300, "c": 1e-12}]
        assert await result.fetch_all() == result.sample
