"""What is thawed answers with the very rows of what was frozen, wherever a database can run it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Select, func, insert, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.schema import CreateSchema

from dualsql.freeze import freeze, thaw
from tests.freeze.shop import (
    REGISTRY,
    SHAPES,
    VALUES,
    Base,
    Card,
    Person,
    customers,
    metadata,
    orders,
)

pytestmark = pytest.mark.quick(50, "sqlite")

PEOPLE: list[dict[str, Any]] = [
    {"id": 1, "name": "x", "kind": "engineer", "level": None, "boss_id": None},
    {"id": 2, "name": "y", "kind": "manager", "level": 4, "boss_id": 1},
    {"id": 3, "name": "z", "kind": "person", "level": None, "boss_id": 2},
]
CARDS: list[dict[str, Any]] = [
    {"id": number, "number": "xyz"[number % 3], "person_id": 1 + number % 2} for number in range(1, 7)
]
CUSTOMERS: list[dict[str, Any]] = [
    {"id": number, "name": "abx"[number % 3], "parent_id": number // 2 or None} for number in range(1, 7)
]
FEWEST = {"sqlite": 55, "postgresql": 110}
"""Shapes that the database runs; others call functions of an application, or are another dialect's."""


async def _fill(connection: AsyncConnection) -> None:
    is_postgresql = connection.dialect.name == "postgresql"
    if is_postgresql:
        await connection.execute(CreateSchema("sales"))
        await connection.run_sync(metadata.create_all)
    else:
        await connection.run_sync(customers.create)
    await connection.execute(insert(customers), CUSTOMERS)
    if is_postgresql:
        for number in range(1, 7):
            values = {**VALUES, "secret": None, "id": number, "customer_id": number, "price": number}
            await connection.execute(insert(orders).values(values))
    await connection.run_sync(Base.metadata.create_all)
    await connection.execute(insert(Base.metadata.tables["people"]), PEOPLE)
    await connection.execute(insert(Base.metadata.tables["engineers"]), [{"id": 1, "language": "x"}])
    await connection.execute(insert(Base.metadata.tables["cards"]), CARDS)


async def _answer(connection: AsyncConnection, statement: Any) -> list[str]:
    """The names and rows of a statement, in an order that does not depend on the plan."""
    result = await connection.execute(statement)
    return [str(list(result.keys())), *sorted(map(repr, result.all()))]


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # cross joins, on purpose
async def test_the_rows_are_the_same(engine: AsyncEngine) -> None:
    ran = 0
    async with engine.begin() as connection:
        await _fill(connection)
        for name, statement in SHAPES.items():
            if name == "tablesample":  # other rows each time
                continue
            savepoint = await connection.begin_nested()
            try:
                expected = await _answer(connection, statement)
            except (DBAPIError, SQLAlchemyError):
                await savepoint.rollback()
                continue
            ran += 1
            thawed = thaw(freeze(statement, REGISTRY, dialect=engine.dialect), REGISTRY)
            assert await _answer(connection, thawed) == expected, name
            await savepoint.rollback()
    assert ran >= FEWEST[engine.dialect.name]


async def test_a_criterion_still_filters(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await _fill(connection)
        statement = SHAPES["orm criteria"]
        thawed = thaw(freeze(statement, REGISTRY, dialect=engine.dialect), REGISTRY)
        assert isinstance(thawed, Select)
        actual = (await connection.execute(thawed)).all()
        assert len(actual) == sum(card["number"] != "x" for card in CARDS) < len(CARDS)
        everyone = (await connection.execute(select(func.count()).select_from(Person))).scalar_one()
        assert everyone == len(PEOPLE)
        assert (await connection.execute(select(func.count(Card.id)))).scalar_one() == len(CARDS)
