"""What is read on the event loop keeps it for milliseconds at most, writes nothing, and answers as the thread does."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql.databases.backends import DriverStatement
from dualsql.databases.sqlite.connection import EventLoopReader, FileReader

LIMIT = timedelta(seconds=10)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(100)])
        connection.commit()
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[EventLoopReader]:
    reader = EventLoopReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine)
    yield reader
    reader.close()


def sent(sql: str, *parameters: int) -> DriverStatement:
    dialect = create_async_engine("sqlite+aiosqlite://").dialect
    return DriverStatement(sql, parameters, (), dialect, ("",))


def test_only_what_was_quick_is_read_at_once(reader: EventLoopReader) -> None:
    some = sent("SELECT n FROM numbers WHERE n < ?", 3)
    assert reader.fetch(some, LIMIT) is None
    reader.learn(some, work=0.0001, wait=0.0001)
    assert reader.fetch(some, LIMIT) == [(0,), (1,), (2,)]
    reader.learn(some, work=1.0, wait=1.0)
    assert reader.fetch(some, LIMIT) is None


def test_what_has_become_slow_is_stopped_and_not_tried_again(reader: EventLoopReader) -> None:
    endless = sent(ENDLESS)
    reader.learn(endless, work=0.0, wait=0.0)
    begun = time.monotonic()
    assert reader.fetch(endless, LIMIT) is None
    assert time.monotonic() - begun < 1  # milliseconds, on a machine with nothing else to do
    begun = time.thread_time()
    assert reader.fetch(endless, LIMIT) is None
    assert time.thread_time() - begun < 0.001


def test_a_writers_lock_is_not_waited_for(path: Path, reader: EventLoopReader) -> None:
    some = sent("SELECT n FROM numbers")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        reader.learn(some, work=0.0, wait=0.0)
        begun = time.monotonic()
        assert reader.fetch(some, LIMIT) is None
        assert time.monotonic() - begun < 1


def test_nothing_is_written(path: Path, reader: EventLoopReader) -> None:
    deletion = sent("DELETE FROM numbers")
    reader.learn(deletion, work=0.0, wait=0.0)
    assert reader.fetch(deletion, LIMIT) is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (100,)


async def test_another_thread_takes_the_long_way(reader: EventLoopReader) -> None:
    some = sent("SELECT n FROM numbers WHERE n = ?", 1)
    reader.learn(some, work=0.0, wait=0.0)
    assert reader.fetch(some, LIMIT) == [(1,)]
    assert await asyncio.to_thread(reader.fetch, some, LIMIT) is None


async def test_the_thread_and_the_loop_answer_the_same(path: Path) -> None:
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine)
    some = sent("SELECT n FROM numbers ORDER BY n LIMIT ?", 10)
    while (at_once := reader.fetch_at_once(some, LIMIT)) is None:  # a busy machine may be slow at first
        in_thread = await reader.fetch(some, LIMIT)
    assert at_once == in_thread == [(n,) for n in range(10)]
    await reader.close()
