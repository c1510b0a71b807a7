"""Every stream backend gives the values that SQLAlchemy gives, cell by cell, on every type and in every format."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    case,
    cast,
    func,
    insert,
    literal,
    null,
    select,
    union_all,
)
from sqlalchemy.event import listen
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import Registry, plan
from dualsql.databases.source import Source, open_source
from dualsql.formats.table import FORMATS
from dualsql.tenancy import ActiveRules, Policy
from tests.databases.streams.everything import backends_taken, fill
from tests.databases.streams.reading import read, streamed

FAST = {
    ("sqlite", "rows"): "by_sqlite_thread",
    ("postgresql", "rows"): "by_asyncpg_cursor",
    ("postgresql", "csv"): "by_csv_copy",
    ("postgresql", "batches"): "by_arrow_copy",
}

# What COPY has no spelling for: it goes by the cursor.
NOT_COPIED = {"shouted", "prices", "address", "numbers", "tea_time", "untyped"}


@pytest.fixture
async def table(engine: AsyncEngine) -> Table:
    return await fill(engine)


@pytest.fixture
async def source(engine: AsyncEngine, table: Table) -> AsyncIterator[Source]:
    opened = open_source("x", engine, Registry(table.metadata))
    yield opened
    await opened.close()


def statement_of(source: Source, statement: Any) -> tuple[Any, Any]:
    shape = plan.shape(statement)
    return plan.page(plan.ordered(shape, source.capabilities), offset=0, limit=None), shape.columns


async def compare(source: Source, statement: Any, format_name: str, table: Table) -> list[str]:
    """Names of the backends taken, the first of which is the fast one."""
    select_, columns = statement_of(source, statement)
    rules: ActiveRules = Policy(Registry(table.metadata)).rules_for(None)
    with backends_taken() as taken:
        fast = read(format_name, await streamed(source, select_, rules, columns, format_name), columns)
    with backends_taken(slow=True):
        slow = read(format_name, await streamed(source, select_, rules, columns, format_name), columns)
    for column in columns:
        assert fast[column.name] == slow[column.name], column.name
    return taken


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_every_type(source: Source, table: Table, format_name: str) -> None:
    unread = {"untyped", "numbers"} if source.engine.dialect.name == "postgresql" else set()
    everything = select(*[column for column in table.c if column.name not in unread])
    await compare(source, everything, format_name, table)


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_can_be_copied_is(source: Source, table: Table, format_name: str) -> None:
    plain = [column for column in table.c if column.name not in NOT_COPIED]
    taken = await compare(source, select(*plain).where(table.c.id > 0), format_name, table)
    if source.engine.dialect.name == "sqlite":
        assert taken == ["by_sqlite_thread"]
    else:
        expected = {"csv": "by_csv_copy", "arrow": "by_arrow_copy", "parquet": "by_arrow_copy"}
        assert taken == [expected.get(format_name, "by_asyncpg_cursor")]


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", ["ndjson", "csv", "arrow"])
async def test_some_columns_in_another_order(source: Source, table: Table, format_name: str) -> None:
    select_, columns = statement_of(source, select(table.c.id, table.c.name, table.c.flag, table.c.day))
    rules = Policy(Registry(table.metadata)).rules_for(None)
    whole = read(format_name, await streamed(source, select_, rules, columns, format_name), columns)
    data = await streamed(source, select_, rules, columns, format_name, places=[3, 0])
    actual = read(format_name, data, [columns[3], columns[0]])
    assert actual == {"day": whole["day"], "id": whole["id"]}
    assert list(actual) == ["day", "id"]


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", ["ndjson", "csv", "arrow"])
async def test_no_row_at_all(source: Source, table: Table, format_name: str) -> None:
    await compare(source, select(table.c.id, table.c.name).where(table.c.id < 0), format_name, table)


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", ["ndjson", "csv", "arrow", "parquet"])
async def test_a_column_of_nothing_but_null(source: Source, table: Table, format_name: str) -> None:
    """Rows that are empty lines in CSV are rows."""
    number = case((table.c.id > 40, table.c.small)).label("only")
    await compare(source, select(number).order_by(table.c.id), format_name, table)


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", ["ndjson", "csv", "arrow", "parquet"])
async def test_numbers_that_are_none(postgresql_url: str, make_engine: Any, format_name: str) -> None:
    """JSON and CSV have words for them; Arrow keeps them."""
    engine = make_engine(postgresql_url)
    table = await fill(engine)
    source = open_source("x", engine, Registry(table.metadata))
    words = ("NaN", "Infinity", "-Infinity")
    rows = union_all(
        *[
            select(literal(n).label("n"), literal(float(word), Float).label("f"))
            for n, word in enumerate(words)
        ]
    )
    select_, columns = statement_of(source, rows.subquery().select())
    rules = Policy(Registry(table.metadata)).rules_for(None)
    with backends_taken(slow=True):
        slow = read(format_name, await streamed(source, select_, rules, columns, format_name), columns)
    fast = read(format_name, await streamed(source, select_, rules, columns, format_name), columns)
    assert fast == slow
    assert slow["f"] == ["nan", "inf", "-inf"]


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_expressions_and_groups(source: Source, table: Table, format_name: str) -> None:
    statement = (
        select(
            table.c.word,
            func.count().label("n"),
            func.sum(table.c.price).label("total"),
            func.avg(table.c.small).label("mean"),
            cast(func.max(table.c.exact), Numeric(30, 5)).label("most"),
            func.min(cast(table.c.small, Text)).label("least"),
            null().label("nil"),
        )
        .where(table.c.name != "$1", table.c.flag.is_not(None))
        .group_by(table.c.word)
    )
    await compare(source, statement, format_name, table)


@pytest.mark.quick(1)
@pytest.mark.parametrize("format_name", ["ndjson", "csv", "arrow"])
async def test_a_session_with_other_habits(postgresql_url: str, make_engine: Any, format_name: str) -> None:
    """DateStyle, IntervalStyle, TimeZone and bytea_output change what PostgreSQL writes, but not what is read."""
    filled = make_engine(postgresql_url)
    table = await fill(filled)
    engine = make_engine(postgresql_url)
    listen(engine.sync_engine, "connect", _other_habits)
    plain = [column for column in table.c if column.name not in NOT_COPIED]
    wanted = select(*plain).where(
        table.c.instant >= dt.datetime(1999, 12, 31, tzinfo=dt.UTC), table.c.span != dt.timedelta(1)
    )
    found = []
    for one in (filled, engine):
        source = open_source("x", one, Registry(table.metadata))
        select_, columns = statement_of(source, wanted)
        rules = Policy(Registry(table.metadata)).rules_for(None)
        found.append(read(format_name, await streamed(source, select_, rules, columns, format_name), columns))
    assert found[0] == found[1]
    assert found[0]["id"]


def _other_habits(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for habit in (
        "DateStyle = German",
        "IntervalStyle = sql_standard",
        "TimeZone = 'Asia/Tokyo'",
        "bytea_output = escape",
    ):
        cursor.execute(f"SET {habit}")
    cursor.close()
    connection.commit()


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_database_without_a_lane_of_its_own(
    mariadb_url: str, make_engine: Any, format_name: str
) -> None:
    """MariaDB goes by SQLAlchemy's rows, in every format."""
    engine = make_engine(mariadb_url)
    metadata = MetaData()
    table = Table(
        "things",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("text", String(20)),
        Column("price", Numeric(12, 2)),
        Column("moment", DateTime),
        Column("bytes", LargeBinary),
        Column("flag", Boolean),
    )
    filled = [
        {
            "id": 1,
            "text": "ä,\n",
            "price": Decimal("1.50"),
            "moment": None,
            "bytes": b"\x00\xff",
            "flag": True,
        },
        {
            "id": 2,
            "text": "",
            "price": None,
            "moment": dt.datetime(2020, 1, 2, 3),  # noqa: DTZ001
            "bytes": None,
            "flag": None,
        },
    ]
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(insert(table), filled)
    source = open_source("x", engine, Registry(metadata))
    select_, columns = statement_of(source, select(table))
    rules = Policy(Registry(metadata)).rules_for(None)
    with backends_taken() as taken:
        actual = read(format_name, await streamed(source, select_, rules, columns, format_name), columns)
    assert actual == {name: [row[name] for row in filled] for name in actual}
    assert taken == ["by_sqlalchemy"]
