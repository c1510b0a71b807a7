"""Pages that a reader process writes: as the event loop would, and whatever goes wrong is left to the thread."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from datetime import date, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any

import orjson
import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Date,
    DateTime,
    Float,
    Integer,
    Interval,
    MetaData,
    String,
    Table,
    Time,
    create_engine,
    select,
)
from sqlalchemy.dialects.sqlite import DATETIME
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.types import TypeEngine

from dualsql import DualResponseServer, PageRequest
from dualsql.databases.driver import DriverStatement
from dualsql.databases.sqlite import page_process
from dualsql.databases.sqlite.file_reader import FileReader
from dualsql.databases.sqlite.page_process import PageProcess
from dualsql.databases.sqlite.processes import ReaderProcess
from dualsql.databases.sqlite.reader_process import MOST_FORMS
from dualsql.formats import json
from dualsql.formats.row_objects import PlainObjects
from dualsql.formats.writer import PlainColumns, PlainPage, WrittenRows
from dualsql.results.pages import ResultPage
from tests.waiting import until

LIMIT = timedelta(seconds=10)
VALUES: list[list[Any]] = [
    [1, -(2**63), 0.1, "a", "null"],
    [2, 2**63 - 1, 1.7976931348623157e308, "ä🎈\0x", ""],
    [3, None, -0.0, "", None],
    [4, 0, 5e-324, None, "x"],
]
ALL = "SELECT id, whole, ratio, text, data FROM cells ORDER BY id LIMIT ? OFFSET ?"
NAMES = ("id", "whole", "ratio", "text", "data")
COLUMNS = PlainColumns(NAMES, ("int", "int", "float", "str", "str"))
SLOW = (
    "SELECT a.id FROM cells a, cells b, cells c, cells d, cells e "
    "WHERE a.id > b.id AND b.id > c.id AND c.id > d.id AND d.id > e.id AND e.id > a.id"
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


async def fetched(
    process: PageProcess, statement: DriverStatement, columns: PlainColumns = COLUMNS, size: int = 100
) -> list[list[Any]] | None:
    """The rows of a page that the process writes; None if it does not."""
    page = await process.fetch(statement, PlainPage(columns, size, is_reversed=False))
    return None if page is None else rows_of(page)


def rows_of(page: WrittenRows) -> list[list[Any]]:
    """The rows of a page that was written, whose first and last are given, too."""
    rows = [list(each.values()) for each in orjson.loads(page.text)]
    assert [*page.edges] == rows[:1] + rows[1:][-1:]
    return rows


def some_columns(*kinds: str) -> PlainColumns:
    return PlainColumns(tuple(f"c{place}" for place in range(len(kinds))), kinds)


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
        rows = await fetched(process, some)
        assert repr(rows) == repr(lists(expected)) == repr(VALUES[offset : offset + limit])


async def test_a_page_has_no_more_rows_than_its_size_and_may_be_reversed(process: PageProcess) -> None:
    for size in (1, 3, 4, 9):
        for is_reversed in (False, True):
            page = await process.fetch(sent(ALL, 4, 0), PlainPage(COLUMNS, size, is_reversed))
            assert page is not None
            assert (len(page), rows_of(page)) == (4, VALUES[:size][:: -1 if is_reversed else 1])


@pytest.mark.parametrize("way", ["written", "behind the page", "a key"])
async def test_a_page_that_may_be_too_large_is_left_to_the_event_loop(path: Path, way: str) -> None:
    """Which counts its rows, also those that are not written."""
    most, long = 100_000, 40_000
    own, size = {"written": ("t", 9), "behind the page": ("t", 2), "a key": ("1", 9)}[way]
    sql = f"SELECT id, {own} AS text, t AS key FROM long WHERE id < ? ORDER BY id"
    if way != "a key":
        sql = sql.replace(", t AS key", "")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE long (id INTEGER PRIMARY KEY, t TEXT)")
        connection.executemany("INSERT INTO long (t) VALUES (?)", [("x" * long,)] * 4)
    reader = PageProcess(ReaderProcess(), str(path), most)
    described = ("id", "text", *(["key"] if way == "a key" else []))
    columns = some_columns("int", "int" if way == "a key" else "str")
    try:
        await until(partial(ready, reader))
        page = PlainPage(columns, size, is_reversed=False)
        for value, is_written in ((3, True), (4, False), (3, True)):
            read = await reader.fetch(sent(sql, value, described=described), page)
            assert (read is not None) == is_written
            assert reader.takes(sql), "another page of the statement may be small"
    finally:
        reader.close()


def lists(rows: Any) -> list[list[Any]]:
    return [list(row) for row in rows]


USUAL = {"int": 7, "float": 0.5, "str": "a text", "date": "2024-02-29", "datetime": "2024-02-29 01:02:03"}
TYPES = {"date": Date(), "datetime": DateTime()}
ODD: list[tuple[Any, str]] = [
    *((value, kind) for value in (b"\0\xff", b"", math.inf, -math.inf) for kind in USUAL),
    (1, "float"),
    (1, "str"),
    (1.0, "int"),
    ("1", "int"),
    ("NaN", "float"),
    ("2024-02-30", "date"),
    ("tomorrow", "datetime"),
    (20240101, "date"),
]


@pytest.mark.parametrize(("value", "kind"), ODD)
async def test_a_cell_that_is_not_of_its_column_is_declined(
    path: Path, process: PageProcess, value: Any, kind: str
) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE odd (id INTEGER PRIMARY KEY, value)")
        connection.executemany("INSERT INTO odd (value) VALUES (?)", [(USUAL[kind],), (value,), (None,)] * 2)
    dialect = create_async_engine("sqlite+aiosqlite://").dialect
    own: tuple[Any, ...] = (Integer(), TYPES.get(kind, String()))
    some = DriverStatement("SELECT id, value FROM odd WHERE id <> ?", (0,), own, dialect, ("id", "value"))
    columns = some_columns("int", kind)
    assert await fetched(process, some, columns) is None
    assert not process.takes(some.sql)
    usual = some._replace(sql="SELECT id, value FROM odd WHERE id <> ? AND id <> ?", parameters=(2, 5))
    rows = await process.fetch(usual, PlainPage(columns, 9, is_reversed=False))
    assert rows is not None
    assert len(rows) == 4


MIXED = [0, 7, -(2**63), 0.0, 7.0, math.inf, "", "7", b"", b"7", None]


@pytest.mark.parametrize("kind", [int, float, str])
def test_each_cell_of_a_column_counts_whatever_stands_beside_it(kind: type[Any]) -> None:
    for cells in product(MIXED, repeat=3):
        plain, rows = PlainObjects(["cell"], [kind.__name__]), [[cell] for cell in cells]
        # The second time, a column that was not proved is looked at.
        for _ in range(2):
            if {kind, NoneType}.issuperset(map(type, cells)) and math.inf not in cells:
                assert repr(plain.objects(rows)) == repr([{"cell": cell} for cell in cells])
            else:
                with pytest.raises(TypeError):
                    plain.objects(rows)


async def test_an_infinite_key_beside_the_columns_is_declined(path: Path, process: PageProcess) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE cells SET ratio = 9e999 WHERE id = 1")
    some = sent("SELECT id, ratio FROM cells WHERE id < ?", 3, described=("id", "ratio"))
    assert await fetched(process, some, some_columns("int")) is None
    assert not process.takes(some.sql)


async def test_dates_and_truth_values_are_those_of_sqlalchemy(process: PageProcess) -> None:
    dialect = create_async_engine("sqlite+aiosqlite://").dialect
    own: tuple[Any, ...] = (Date(), DateTime(), DateTime(timezone=True), Boolean())
    some = DriverStatement(
        "SELECT '2024-02-29', '2024-02-29 01:02:03.000004', '0001-01-01T00:00:00+02:00', 2, NULL",
        (), (*own, Boolean()), dialect, ("",) * 5,
    )  # fmt: skip
    columns = some_columns("date", "datetime", "datetime", "bool", "bool")
    page = await process.fetch(some, PlainPage(columns, 1, is_reversed=False))
    assert page is not None
    row = ["2024-02-29", "2024-02-29T01:02:03.000004", "0001-01-01T00:00:00+02:00", True, None]
    assert [list(each.values()) for each in orjson.loads(page.text)] == [row]
    values = page.edges[0]
    assert orjson.loads(orjson.dumps(values)) == row
    assert [type(value) for value in values] == [date, datetime, datetime, bool, type(None)]


async def test_a_type_that_reads_its_values_otherwise_is_not_asked_for(process: PageProcess) -> None:
    dialect = create_async_engine("sqlite+aiosqlite://").dialect
    usual = DriverStatement("SELECT '2024-02-29'", (), (DateTime(),), dialect, ("",))
    assert await process.fetch(usual, PlainPage(some_columns("datetime"), 1, is_reversed=False)) is not None
    for n, own in enumerate[TypeEngine[Any]](
        (DATETIME(storage_format="%(year)d", regexp="(.*)"), String(), Time(), Interval())
    ):
        some = DriverStatement(f"SELECT '2024-02-29' -- {n}", (), (own,), dialect, ("",))
        assert await fetched(process, some, some_columns("datetime")) is None
        assert not process.takes(some.sql)


async def test_values_of_parameters_are_as_they_were(process: PageProcess) -> None:
    same = sent("SELECT ?, ?, ?, ?, ? WHERE x'00ff' = ?", *VALUES[0], b"\0\xff", described=("",) * 5)
    assert await fetched(process, same) == [VALUES[0]]
    for n, value in enumerate((2**63, 10**5_000, "\ud800", timedelta(1), math.inf, -math.inf)):
        some = sent(f"SELECT ? -- {n}", value, described=("",))
        assert process.takes(some.sql)
        kind = type(value).__name__
        assert await fetched(process, some, some_columns(kind if kind in USUAL else "int")) is None
    assert await fetched(process, same) == [VALUES[0]]


async def test_each_caller_gets_its_own_page(process: PageProcess) -> None:
    async def ask(n: int) -> tuple[int, Any]:
        return n, await fetched(process, sent(ALL, 1, n % 4))

    asking = [asyncio.ensure_future(ask(n)) for n in range(16)]
    await asyncio.sleep(0)
    assert not process.takes(ALL)  # so many wait
    for given_up in asking[::3]:
        given_up.cancel()
    for found in await asyncio.gather(*asking, return_exceptions=True):
        if not isinstance(found, BaseException):
            n, rows = found
            assert rows == [VALUES[n % 4]]
    assert await fetched(process, sent(ALL, 1, 2)) == [VALUES[2]]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT round(ratio, 1) FROM cells", "float"),
        ("SELECT sum(ratio) FROM cells", "float"),
        ("SELECT text || 'x' FROM cells", "str"),
        ("SELECT text * 1 FROM cells", "float"),  # '4626701e-20' is two doubles
    ],
)
async def test_what_versions_of_sqlite_compute_otherwise_is_declined_and_not_asked_again(
    process: PageProcess, sql: str, kind: str
) -> None:
    assert process.takes(sql)
    assert await fetched(process, sent(sql, described=("",)), some_columns(kind)) is None
    assert not process.takes(sql)
    assert process.takes(ALL)


async def test_a_view_that_was_changed_is_looked_at_again(path: Path, process: PageProcess) -> None:
    some = sent("SELECT ratio FROM some LIMIT 1", described=("ratio",))
    ratio = some_columns("float")
    assert await fetched(process, some, ratio) == [[0.1]]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP VIEW some")
        connection.execute("CREATE VIEW some AS SELECT round(ratio, 0) AS ratio FROM cells")
    process.declines_for = timedelta()
    assert await fetched(process, some, ratio) is None
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP VIEW some")
        connection.execute("CREATE VIEW some AS SELECT ratio FROM cells")
    for _ in range(3):
        await asyncio.sleep(0)
    assert process.takes(some.sql)
    assert await fetched(process, some, ratio) == [[0.1]]


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
    assert not await fetched(process, sent(sql, described=("",)), some_columns("int"))
    assert files_beside(path) == before
    assert await fetched(process, sent(ALL, 1, 0)) == VALUES[:1]


def files_beside(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.parent.iterdir()}


async def test_other_columns_than_described_are_left_to_the_event_loop(process: PageProcess) -> None:
    for columns in (COLUMNS, some_columns("int"), some_columns(*["int"] * 9)):
        some = sent(f"{ALL} -- {len(columns.names)}", 1, 0, described=("id",))
        assert await fetched(process, some, columns) is None
        assert not process.takes(some.sql)


async def test_each_who_waits_gets_rows_only_with_its_own_description(process: PageProcess) -> None:
    right, wrong = sent(ALL, 1, 0), sent(ALL, 1, 0, described=("id",))
    pages = await asyncio.gather(*(fetched(process, some) for some in (wrong, right, wrong, right, wrong)))
    assert pages == [None, VALUES[:1], None, VALUES[:1], None]


async def test_a_statement_is_the_same_when_it_was_forgotten_and_is_sent_again(
    path: Path, process: PageProcess
) -> None:
    async def ask(n: int) -> None:
        number = sent(f"SELECT {n}", described=("",))
        assert await fetched(process, number, some_columns("int")) == [[n]]

    for numbers in (range(MOST_FORMS + 50), range(100), range(MOST_FORMS, 0, -3)):
        for n in numbers:
            await ask(n)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE other (id)")
    await asyncio.gather(*map(ask, range(16)))
    assert len(process._forms) <= MOST_FORMS


async def test_a_number_that_the_process_does_not_know_gets_no_rows(process: PageProcess) -> None:
    assert await fetched(process, sent(ALL, 1, 0)) == VALUES[:1]
    for form in process._forms.values():
        form.number += 100
    assert await fetched(process, sent(ALL, 1, 0)) is None
    assert not process.takes(ALL)


async def test_what_takes_long_is_stopped_and_others_are_answered(path: Path, process: PageProcess) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO cells (id) VALUES (?)", [(n,) for n in range(5, 100)])
    begun = time.monotonic()
    slow, quick = await asyncio.gather(
        fetched(process, sent(SLOW, described=("id",)), some_columns("int")),
        fetched(process, sent(ALL, 1, 0)),
    )
    assert (slow, quick) == (None, VALUES[:1])
    assert time.monotonic() - begun < 1  # 20 ms, on a machine with nothing else to do


async def test_pages_of_any_length_come_one_after_the_other(path: Path, process: PageProcess) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE long (id INTEGER PRIMARY KEY, text)")
        texts = [str(n % 10) * (n * 9_973 % 80_000) for n in range(40)]
        connection.executemany("INSERT INTO long (text) VALUES (?)", [(text,) for text in texts])
    some = [(size, n) for n, size in enumerate([1, 40, 2, 3, 39, 1, 8, 1, 20, 1, 1, 5])]
    sql = "SELECT text FROM long ORDER BY id LIMIT ? OFFSET ?"
    asked = [sent(sql, size, n, described=("text",)) for size, n in some]
    pages = await asyncio.gather(*(fetched(process, one, some_columns("str")) for one in asked))
    assert pages == [[[text] for text in texts[n : n + size]] for size, n in some]
    assert len(process._buffer) == 256 * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_page_of_long_texts_takes_no_more_time_and_little_memory(
    path: Path, process: PageProcess
) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE long (id INTEGER PRIMARY KEY, text)")
        connection.executemany("INSERT INTO long (text) VALUES (?)", [("x" * 100_000,)] * 100)
    some = sent("SELECT a.text FROM long a, long b LIMIT ?", 10_000, described=("text",))
    assert await fetched(process, some, some_columns("str"), 10_000) is None
    status = Path(f"/proc/{pid_of(process)}/status").read_text()  # noqa: ASYNC240 - of no disk
    (peak,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 200_000  # KiB; all rows have 1 GB
    assert await fetched(process, sent(ALL, 1, 0)) == VALUES[:1]


async def test_a_lock_is_not_waited_for(path: Path, process: PageProcess) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert await fetched(process, sent(ALL, 1, 0)) is None
        writer.execute("COMMIT")
    assert await fetched(process, sent(ALL, 1, 0)) == VALUES[:1]


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
        assert await fetched(process, sent(f"{ALL} -- {value}", 30, 0)) is None
        assert not process.takes(f"{ALL} -- {value}")  # the event loop reads it
        assert await fetched(process, sent(ALL, 1, 0)) == VALUES[:1]


async def test_another_event_loop_does_without(process: PageProcess) -> None:
    async def takes() -> bool:
        return process.takes(ALL)

    assert await takes()
    assert not await asyncio.to_thread(asyncio.run, takes())


async def test_a_request_that_is_too_large_is_not_sent(process: PageProcess) -> None:
    large = sent(f"SELECT 1 /* {'x' * 20_000} */", described=("",))
    assert await fetched(process, large, some_columns("int")) is None
    assert await fetched(process, sent(ALL, 1, 0)) == VALUES[:1]


async def test_a_process_that_dies_leaves_nobody_waiting(process: PageProcess) -> None:
    asking = [asyncio.ensure_future(fetched(process, sent(ALL, 1, 0))) for _ in range(4)]
    os.kill(pid_of(process), signal.SIGKILL)
    answers = await asyncio.gather(*asking)
    assert all(answer in (None, VALUES[:1]) for answer in answers)
    await until(partial(ended, process))
    assert not process.takes(ALL)
    assert await fetched(process, sent(ALL, 1, 0)) is None


async def ended(process: PageProcess) -> bool:
    return not process.is_open


async def test_a_process_that_hangs_is_given_up(
    process: PageProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_process, "_ANSWER_SECONDS", 0.05)
    os.kill(pid_of(process), signal.SIGSTOP)
    assert await asyncio.gather(*(fetched(process, sent(ALL, 1, 0)) for _ in range(3))) == [None] * 3
    assert not process.is_open
    await until(gone)


async def gone() -> bool:
    command = ["pgrep", "-P", str(os.getpid()), "-f", "reader_process.py"]
    return not subprocess.run(command, capture_output=True, check=False).stdout  # noqa: ASYNC221


async def test_a_reader_starts_a_process_once_it_is_busy_and_another_when_it_has_ended(path: Path) -> None:
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine, 1_000_000_000)
    some = sent(ALL, 2, 1)
    try:
        for _ in range(2):
            process = await started(reader, some)
            ending = partial(ended, process)
            await by_process(reader, some)
            os.kill(pid_of(process), signal.SIGKILL)
            await page(reader, some)
            await until(ending)
    finally:
        reader.close()
    await until(gone)


async def page(reader: FileReader, some: DriverStatement) -> bool:
    """Read the second and third row by a statement that is fast; whether the process has written them."""
    plain = PlainPage(COLUMNS, 2, is_reversed=False)
    while (actual := await reader.fetch(some, LIMIT, plain)) is None:  # a busy machine may be slow
        pass
    is_written = isinstance(actual, WrittenRows)
    assert (rows_of(actual) if isinstance(actual, WrittenRows) else lists(actual)) == VALUES[1:3]
    return is_written


async def by_process(reader: FileReader, some: DriverStatement) -> None:
    """Wait for a page that the process writes: of those that come one by one, it writes some."""
    for _ in range(17):
        if await page(reader, some):
            return
    pytest.fail("The process writes none.")


async def test_of_pages_that_come_one_by_one_it_reads_few(path: Path) -> None:
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine, 1_000_000_000)
    some = sent(ALL, 2, 1)

    try:
        await started(reader, some)
        assert sum([await page(reader, some) for _ in range(160)]) <= 20
        actual = await asyncio.gather(*(several(partial(page, reader, some)) for _ in range(8)))
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
    reader = FileReader(create_async_engine(f"sqlite+aiosqlite:///{path}").sync_engine, 1_000_000_000)
    declined = sent("SELECT upper(text) AS text FROM cells", described=("text",))
    try:
        await started(reader, sent(ALL, 2, 1))
        for _ in range(3):
            rows = await reader.fetch(declined, LIMIT, PlainPage(some_columns("str"), 9, is_reversed=False))
            assert not isinstance(rows, WrittenRows)
            assert rows is None or [text for (text,) in rows] == ["A", "ä🎈\0X", "", None]
    finally:
        reader.close()


async def test_settings_of_the_url_keep_it_from_a_process(path: Path) -> None:
    reader = FileReader(
        create_async_engine(f"sqlite+aiosqlite:///{path}?timeout=3").sync_engine, 1_000_000_000
    )
    some = sent(ALL, 2, 1)
    for _ in range(300):
        await page(reader, some)
    assert reader.processes is None
    reader.close()


CELLS = Table(
    "cells",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("whole", Integer),
    Column("ratio", Float),
    Column("text", String),
    Column("day", Date),
    Column("at", DateTime),
    Column("flag", Boolean),
)


def cells_of(n: int) -> tuple[Any, ...]:
    """Row n of a table with every kind of column. The last rows have cells that are not of their columns."""
    odd: list[tuple[Any, ...]] = [
        (n, "a text", 1.5, "", None, None, 1),
        (n, 1, 2**60 + 1, b"bytes", None, None, None),
        (n, 1, math.inf, "", "2024-13-01", "no instant", 2),
    ]
    if n >= 280:
        return odd[n % 3]
    texts = ["", "null", 'ä"\\\n\0\u2028🎈', None, "x" * n]
    numbers = [2**63 - 1, -(2**63), 0, None, n]
    ratios = [0.1, -0.0, 5e-324, None, 1e308]
    days = ["2024-02-29", "0001-01-01", None]
    instants = ["2024-02-29 23:59:59.999999", "2024-02-29 00:00:00", None]
    return n, numbers[n % 5], ratios[n % 5], texts[n % 5], days[n % 3], instants[n % 3], (1, 0, None)[n % 3]


@pytest.mark.parametrize(
    "statement",
    [
        select(CELLS),
        select(CELLS).order_by(CELLS.c.text.desc(), CELLS.c.id),
        select(CELLS.c.text, CELLS.c.at.label("instant"), CELLS.c.flag),
        select(CELLS.c.id, CELLS.c.whole).where(CELLS.c.id < 0),
    ],
)
async def test_pages_are_the_same_by_a_process_and_without(tmp_path: Path, statement: Any) -> None:
    path = tmp_path / "cells.sqlite"
    CELLS.metadata.create_all(engine := create_engine(f"sqlite:///{path}"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?)", map(cells_of, range(300)))
    engine.dispose()
    async with DualResponseServer(
        f"sqlite:///{path}", base_url="http://127.0.0.1/resources", tables=CELLS.metadata
    ) as dual:
        response = await dual.create_response(statement, name="cells")
        reader: Any = dual.parts.sources["default"].fast

        async def page(request: PageRequest) -> tuple[ResultPage, bool]:
            """The page, and whether a process has written it."""
            written, plain = [
                await dual.read_page(response.resource_id, None, request._replace(takes_text=takes_text))
                for takes_text in (True, False)
            ]
            assert plain.text is None
            assert written.to_json() == json.dumps(written.to_wire()) == plain.to_json()
            return plain, written.text is not None

        async def is_used() -> bool:
            pages = await asyncio.gather(*(page(PageRequest(offset=n, limit=9)) for n in range(0, 250, 3)))
            return any(is_written for _, is_written in pages)

        await until(is_used)
        process = reader.processes.of_pages
        count, request = 0, PageRequest(limit=70)
        for direction in ("next_cursor", "previous_cursor"):
            while True:
                pages = await asyncio.gather(*(page(request) for _ in range(4)))
                count += sum(is_written for _, is_written in pages)
                cursor = getattr(pages[0][0], direction)
                if cursor is None:
                    break
                request = request._replace(cursor=cursor)
        assert count
        assert reader.processes.of_pages is process
    await until(gone)
