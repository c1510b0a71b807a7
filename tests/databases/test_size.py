"""Does a row that weighs more than a server can hold end before it is held?"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    create_engine,
    event,
    func,
    literal,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import DualResponseServer, LimitExceededError
from dualsql.databases.sqlite.rows import require_size
from dualsql.results.pages import PageRequest, ResultPage
from dualsql.results.streams import StreamRequest
from tests.schools import Base, fill
from tests.server.conftest import BASE_URL
from tests.servers import create_server

MEGABYTE = 1024 * 1024


def heavy(engine: AsyncEngine, megabytes: int) -> Select[tuple[str]]:
    """One value of so many megabytes."""
    if engine.dialect.name == "sqlite":
        spaces = func.printf("%*d", megabytes * 100, 1)
        return select(func.replace(spaces, " ", "x" * (MEGABYTE // 100)).label("value"))
    return select(func.repeat(literal("x"), literal(megabytes * MEGABYTE, Integer)).label("value"))


@contextmanager
def held_at_most(megabytes: int) -> Iterator[None]:
    """What Python objects of the block need together."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * MEGABYTE


@pytest.mark.long
@pytest.mark.parametrize("is_own_engine", [True, False])
async def test_it_is_refused_and_was_never_held(
    database_url: str, make_engine: Callable[[str], AsyncEngine], is_own_engine: bool
) -> None:
    engine = make_engine(database_url)
    if engine.dialect.name == "sqlite" and not is_own_engine:
        return  # an application's connection keeps the limits that it has
    await fill(engine)
    async with create_server(
        database_url if is_own_engine else engine,
        base_url=BASE_URL,
        tables=Base,
        maximum_page_bytes=16 * MEGABYTE,
    ) as server:
        with held_at_most(40):
            for _ in range(2):
                with pytest.raises(LimitExceededError):
                    await server.create_response(heavy(engine, 200), name="Heavy")
                gc.collect()  # the tests collect rarely, and the error's traceback holds the answer's buffer
        lighter = await server.create_response(heavy(engine, 4), name="Lighter")
        assert lighter.total_count == 1


LONG = MEGABYTE


@pytest.fixture
async def long_at_the_end(tmp_path: Path) -> AsyncIterator[tuple[DualResponseServer, str]]:
    """A server of a file with 20,000 short rows and then 300 of a megabyte, and the result of them all."""
    path = tmp_path / "rows.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            f"""
            CREATE TABLE texts (number INTEGER PRIMARY KEY, text TEXT);
            INSERT INTO texts VALUES (0, 'short'), (1, printf('%{LONG}d', 1));
            CREATE TABLE numbers (id INTEGER PRIMARY KEY, text_number INTEGER);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20300)
            INSERT INTO numbers SELECT i, i > 20000 FROM n;
            """
        )
    tables = MetaData()
    texts = Table("texts", tables, Column("number", Integer, primary_key=True), Column("text", String))
    numbers = Table(
        "numbers", tables, Column("id", Integer, primary_key=True), Column("text_number", Integer)
    )
    rows = select(numbers.c.id, texts.c.text).join(texts, texts.c.number == numbers.c.text_number)
    async with create_server(
        f"sqlite:///{path}", base_url=BASE_URL, tables=tables, maximum_page_bytes=16 * MEGABYTE
    ) as server:
        yield server, (await server.create_response(rows.order_by(numbers.c.id), name="Rows")).resource_id


@pytest.mark.parametrize("times", [1, 2, 3])  # by a session; then perhaps by the event loop
async def test_a_page_of_many_long_rows_is_refused_and_was_never_held(
    long_at_the_end: tuple[DualResponseServer, str], times: int
) -> None:
    server, resource_id = long_at_the_end
    for _ in range(times):
        await server.read_page(resource_id, None, PageRequest(limit=300))
    with held_at_most(100), pytest.raises(LimitExceededError) as refused:
        await server.read_page(resource_id, None, PageRequest(offset=20_000, limit=300))
    assert "fewer rows" in refused.value.hint
    page = await server.read_page(resource_id, None, PageRequest(offset=20_000, limit=5))
    assert [len(row["text"]) for row in page.rows] == [LONG] * 5


@pytest.mark.parametrize("output", ["ndjson", "csv", "arrow"])
async def test_a_stream_whose_rows_become_long_holds_few_of_them(
    long_at_the_end: tuple[DualResponseServer, str], output: str
) -> None:
    pytest.importorskip("pyarrow" if output == "arrow" else "apsw")
    server, resource_id = long_at_the_end
    stream = await server.stream(resource_id, None, StreamRequest(format=output))
    size = 0
    with held_at_most(350):  # a piece of 100 rows, and its text
        async for chunk in stream.chunks:
            size += len(chunk.data)
    assert size > 300 * LONG


async def test_a_few_long_rows_end_no_page(long_at_the_end: tuple[DualResponseServer, str]) -> None:
    server, resource_id = long_at_the_end
    for _ in range(10):  # any row of a piece may be measured
        page = await server.read_page(resource_id, None, PageRequest(offset=19_912, limit=100))
        assert sorted({len(row["text"]) for row in page.rows}) == [len("short"), LONG]
        assert page.row_count == 100


MOST = 100_000
DOORS = ("session", "event loop", "SQLAlchemy", "synchronous")
"""What reads a page of SQLite. Of the application's engines, SQLAlchemy reads the pages of one with a listener."""


