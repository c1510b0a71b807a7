"""What is read on the event loop keeps it for milliseconds at most, writes nothing, and answers as the thread does."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, func, select
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import DualResponseServer, PageRequest, QueryExecutionError, Registry
from dualsql.databases.driver import DriverStatement
from dualsql.databases.fetch import Fetch
from dualsql.databases.source import open_source
from dualsql.databases.sqlite.callbacks import MATCH
from dualsql.databases.sqlite.connection import LOOP_LIMIT
from dualsql.databases.sqlite.file_reader import FileReader
from dualsql.log import REQUEST, RequestRecord
from dualsql.tenancy import Policy
from dualsql_client.wire import SortKey
from tests.servers import fill_tables
from tests.waiting import longest_pause, until

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


def sent(sql: str, *parameters: int) -> DriverStatement:
    dialect = create_async_engine("sqlite+aiosqlite://").dialect
    return DriverStatement(sql, parameters, (), dialect, ("",))


async def test_only_what_was_fast_in_a_session_is_read_at_once(reader: FileReader) -> None:
    some = sent("SELECT n FROM numbers WHERE n < ?", 3)
    assert not reader.reads(some)
    reader.learn(some.sql, seconds=1.0)
    assert not reader.reads(some)
    reader.learn(some.sql, seconds=0.0001)
    assert reader.reads(some) and await reader.fetch(some, LIMIT) == [(0,), (1,), (2,)]


async def test_what_is_slow_is_stopped_and_not_tried_again(reader: FileReader) -> None:
    some, endless = sent("SELECT n FROM numbers"), sent(ENDLESS)
    for each in (some, endless):
        reader.learn(each.sql, seconds=0.0001)
    begun = time.monotonic()
    assert await reader.fetch(endless, LIMIT) is None
    assert time.monotonic() - begun < 1  # milliseconds, on a machine with nothing else to do
    assert [reader.reads(each) for each in (endless, some)] == [False, True]


def test_a_cold_block_sends_no_reader_to_a_session(reader: FileReader) -> None:
    """A session shares Python's lock with the event loop: on a busy server it takes a thousand times as long."""
    some = sent("SELECT n FROM numbers")
    for _ in range(10):
        reader.learn(some.sql, seconds=0.0001)
    reads = []
    for _ in range(3):
        reader.learn(some.sql, seconds=0.01)
        reads.append(reader.reads(some))
    assert reads == [True, True, False]
    reader.learn(some.sql, seconds=0.0001)
    assert reader.reads(some)


@pytest.mark.skipif(sys.platform != "linux", reason="whether a thread read from a disk is not known")
def test_a_session_finds_a_fast_statement_while_python_is_busy(path: Path, reader: FileReader) -> None:
    """Of several, as one may need a block from the disk: without this, all of them take more than `LOOP_LIMIT`."""
    entered, may_go = Semaphore(0), Semaphore(0)

    def wait() -> bool:
        entered.release()
        return may_go.acquire()

    fast = []
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection, ThreadPoolExecutor(1) as pool:
        connection.create_function("wait_for_python", 0, wait)
        for number in range(10):
            some = sent(f"SELECT n FROM numbers WHERE n = {number} AND wait_for_python()")
            reading = pool.submit(reader.read, connection, some)
            assert entered.acquire(timeout=60)
            begun = time.monotonic()
            while time.monotonic() - begun < 2 * LOOP_LIMIT:
                pass
            may_go.release()
            assert reading.result() == [(number,)]
            fast.append(reader.reads(some))
    assert any(fast)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="whether a thread read from a disk is not known")
async def test_a_statement_is_not_slow_because_other_processes_took_the_processor(reader: FileReader) -> None:
    """With more processes than cores, each waits milliseconds for its turn."""
    pytest.importorskip("apsw")  # many pages a second ask for it
    some = sent("SELECT n FROM numbers")
    reader.learn(some.sql, seconds=0.0001)
    before, lost, longest = os.sched_getaffinity(0), 0, 0.0
    os.sched_setaffinity(0, {min(before)})
    command = [sys.executable, "-c", "while True: pass"]
    others = [await asyncio.create_subprocess_exec(*command) for _ in range(3)]
    try:
        ends_at = time.monotonic() + 60
        while (longest < 0.03 or lost < 10) and time.monotonic() < ends_at:
            begun = time.monotonic()
            if reader.fetch_at_once(some, LIMIT) is None:  # its time limit ran out while it had no processor
                reader.learn(some.sql, seconds=0.0001)
                continue
            seconds = time.monotonic() - begun
            longest, lost = max(longest, seconds), lost + (seconds > LOOP_LIMIT)
            assert reader.reads(some), seconds
    finally:
        os.sched_setaffinity(0, before)
        for each in others:
            each.kill()
            await each.wait()
    assert lost >= 10


