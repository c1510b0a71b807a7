"""Pages of a SQLite file: stopped in time, and no slow one holds up the others."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Select, event, func, literal, make_url, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import QueryTimeoutError, Registry
from dualsql.databases.fetch import Fetch
from dualsql.databases.source import Source, open_source
from dualsql.formats.writer import Rows
from dualsql.tenancy import ActiveRules, Policy
from tests.schools import SCHOOLS, Base, School, fill
from tests.waiting import PATIENCE

_numbers = select(literal(1).label("n")).cte("forever", recursive=True)
FOREVER = select(func.count()).select_from(_numbers.union_all(select(_numbers.c.n)))
ALL = select(School.id).order_by(School.id)
MINUTE = timedelta(minutes=1)
ONE = ("",)
OPEN: ActiveRules = Policy(Registry(Base)).rules_for(None)


@pytest.fixture
async def source(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> AsyncIterator[Source]:
    await fill(make_engine(sqlite_url))
    source = open_source("x", sqlite_url, Registry(Base))
    assert source.fast is not None
    yield source
    await source.close()


async def page_rows(source: Source, statement: Select[Any], timeout: timedelta) -> Rows:
    fetch = Fetch(source=source, select=lambda: statement, rules=OPEN, described=ONE, timeout=timeout)
    return await fetch.rows()


async def ids(source: Source, timeout: timedelta = MINUTE) -> list[int]:
    return [row[0] for row in await page_rows(source, ALL, timeout)]


EVERY_ID = [row["id"] for row in SCHOOLS]


async def test_a_session_and_the_event_loop_answer_the_same(source: Source) -> None:
    for _ in range(3):
        assert await ids(source) == EVERY_ID


async def test_a_page_that_takes_too_long_is_stopped(source: Source) -> None:
    with pytest.raises(QueryTimeoutError):
        await page_rows(source, FOREVER, timedelta(milliseconds=200))
    assert await ids(source) == EVERY_ID


async def test_a_slow_page_holds_up_no_other(source: Source) -> None:
    slow = asyncio.ensure_future(page_rows(source, FOREVER, timedelta(seconds=20)))
    async with asyncio.timeout(PATIENCE):
        # Those that queue behind it at once, and those that come when it is known to be slow.
        for _ in range(3):
            assert await asyncio.gather(*(ids(source) for _ in range(8))) == [EVERY_ID] * 8
    assert not slow.done()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


async def test_a_caller_who_leaves_stops_its_own_statement_alone(source: Source) -> None:
    for _ in range(5):
        leaving = asyncio.ensure_future(page_rows(source, FOREVER, MINUTE))
        others = [asyncio.ensure_future(ids(source)) for _ in range(3)]
        await asyncio.wait({leaving}, timeout=0.05)
        leaving.cancel()
        assert await asyncio.gather(*others) == [EVERY_ID] * 3
    async with asyncio.timeout(PATIENCE):
        assert await ids(source) == EVERY_ID


@pytest.fixture
def source_for_loops(sqlite_url: str) -> Iterator[Source]:
    """A source that belongs to no event loop."""
    with closing(sqlite3.connect(str(make_url(sqlite_url).database))) as connection:
        connection.execute("CREATE TABLE schools (id INTEGER)")
    source = open_source("x", sqlite_url, Registry(Base))
    yield source
    asyncio.run(source.close())


def test_a_loop_that_is_gone_leaves_the_file_readable(source_for_loops: Source) -> None:
    async def leave() -> None:
        task = asyncio.ensure_future(page_rows(source_for_loops, FOREVER, MINUTE))
        await asyncio.wait({task}, timeout=0.05)

    asyncio.run(leave())
    assert asyncio.run(ids(source_for_loops)) == []


@pytest.mark.parametrize("moment", ["connect", "checkout", "begin"])
def test_a_loop_may_end_while_a_connection_is_set_up(source_for_loops: Source, moment: str) -> None:
    """Its thread reports nothing to the loop that has ended, which would raise an error and end the thread."""

    async def leave() -> None:
        is_reached = asyncio.Event()
        event.listen(source_for_loops.engine.sync_engine, moment, lambda *_: is_reached.set())
        task = asyncio.ensure_future(page_rows(source_for_loops, FOREVER, MINUTE))
        await is_reached.wait()
        assert not task.done()

    asyncio.run(leave())
    assert asyncio.run(ids(source_for_loops)) == []
