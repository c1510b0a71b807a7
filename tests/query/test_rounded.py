"""Decimals that SQLite computes in doubles are found as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Numeric,
    Table,
    cast,
    create_engine,
    func,
    insert,
    select,
    type_coerce,
)

from dualsql_client import FetchError
from tests import engines
from tests.columns.kinds.results import served

NUMBERS = Table(
    "numbers",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("x", Numeric(10, 3, asdecimal=True)),
)
# Sums of tenths, ties, what rounds to zero from below, and what no double is.
STORED = [0.1, 0.2, 0.3, 0.125, 0.375, -0.001, 2.675, 1.005, 1e15, -1e15, 99.995, 0.30000000000000004]
OPERATORS: Mapping[str, Callable[[Decimal, Decimal], bool]] = {
    "eq": lambda one, other: one == other,
    "ne": lambda one, other: one != other,
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
}


SHOWN: Mapping[str, Any] = {
    "column": NUMBERS.c.x,
    # The product is cut to two digits, the column to three.
    "product": func.sum(NUMBERS.c.x * 3, type_=Numeric(10, 2)),
    "quotient": func.min(NUMBERS.c.x) / 3,
}


@pytest.mark.long
@pytest.mark.parametrize("kind", SHOWN)
async def test_every_comparison_is_of_what_is_shown(sqlite_url: str, kind: str) -> None:
    async with engines.opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(NUMBERS.create)
        for number, value in enumerate(STORED):
            await connection.exec_driver_sql("INSERT INTO numbers VALUES (?, ?)", (number, value))
        await connection.exec_driver_sql("INSERT INTO numbers VALUES (100, NULL)")
    statement = select(NUMBERS.c.id, SHOWN[kind].label("x")).group_by(NUMBERS.c.id).order_by(NUMBERS.c.id)
    async with served(sqlite_url, NUMBERS.metadata) as server:
        result = await server.result(statement)
        shown = [row["x"] for row in (await result.fetch()).data if row["x"] is not None]
        assert len(shown) == len(STORED)
        values = [*map(Decimal, shown), Decimal("0.3004"), Decimal("0.12")]
        written: type[Any] = float if result.columns[-1]["encoding"] == "float" else str
        condition: Any
        for decimal in dict.fromkeys(values):
            for name, holds in OPERATORS.items():
                condition = {"column": "x", "op": name, "value": written(decimal)}
                answer = await result.query(filters=condition, columns=["x"], limit=100)
                wanted = [one for one in shown if holds(Decimal(one), decimal)]
                assert [row["x"] for row in answer.data] == wanted, condition
        for most in (40, 400):
            many = {*values[:5], *(Decimal(n) for n in range(1000, 1000 + most))}
            condition = {"column": "x", "op": "in", "value": list(map(written, many))}
            answer = await result.query(filters=condition, columns=["x"])
            assert [row["x"] for row in answer.data] == [one for one in shown if Decimal(one) in many]


@pytest.mark.long
@pytest.mark.parametrize("database", ["sqlite", "duckdb"])
async def test_quotients_are_found_as_shown(database: str, tmp_path: Path) -> None:
    """By every comparison. They are groups as shown, or refused as groups."""
    url = f"{database}:///{tmp_path}/numbers"
    engine = create_engine(url)
    with engine.begin() as connection:
        NUMBERS.create(connection)
        given = [{"id": number, "x": Decimal(number) / 8} for number in range(1, 12)]
        connection.execute(insert(NUMBERS), [*given, {"id": 100, "x": None}])
    engine.dispose()
    x = NUMBERS.c.x
    long = cast(x, Numeric(38, 20))
    for quotient in (
        x / 3,
        x / 7 + 1,
        -x / 3,
        NUMBERS.c.id / 7,
        type_coerce(long / 7, Numeric(38, 20)),
        long / 7,
    ):
        statement = select(NUMBERS.c.id, quotient.label("v")).order_by(NUMBERS.c.id).where(x.is_not(None))
        async with served(url.replace("sqlite:", "sqlite+aiosqlite:"), NUMBERS.metadata) as server:
            result = await server.result(statement)
            shown = [row["v"] for row in (await result.fetch()).data]
            condition: Any
            for value in shown[::4]:
                for name, holds in OPERATORS.items():
                    condition = {"column": "v", "op": name, "value": value}
                    values = [row["v"] for row in (await result.query(filters=condition)).data]
                    assert values == [one for one in shown if holds(Decimal(one), Decimal(value))], condition
            refusal, groups = "", []
            try:
                groups = (await result.query(group_by=["v"], aggregates=["count"], limit=100)).data
            except FetchError as error:
                refusal = str(error)
            assert "quotients" in refusal or {row["v"] for row in groups} == set(shown)


@pytest.mark.long
async def test_a_quotient_that_is_cast_is_a_decimal(tmp_path: Path) -> None:
    """DuckDB divides in doubles, and keeps all digits of the DECIMAL that one is cast to: they are compared as such."""
    engine = create_engine(f"duckdb:///{tmp_path}/numbers")
    with engine.begin() as connection:
        NUMBERS.create(connection)
        given = [{"id": n, "x": Decimal(n * 123456789) / 1000} for n in range(1, 12)]
        connection.execute(insert(NUMBERS), given)
    engine.dispose()
    decimal = cast(NUMBERS.c.x / Decimal("0.7"), Numeric(30, 20))
    async with served(f"duckdb:///{tmp_path}/numbers", NUMBERS.metadata) as server:
        for value in (decimal, decimal * 2, func.abs(decimal)):
            result = await server.result(select(NUMBERS.c.id, value.label("v")).order_by(NUMBERS.c.id))
            shown = [row["v"] for row in (await result.fetch()).data]
            assert all(len(one.replace(".", "").rstrip("0")) > 15 for one in shown)
            condition: Any
            for one in shown:
                for name, holds in OPERATORS.items():
                    condition = {"column": "v", "op": name, "value": one}
                    values = [row["v"] for row in (await result.query(filters=condition)).data]
                    assert values == [other for other in shown if holds(Decimal(other), Decimal(one))], (
                        condition
                    )
            groups = (await result.query(group_by=["v"], aggregates=["count"])).data
            assert [row["v"] for row in groups] == shown
