"""A value that an application binds keeps its digits, whatever the column beside it declares.

SQLAlchemy casts a bound value to the type of that column on asyncpg: 1.005 beside NUMERIC(10, 2) would become 1.01.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    REAL,
    Column,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    case,
    cast,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql as pg

from tests.columns.kinds.results import served
from tests.engines import opened

prices = Table(
    "prices",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("price", Numeric(10, 2)),
    Column("name", String(3)),
)
p = prices.c.price
CUT = Decimal("1.005")
STATEMENTS: dict[str, tuple[Any, list[Any]]] = {
    "greater": (select(prices.c.id).where(p > CUT), [1, 2]),
    "equal": (select(prices.c.id).where(p == Decimal("21.989")), []),
    "one of": (select(prices.c.id).where(p.in_([Decimal("1.009"), Decimal("1.001")])), []),
    "between": (select(prices.c.id).where(p.between(CUT, Decimal("1.014"))), [2]),
    "sum": (select((p + CUT).label("v")), ["22.995", "2.015", "2.005"]),
    "literal": (select(literal(CUT, Numeric(10, 2)).label("v")).where(prices.c.id == 1), ["1.005"]),
    "choice": (select(case((prices.c.id > 3, p), else_=CUT).label("v")), ["1.005"] * 3),
    "text": (select(prices.c.id).where(prices.c.name == "abcd"), []),
    "cast": (select(cast(CUT, Numeric(10, 2)).label("v")).where(prices.c.id == 1), ["1.01"]),
}


async def test_its_digits_stay(source_url: str) -> None:
    async with opened(source_url) as engine, engine.begin() as connection:
        await connection.run_sync(prices.metadata.create_all)
        rows = [(1, "21.99", "abc"), (2, "1.01", "abd"), (3, "1.00", "x")]
        await connection.execute(
            insert(prices), [{"id": n, "price": Decimal(price), "name": name} for n, price, name in rows]
        )
    async with served(source_url, prices.metadata) as server:
        for label, (statement, wanted) in STATEMENTS.items():
            if label == "cast" and source_url.startswith("sqlite"):
                continue  # which has no decimals
            statement_of_ids = statement.order_by(prices.c.id).add_columns(prices.c.id.label("n"))
            actual = [next(iter(row.values())) for row in (await server.result(statement_of_ids)).sample]
            assert [number(one) for one in actual] == [number(one) for one in wanted], label


def number(value: Any) -> Any:
    return round(Decimal(str(value)), 6)


odd = Table(
    "odd",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("span", pg.INTERVAL(fields="DAY")),
    Column("bits", pg.BIT(3)),
    Column("instant", pg.TIMESTAMP(precision=0)),
    Column("prices", pg.ARRAY(Numeric(10, 2))),
    Column("ratio", REAL),
)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_other_types_with_digits_on_postgresql(postgresql_url: str, driver: str) -> None:
    url = postgresql_url.replace("+asyncpg", f"+{driver}")
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(odd.metadata.create_all)
        await connection.exec_driver_sql(
            "INSERT INTO odd VALUES (1, '1 day', B'101', '2024-01-02 03:04:05', '{1.01}', 0.1)"
        )
    async with served(url, odd.metadata) as server:
        for condition in (
            odd.c.span == timedelta(days=1, hours=2),
            odd.c.bits == pg.BitString("1011"),
            odd.c.prices == [CUT],
            odd.c.prices.contains([CUT]),
        ):
            assert (await server.result(select(odd.c.id).where(condition))).sample == []
        for condition in (
            odd.c.span == timedelta(days=1),
            odd.c.bits == pg.BitString("101"),
            odd.c.prices == [Decimal("1.01")],
        ):
            assert (await server.result(select(odd.c.id).where(condition))).sample == [{"id": 1}]
        later = func.coalesce(func.nullif(odd.c.span, odd.c.span), timedelta(days=1, hours=2))
        assert (await server.result(select(later.label("v")))).sample == [{"v": "P1DT2H0M0S"}]
