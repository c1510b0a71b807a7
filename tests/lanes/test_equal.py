"""Every lane gives the values that SQLAlchemy gives, cell by cell, on every type and in every format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import Table, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import Registry, plan
from dualsql.execute.source import Source, open_source
from dualsql.formats.formats import FORMATS
from dualsql.narrowing import Narrowing, Policy
from tests.lanes.everything import fill, lanes_taken
from tests.lanes.reading import read, streamed

FAST = {
    ("sqlite", "rows"): "by_sqlite_thread",
    ("postgresql", "rows"): "by_asyncpg_cursor",
    ("postgresql", "csv"): "_as_csv",
    ("postgresql", "batches"): "_as_batches",
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


async def compare(source: Source, statement: Any, written: str, table: Table) -> list[str]:
    """Names of the lanes taken, the first of which is the fast one."""
    select_, columns = statement_of(source, statement)
    narrowing: Narrowing = Policy(Registry(table.metadata)).narrowing(None)
    with lanes_taken() as taken:
        fast = read(written, await streamed(source, select_, narrowing, columns, written), columns)
    with lanes_taken(slow=True):
        slow = read(written, await streamed(source, select_, narrowing, columns, written), columns)
    for column in columns:
        assert fast[column.name] == slow[column.name], column.name
    return taken


@pytest.mark.parametrize("written", FORMATS)
async def test_every_type(source: Source, table: Table, written: str) -> None:
    unread = {"untyped", "numbers"} if source.engine.dialect.name == "postgresql" else set()
    everything = select(*[column for column in table.c if column.name not in unread])
    await compare(source, everything, written, table)


@pytest.mark.parametrize("written", FORMATS)
async def test_what_can_be_copied_is(source: Source, table: Table, written: str) -> None:
    plain = [column for column in table.c if column.name not in NOT_COPIED]
    taken = await compare(source, select(*plain).where(table.c.id > 0), written, table)
    if source.engine.dialect.name == "sqlite":
        assert taken == ["by_sqlite_thread"]
    else:
        expected = {"csv": "_as_csv", "arrow": "_as_batches", "parquet": "_as_batches"}
        assert taken == [expected.get(written, "by_asyncpg_cursor")]
