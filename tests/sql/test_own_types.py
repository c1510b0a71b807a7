"""Texts over columns of an application's own types: each is stored, and a value of a column is read by its type."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, TypeDecorator, insert

from dualsql import Registry
from dualsql.sql import read_select
from tests import engines
from tests.http.application import running


class Cents(TypeDecorator[float]):
    """An amount, which the database keeps in cents."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else round(value * 100)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else value / 100


class Pieces(TypeDecorator[int]):
    """A number, as the database has it."""

    impl = Integer
    cache_ok = True


METADATA = MetaData()
SALE = Table(
    "sale",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("price", Cents()),
    Column("pieces", Pieces()),
    Column("place", String(20)),
)
ROWS = [
    {"id": number, "price": number / 4, "pieces": number * 25, "place": "ab"[number % 2]}
    for number in range(1, 6)
]

# By text: the values of its only column, sorted. Of prices, whose type makes values, nothing is computed.
VALUES = {
    "SELECT price FROM sale": [0.25, 0.5, 0.75, 1.0, 1.25],
    "SELECT s.price FROM sale AS s": [0.25, 0.5, 0.75, 1.0, 1.25],
    "SELECT sale.price FROM sale AS sale WHERE sale.id < 3": [0.25, 0.5],
    "SELECT price FROM sale WHERE price = 1.25": [1.25],
    "SELECT price FROM (SELECT * FROM sale WHERE id > 4) AS sale": [1.25],
    "WITH sale AS (SELECT price FROM sale) SELECT price FROM sale WHERE price = 0.25": [0.25],
    "SELECT sale.price FROM sale JOIN sale AS other ON other.id = sale.id WHERE sale.id = 1": [0.25],
    "SELECT count(DISTINCT price) FROM sale": [5],
    "SELECT max(pieces) FROM sale": [125],
    "SELECT pieces FROM sale WHERE pieces > 100": [125],
    "SELECT CASE WHEN id > 3 THEN pieces END FROM sale WHERE id > 3": [100, 125],
    "SELECT (SELECT max(pieces) FROM sale) FROM sale WHERE id = 1": [125],
    "SELECT q.pieces FROM (SELECT pieces FROM sale) AS q WHERE q.pieces < 30": [25],
    "SELECT sum(pieces) FROM sale": [375],
    "SELECT sum(pieces) AS total FROM sale GROUP BY place ORDER BY total": [150, 225],
    "SELECT -pieces FROM sale WHERE id = 1": [-25],
    "SELECT pieces % 10 FROM sale WHERE id = 1": [5],
    "SELECT abs(pieces) AS size FROM sale WHERE id < 3 GROUP BY abs(pieces) ORDER BY abs(pieces)": [25, 50],
    "SELECT nullif(pieces, 25) FROM sale WHERE id = 2": [50],
    "SELECT sum(pieces) OVER (ORDER BY id) FROM sale WHERE id < 3": [25, 75],
    "SELECT q.total FROM (SELECT sum(pieces) AS total FROM sale) AS q": [375],
}


@pytest.mark.quick(6)
@pytest.mark.parametrize("text", VALUES)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
async def test_each_text_is_stored_and_answered(
    text: str, dialect: str, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(f"{dialect}_url")
    async with engines.opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(SALE), ROWS)
    select = read_select(text, Registry(METADATA), dialect)
    async with running(url, tables=METADATA) as application:
        path = await application.create(select)
        page = (await application.http.get(path, params={"limit": 100})).json()
    values = [next(iter(row.values())) for row in page["data"]]
    assert sorted(map(float, values)) == VALUES[text]
