"""Pages that a reader process reads: the rows of the event loop, and whatever goes wrong is left to the thread."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, select
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import DualResponseServer, PageRequest
from dualsql.databases.driver import DriverStatement
from dualsql.databases.sqlite import page_process
from dualsql.databases.sqlite.connection import FileReader
from dualsql.databases.sqlite.page_process import PageProcess
from dualsql.databases.sqlite.processes import ReaderProcess
from dualsql.errors import QueryExecutionError
from tests.waiting import until

LIMIT = timedelta(seconds=10)
VALUES: list[list[Any]] = [
    [1, -(2**63), 0.1, "a", "null"],
    [2, 2**63 - 1, 1.7976931348623157e308, "ä🎈\0x", ""],
    [3, None, -0.0, "", None],
    [4, "a text", 2, None, 5e-324],
]
ALL = "SELECT id, whole, ratio, text, data FROM cells ORDER BY id LIMIT ? OFFSET ?"
NAMES = ("id", "whole", "ratio", "text", "data")
SLOW = (
    "SELECT a.id FROM cells a, cells b, cells c, cells d, cells e WHERE a.id + b.id + c.id + d.id + e.id < 0"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cells.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE cells ({', '.join(NAMES)})")
        connection.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", VALUES)
        connection.execute("CREATE VIEW some AS SELECT ratio FROM cells")
    return path


def sent(sql: str, *parameters: Any, described: tuple[str, ...] = NAMES) -> DriverStatement:
    dialect = create_async_engine("sqlite+aiosqlite://").dialect
    return DriverStatement(sql, parameters, (), dialect, described)


@pytest.fixture
async def process(path: Path) -> AsyncIterator[PageProcess]:
    reader = PageProcess(ReaderProcess(), str(path))
    assert not reader.takes(ALL)  # it has not started yet
    await until(partial(ready, reader))
    yield reader
    reader.close()


async def test_a_file_that_it_cannot_open_is_given_up(tmp_path: Path) -> None:
    reader = PageProcess(ReaderProcess(), str(tmp_path / "missing.sqlite"))
    await until(partial(ended, reader))
    assert not reader.was_ready
    assert not reader.takes(ALL)
    await until(gone)


async def ready(process: PageProcess) -> bool:
    assert process.is_open
    return process.takes(ALL)


def pid_of(process: PageProcess) -> int:
    return process._process._process.pid


async def test_its_rows_are_those_of_the_event_loop(process: PageProcess, reader: FileReader) -> None:
    for limit, offset in [(10, 0), (1, 1), (2, 2), (10, 10)]:
        some = sent(ALL, limit, offset)
        expected = reader.fetch_at_once(some, LIMIT)
        assert (
            repr(await process.fetch(some)) == repr(lists(expected)) == repr(VALUES[offset : offset + limit])
        )


def lists(rows: Any) -> list[list[Any]]:
    return [list(row) for row in rows]


@pytest.mark.parametrize("value", ["x'00ff'", "x''", "9e999", "-9e999"])
async def test_what_json_does_not_have_is_declined(process: PageProcess, value: str) -> None:
    some = sent(f"SELECT {value}, 1.5, NULL", described=("",) * 3)
    assert await process.fetch(some) is None
    assert not process.takes(some.sql)


async def test_values_of_parameters_are_as_they_were(process: PageProcess) -> None:
    same = sent("SELECT ?, ?, ?, ?, ? WHERE x'00ff' = ?", *VALUES[0], b"\0\xff", described=("",) * 5)
    assert await process.fetch(same) == [VALUES[0]]
    for n, value in enumerate((2**63, 10**5_000, "\ud800", timedelta(1), math.inf, -math.inf)):
        some = sent(f"SELECT ? -- {n}", value, described=("",))
        assert process.takes(some.sql)
        assert await process.fetch(some) is None
        assert not process.takes(some.sql)
    assert await process.fetch(same) == [VALUES[0]]


async def test_each_caller_gets_its_own_page(process: PageProcess) -> None:
    async def ask(n: int) -> tuple[int, Any]:
        return n, await process.fetch(sent(ALL, 1, n % 4))

    asking = [asyncio.ensure_future(ask(n)) for n in range(16)]
    await asyncio.sleep(0)
    assert not process.takes(ALL)  # so many wait
    for given_up in asking[::3]:
        given_up.cancel()
    for found in await asyncio.gather(*asking, return_exceptions=True):
        if not isinstance(found, BaseException):
            n, rows = found
            assert rows == [VALUES[n % 4]]
    assert await process.fetch(sent(ALL, 1, 2)) == [VALUES[2]]


@pytest.mark.parametrize(
    "sql",
    ["SELECT round(ratio, 1) FROM cells", "SELECT sum(ratio) FROM cells", "SELECT text || 'x' FROM cells"],
)
async def test_what_versions_of_sqlite_compute_otherwise_is_declined_and_not_asked_again(
    process: PageProcess, sql: str
) -> None:
    assert process.takes(sql)
    assert await process.fetch(sent(sql, described=("",))) is None
    assert not process.takes(sql)
    assert process.takes(ALL)


async def test_a_view_that_was_changed_is_looked_at_again(path: Path, process: PageProcess) -> None:
    some = sent("SELECT ratio FROM some LIMIT 1", described=("ratio",))
    assert await process.fetch(some) == [[0.1]]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP VIEW some")
        connection.execute("CREATE VIEW some AS SELECT round(ratio, 0) AS ratio FROM cells")
    assert await process.fetch(some) is None
    assert not process.takes(some.sql)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM cells",
        "DELETE FROM cells RETURNING id",
        "SELECT 1; DELETE FROM cells",
        "ATTACH 'made.db' AS made",
        "PRAGMA journal_mode = WAL",
        "VACUUM",
        "no statement",
    ],
)
async def test_it_reads_and_does_nothing_else(path: Path, process: PageProcess, sql: str) -> None:
    before = files_beside(path)
    assert not await process.fetch(sent(sql, described=("",)))
    assert files_beside(path) == before
    assert await process.fetch(sent(ALL, 1, 0)) == VALUES[:1]


def files_beside(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.parent.iterdir()}


async def test_other_columns_than_described_are_an_error(process: PageProcess) -> None:
    with pytest.raises(QueryExecutionError):
        await process.fetch(sent(ALL, 1, 0, described=("id",)))


async def test_what_takes_long_is_stopped_and_others_are_answered(path: Path, process: PageProcess) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO cells (id) VALUES (?)", [(n,) for n in range(5, 100)])
    begun = time.monotonic()
    slow, quick = await asyncio.gather(
        process.fetch(sent(SLOW, described=("id",))), process.fetch(sent(ALL, 1, 0))
    )
    assert (slow, quick) == (None, VALUES[:1])
    assert time.monotonic() - begun < 1  # 20 ms, on a machine with nothing else to do


async def test_a_lock_is_not_waited_for(path: Path, process: PageProcess) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert await process.fetch(sent(ALL, 1, 0)) is None
        writer.execute("COMMIT")
    assert await process.fetch(sent(ALL, 1, 0)) == VALUES[:1]


async def test_a_text_that_is_no_text_and_a_value_that_is_too_large_are_left_to_the_thread(
    path: Path, process: PageProcess
) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO cells (id) VALUES (?)", [(n,) for n in range(5, 23)])
    for value, places in [
        ("CAST(x'ff41' AS TEXT)", "id = 2"),
        ("zeroblob(2000000)", "id = 2"),
        ("zeroblob(1000000)", "id > 1"),
    ]:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE cells SET data = {value} WHERE {places}")
        assert process.takes(f"{ALL} -- {value}")
        assert await process.fetch(sent(f"{ALL} -- {value}", 30, 0)) is None
        assert not process.takes(f"{ALL} -- {value}")  # the event loop reads it
        assert await process.fetch(sent(ALL, 1, 0)) == VALUES[:1]


async def test_another_event_loop_does_without(process: PageProcess) -> None:
    async def takes() -> bool:
        return process.takes(ALL)

    assert await takes()
    assert not await asyncio.to_thread(asyncio.run, takes())


async def test_a_request_that_is_too_large_is_not_sent(process: PageProcess) -> None:
    large = sent(f"SELECT 1 /* {'x' * 20_000} */", described=("",))
    assert await process.fetch(large) is None
    assert not process.takes(large.sql)
    assert await process.fetch(sent(ALL, 1, 0)) == VALUES[:1]


async def test_a_process_that_dies_leaves_nobody_waiting(process: PageProcess) -> None:
    asking = [asyncio.ensure_future(process.fetch(sent(ALL, 1, 0))) for _ in range(4)]
    os.kill(pid_of(process), signal.SIGKILL)
    answers = await asyncio.gather(*asking)
    assert all(answer in (None, VALUES[:1]) for answer in answers)
    await until(partial(ended, process))
    assert not process.takes(ALL)
    assert await process.fetch(sent(ALL, 1, 0)) is None


async def ended(process: PageProcess) -> bool:
    return not process.is_open


async def test_a_process_that_hangs_is_given_up(
    process: PageProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_process, "_ANSWER_SECONDS", 0.05)
    os.kill(pid_of(process), signal.SIGSTOP)
    assert await asyncio.gather(*(process.fetch(sent(ALL, 1, 0)) for _ in range(3))) == [None] * 3
    assert not process.is_open
    await until(gone)


async def gone() -> bool:
    command = ["pgrep", "-P", str(os.getpid()), "-f", "reader_process.py"]
    return not subprocess.run(command, capture_output=True, check=False).stdout  # noqa: ASYNC221


async def test_a_reader_starts_a_process_once_it_is_busy_and_another_when_it_has_ended(path: Path) -> None:
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine)
    some = sent(ALL, 2, 1)
    try:
        for _ in range(2):
            process = await started(reader, some)
            ending = partial(ended, process)
            assert await by_process(reader, some) == VALUES[1:3]
            os.kill(pid_of(process), signal.SIGKILL)
            assert lists(await page(reader, some)) == VALUES[1:3]
            await until(ending)
    finally:
        reader.close()
    await until(gone)


async def page(reader: FileReader, some: DriverStatement) -> Any:
    """The rows of a statement that is fast."""
    while (actual := await reader.fetch(some, LIMIT)) is None:  # a busy machine may be slow
        pass
    return actual


async def by_process(reader: FileReader, some: DriverStatement) -> Any:
    """The rows as the process reads them: of pages that come one by one, it reads some."""
    for _ in range(17):
        rows = await page(reader, some)
        assert lists(rows) == VALUES[1:3]
        if isinstance(rows[0], list):
            return rows
    pytest.fail("The process reads none.")


async def test_of_pages_that_come_one_by_one_it_reads_few(path: Path) -> None:
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine)
    some = sent(ALL, 2, 1)

    async def is_by_process() -> bool:
        return isinstance((await page(reader, some))[0], list)

    try:
        await started(reader, some)
        assert sum([await is_by_process() for _ in range(160)]) <= 20
        actual = await asyncio.gather(*(several(is_by_process) for _ in range(8)))
        assert sum(map(sum, actual)) >= 80
    finally:
        reader.close()


async def several(page: Callable[[], Awaitable[bool]]) -> list[bool]:
    return [await page() for _ in range(20)]


async def started(reader: FileReader, some: DriverStatement) -> PageProcess:
    processes = reader.processes
    assert processes is not None
    before = processes.of_pages

    async def has_started() -> bool:
        for _ in range(200):
            await page(reader, some)
        process = processes.of_pages
        return process is not None and process is not before and process.takes(some.sql)

    await until(has_started)
    assert processes.of_pages is not None
    return processes.of_pages


async def test_what_it_declines_is_read_as_before(path: Path) -> None:
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine)
    declined = sent("SELECT upper(text) AS text FROM cells", described=("text",))
    try:
        await started(reader, sent(ALL, 2, 1))
        for _ in range(3):
            rows = await page(reader, declined)
            assert [text for (text,) in rows] == ["A", "ä🎈\0X", "", None]
    finally:
        reader.close()


async def test_settings_of_the_url_keep_it_from_a_process(path: Path) -> None:
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}?timeout=3").sync_engine)
    some = sent(ALL, 2, 1)
    for _ in range(300):
        assert lists(await page(reader, some)) == VALUES[1:3]
    assert reader.processes is None
    reader.close()


async def test_pages_of_a_busy_server_are_the_same_before_and_after(tmp_path: Path) -> None:
    path = tmp_path / "numbers.sqlite"
    numbers = Table("numbers", MetaData(), Column("n", Integer, primary_key=True), Column("name", String))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY, name VARCHAR)")
        connection.executemany("INSERT INTO numbers VALUES (?, ?)", [(n, f"no {n}") for n in range(1_000)])
    async with DualResponseServer(
        f"sqlite:///{path}", base_url="http://127.0.0.1/resources", tables=numbers.metadata
    ) as dual:
        response = await dual.create_response(select(numbers), name="numbers")
        reader: Any = dual.parts.sources["default"].fast
        processes = reader.processes

        async def page(offset: int) -> None:
            actual = await dual.read_page(response.resource_id, None, PageRequest(offset=offset, limit=10))
            wanted = [{"n": n, "name": f"no {n}"} for n in range(offset, min(offset + 10, 1_000))]
            assert (list(actual.rows), actual.has_next) == (wanted, offset < 990)

        async def is_used() -> bool:
            await asyncio.gather(*(page(offset) for offset in range(0, 1_000, 10)))
            return processes.of_pages is not None and processes.of_pages.was_ready

        await until(is_used)
        process = processes.of_pages
        asked = process._process._process.pid
        await asyncio.gather(*(page(offset) for offset in range(0, 1_000, 7)))
        cursor = None
        for start in range(0, 1_000, 100):
            actual = await dual.read_page(response.resource_id, None, PageRequest(cursor=cursor, limit=100))
            assert [row["n"] for row in actual.rows] == list(range(start, start + 100))
            cursor = actual.next_cursor
        assert cursor is None
        assert processes.of_pages is process
        assert asked == process._process._process.pid
    await until(gone)
