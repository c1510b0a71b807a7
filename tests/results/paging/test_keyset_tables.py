"""Tables nobody thought of: whatever values, NULLs, ties, directions and sizes, pages joined are the result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Integer,
    MetaData,
    Numeric,
    Select,
    String,
    Table,
    delete,
    insert,
    select,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql import plan
from dualsql.capabilities import capabilities_of
from tests.engines import SOURCES
from tests.results.paging.test_keyset import require_joined

metadata = MetaData()
things = Table(
    "things",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("whole", BigInteger),
    Column("number", Float(53)),
    Column("money", Numeric(20, 6)),
    Column("word", String(20).with_variant(String(20, collation="NOCASE"), "sqlite")),
    Column("single", Float().with_variant(mysql.FLOAT(), "mysql", "mariadb")),
)
COLUMNS = [column for column in things.c if not column.primary_key]

_few = st.sampled_from
_WORDS = (
    st.none()
    | _few(["", "a", "A", "b", "ä", "Z"])
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5)
)
_NUMBERS = _few([None, 0.0, -0.0, 0.1, 0.30000000000000004, 1e300, 5e-324]) | st.floats(
    allow_nan=False, allow_infinity=False, allow_subnormal=False, min_value=-1e300, max_value=1e300
)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "whole": st.none() | _few([0, 1]) | st.integers(-(2**63), 2**63 - 1),
            "number": _NUMBERS,
            "money": st.none() | st.decimals(-9999, 9999, places=6) | _few([0, 1]),
            "word": _WORDS,
            "single": st.none() | st.floats(-1000, 1000, width=32, allow_subnormal=False),
        }
    ),
    max_size=14,
)
# position among COLUMNS, descending, and where NULLs go: as it is, first, last
_ORDER = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 2)), max_size=4)


@pytest.fixture(scope="module")
async def prepared(engine: AsyncEngine) -> AsyncEngine:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    return engine


@pytest.fixture
async def connection(prepared: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    async with prepared.connect() as connection:
        yield connection


def statement_of(order: list[tuple[int, bool, int]], *, has_key: bool, knows_nulls: bool) -> Select[Any]:
    """A SELECT of the things, in this order; without their key, rows may be equal."""
    outputs = [things.c.id, *COLUMNS] if has_key else COLUMNS
    actual: Select[Any] = select(*outputs) if has_key else select(select(*outputs).subquery("bare"))
    columns = COLUMNS if has_key else list(actual.selected_columns)
    for position, is_descending, nulls in order:
        key: Any = columns[position]
        key = key.desc() if is_descending else key
        actual = actual.order_by((key, key.nulls_first(), key.nulls_last())[nulls] if knows_nulls else key)
    return actual


async def require(
    connection: AsyncConnection, rows: list[dict[str, Any]], order: Any, size: int, has_key: bool
) -> None:
    capabilities = capabilities_of(connection.dialect)
    await connection.execute(delete(things))
    if rows:
        await connection.execute(insert(things), [{"id": n, **row} for n, row in enumerate(rows)])
    statement = statement_of(order, has_key=has_key, knows_nulls=capabilities.nulls_last)
    await require_joined(connection, plan.ordered(plan.shape(statement), capabilities), [size])
    await connection.rollback()


quick = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
thorough = settings(quick, max_examples=250)
any_table = given(rows=_ROWS, order=_ORDER, size=st.integers(1, 11), has_key=st.booleans())


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@quick
@any_table
async def test_a_table(connection: AsyncConnection, rows: Any, order: Any, size: int, has_key: bool) -> None:
    await require(connection, rows, order, size, has_key)


@pytest.mark.parametrize("engine", ["mariadb"], indirect=True)
async def test_numbers_whose_texts_are_long(connection: AsyncConnection) -> None:
    """A DOUBLE takes up to 24 characters."""
    numbers = [None, -1.2695718650332047e183, -1.1929869704073769e-284]
    rows = [{**dict.fromkeys(column.name for column in COLUMNS), "number": number} for number in numbers]
    await require(connection, rows, [], 1, has_key=False)


@pytest.mark.long
@pytest.mark.parametrize("engine", SOURCES, indirect=True)
@thorough
@any_table
async def test_many_tables(
    connection: AsyncConnection, rows: Any, order: Any, size: int, has_key: bool
) -> None:
    await require(connection, rows, order, size, has_key)