async def test_a_session_leaves_no_lock_on_the_file(path: Path) -> None:
    """No ROLLBACK is sent after it: its statements are transactions of their own, which end with their rows."""
    numbers = Table("numbers", MetaData(), Column("n", Integer, primary_key=True))
    registry = Registry(numbers.metadata)
    source, rules = open_source("x", f"sqlite:///{path}", registry), Policy(registry).rules_for(None)

    async def rows(name: str) -> int:
        statement, described = select(numbers), (name,)
        fetch = Fetch(
            source=source, select=lambda: statement, rules=rules, described=described, timeout=LIMIT
        )
        return len(await fetch.rows())

    with closing(sqlite3.connect(path, timeout=0)) as writer:
        with pytest.raises(QueryExecutionError, match="No row was sent") as refusal:
            await rows("m")
        writer.execute("BEGIN EXCLUSIVE").connection.rollback()
        assert refusal.tb is not None
        assert [await rows("n"), await rows("n")] == [100, 100]
        writer.execute("BEGIN EXCLUSIVE").connection.rollback()
    await source.close()


@pytest.mark.long
async def test_the_event_loop_runs_while_a_new_statement_works_on_long_texts(tmp_path: Path) -> None:
    """SQLite looks at the clock between instructions, and each call of replace() is one: they took 2 s."""
    words = Table("words", MetaData(), Column("n", Integer, primary_key=True), Column("word", String))
    url = f"sqlite:///{tmp_path}/words.sqlite"
    fill_tables(url, words.metadata, {words: [{"n": n, "word": "a" * 200_000} for n in range(100)]})
    long = func.replace(func.replace(words.c.word, "a", "bbbbbbbb"), "bb", "c")
    async with DualResponseServer(url, base_url="http://127.0.0.1/resources", tables=words.metadata) as dual:
        slow = dual.create_response(select(func.sum(func.length(long)).label("x")), name="slow")
        _, pause = await longest_pause(slow)
    assert pause < 0.2


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {MATCH}('a', 'b')",
        f"SELECT 1 /* {'x' * 20_000} */",
        "SELECT instr(n, ?) FROM numbers",
        "SELECT hex(zeroblob(?))",
        "SELECT n FROM numbers WHERE n LIKE ?",
        "SELECT n || ? FROM numbers",
    ],
)
def test_what_nothing_stops_is_not_tried_however_fast_it_was(sql: str, reader: FileReader) -> None:
    reader.learn(sql, seconds=0.0001)
    assert not reader.reads(sent(sql))


async def test_a_writers_lock_is_not_waited_for(path: Path, reader: FileReader) -> None:
    some = sent("SELECT n FROM numbers")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        assert await reader.fetch(some, LIMIT) is None
        assert time.monotonic() - begun < 1


async def test_nothing_is_written(path: Path, reader: FileReader) -> None:
    assert await reader.fetch(sent("DELETE FROM numbers"), LIMIT) is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (100,)


async def test_another_thread_takes_the_long_way(reader: FileReader) -> None:
    some = sent("SELECT n FROM numbers WHERE n = ?", 1)
    assert reader.fetch_at_once(some, LIMIT) == [(1,)]
    assert await asyncio.to_thread(reader.fetch_at_once, some, LIMIT) is None


async def test_slow_samples_keep_no_page_waiting(path: Path) -> None:
    numbers = Table("numbers", MetaData(), Column("n", Integer, primary_key=True))
    copies = [numbers.alias() for _ in range(5)]
    endless = select(func.count().label("n")).select_from(*copies).where(copies[0].c.n >= 0)
    record = RequestRecord(id="a page")
    async with DualResponseServer(
        f"sqlite:///{path}", base_url="http://127.0.0.1/resources", tables=numbers.metadata
    ) as dual:
        response = await dual.create_response(select(numbers), name="numbers")
        slow = [
            asyncio.ensure_future(dual.create_response(endless, name="slow", count="none")) for _ in range(3)
        ]
        await until(partial(_are_running, dual.parts.sources["default"], 3))
        descending = PageRequest(sort=[SortKey(field="n", order="desc")])
        token = REQUEST.set(record)
        # Another order than that of the sample: a session runs it first, since the event loop tries no new one.
        for lane in ("session", "page_reader"):

            async def is_read_by(lane: str = lane) -> bool:
                page = await dual.read_page(response.resource_id, None, descending)
                assert [row["n"] for row in page.rows][:3] == [99, 98, 97]
                return record.lane == lane

            await until(is_read_by)  # a busy machine may be slow at first
        REQUEST.reset(token)
        assert not any(one.done() for one in slow)
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def _are_running(source: Any, number: int) -> bool:
    return bool(source.engine.pool.checkedout() >= number)
