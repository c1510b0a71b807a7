"""Does a row that weighs more than a server can hold end before it is held?"""

from __future__ import annotations

import gc
import sqlite3
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Select, String, Table, func, literal, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, LimitExceededError
from dualsql.results.pages import PageRequest
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