@asynccontextmanager
async def opened_by(door: str, path: Path) -> AsyncIterator[Callable[[int, int], Awaitable[ResultPage]]]:
    """What reads pages of the rows of a file by a door: from an offset, so many."""
    tables = MetaData()
    rows = Table("rows", tables, Column("id", Integer, primary_key=True), Column("value", String))
    async with AsyncExitStack() as stack:
        database: Any = f"sqlite:///{path}"
        if door == "SQLAlchemy":
            database = create_async_engine(f"sqlite+aiosqlite:///{path}")
            stack.push_async_callback(database.dispose)
            event.listen(database.sync_engine, "before_cursor_execute", lambda *_: None)
        elif door == "synchronous":
            database = create_engine(database)
            stack.callback(database.dispose)
        server = await stack.enter_async_context(
            create_server(database, base_url=BASE_URL, tables=tables, maximum_page_bytes=MOST)
        )
        response = await server.create_response(
            select(rows).order_by(rows.c.id), name="Rows", sample_size=0, count="none"
        )

        async def page(offset: int, limit: int) -> ResultPage:
            return await server.read_page(response.resource_id, None, PageRequest(offset=offset, limit=limit))

        for _ in range(20 if door == "event loop" else 0):
            await page(0, 40)
        yield page


def rows_of(path: Path, long: str) -> None:
    """99 short rows, a long one, and an empty one; `long` is SQL for its value."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, value)")
        connection.executemany("INSERT INTO rows (value) VALUES (?)", [("x",)] * 99)
        connection.execute(f"INSERT INTO rows (value) VALUES ({long})")
        connection.execute("INSERT INTO rows (value) VALUES ('')")


LONG_VALUES = {
    "text": lambda size: f"printf('%{size}d', 1)",
    "characters of four bytes": lambda size: (
        f"replace(printf('%{size // 4}d', 1), ' ', '🎈') || '{'x' * (size % 4 + 3)}'"
    ),
    "bytes": lambda size: f"zeroblob({size})",
    "no UTF-8": lambda size: f"CAST(x'ff' || zeroblob({size - 4}) AS TEXT)",  # shown as \\xff
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", LONG_VALUES)
async def test_a_page_of_one_long_row_is_refused_by_every_door(tmp_path: Path, door: str, kind: str) -> None:
    fitting, beyond = tmp_path / "fitting.sqlite", tmp_path / "beyond.sqlite"
    rows_of(fitting, LONG_VALUES[kind](MOST - 40))
    rows_of(beyond, LONG_VALUES[kind](MOST - 39))
    async with opened_by(door, fitting) as page:
        for _ in range(5):  # whichever row the clock chooses
            assert (await page(59, 41)).row_count == 41
    async with opened_by(door, beyond) as page:
        for offset, limit in [(59, 41), (59, 42), (59, 41)] * 3:
            with pytest.raises(LimitExceededError) as refused:
                await page(offset, limit)
            assert refused.value.code == "LIMIT_EXCEEDED"
        for offset, limit in [
            (60, 40),
            (0, 98),
            (59, 40),
            (99, 1),
            (98, 1),
        ]:  # also before it, and the row alone
            assert (await page(offset, limit)).row_count == limit


@pytest.mark.parametrize("door", ["session", "event loop"])
async def test_rows_of_which_most_are_long_do_not_end_a_page_that_has_room_for_them(
    tmp_path: Path, door: str
) -> None:
    path = tmp_path / "rows.sqlite"
    lengths = [1, *[MOST // 25 + 50] * 24, *[1] * 25]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, value)")
        connection.executemany("INSERT INTO rows (value) VALUES (?)", [("x" * length,) for length in lengths])
    async with opened_by(door, path) as page:
        for _ in range(5):
            rows = (await page(0, 60)).rows
            assert [len(row["value"]) for row in rows] == lengths


async def test_who_else_reads_on_the_connection_is_not_counted() -> None:
    """A database in memory has one connection, which is the application's."""
    tables = MetaData()
    rows = Table("rows", tables, Column("id", Integer, primary_key=True), Column("value", String))
    async with AsyncExitStack() as stack:
        engine = create_async_engine("sqlite+aiosqlite://")
        stack.push_async_callback(engine.dispose)
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *_: None)
        async with engine.begin() as connection:
            await connection.run_sync(tables.create_all)
            await connection.execute(rows.insert(), [{"value": "x" * 1_000} for _ in range(500)])
        server = await stack.enter_async_context(
            create_server(engine, base_url=BASE_URL, tables=tables, maximum_page_bytes=MOST)
        )
        response = await server.create_response(select(rows).order_by(rows.c.id), name="Rows")

        async def own() -> int:
            count = 0
            while not reading.done():
                async with engine.connect() as connection:
                    assert len((await connection.execute(select(rows))).all()) == 500
                count += 1
            return count

        async def pages() -> None:
            for offset in range(100):
                page = await server.read_page(
                    response.resource_id, None, PageRequest(offset=offset, limit=20)
                )
                assert page.row_count == 20

        reading = asyncio.ensure_future(pages())
        assert await own()
        await reading


def test_a_document_that_orjson_does_not_write_is_measured() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    require_size([(deep, 2**70, "x" * 90)] * 2, 10_000)
    with pytest.raises(LimitExceededError):
        require_size([(deep, 2**70, "x" * 90)] * 2, 100)
