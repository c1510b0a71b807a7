"""Attacks on every stream backend: writing through it, never ending, leaving values behind, rows too wide to hold."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from itertools import islice
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    column,
    func,
    insert,
    literal,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, QueryExecutionError, Registry, plan
from dualsql.databases.source import Source, open_source
from dualsql.databases.streams import BATCH_BYTES, PIECE_ROWS, Pace
from dualsql.formats.ndjson import NDJSONWriter
from dualsql.formats.row_objects import read_rows
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Chunk, Rows, WriterOptions
from dualsql.results.streams import StreamRequest
from dualsql.tenancy import Policy
from tests.databases.streams.everything import NASTY, backends_taken
from tests.databases.streams.reading import read_arrow, read_csv, stream_chunks
from tests.engines import opened as opened_engine
from tests.schools import SCHOOLS, Base, School, fill
from tests.server.conftest import BASE_URL
from tests.servers import create_server
from tests.waiting import PATIENCE

NAMES = ("ndjson", "csv", "arrow", "parquet")
CANARY = "tenant-canary-7531"
RULES = Policy(Registry(Base)).rules_for(None)

_numbers = select(literal(1).label("n")).cte("forever", recursive=True)
ENDLESS = select((_numbers.union_all(select(_numbers.c.n + 1))).c.n)
NO_ROW_EVER = select(func.count()).select_from(_numbers.union_all(select(_numbers.c.n)))


@pytest.fixture
async def schools(engine: AsyncEngine) -> AsyncEngine:
    await fill(engine)
    return engine


async def opened(server: DualResponseServer, statement: Any, format_name: str) -> Any:
    response = await server.create_response(statement, name="x", sample_size=0, count="none")
    resource = await server.open_resource(response.resource_id, None, "read")
    return await server.unchecked.stream(resource, None, StreamRequest(format=format_name))


async def streamed(server: DualResponseServer, statement: Any, format_name: str) -> bytes:
    stream = await opened(server, statement, format_name)
    async with aclosing(stream.chunks) as chunks:
        return b"".join([chunk.data async for chunk in chunks])


def server_on(engine: AsyncEngine, **options: Any) -> DualResponseServer:
    return create_server(engine, base_url=BASE_URL, tables=Base, **options)


@pytest.mark.quick(2)
@pytest.mark.parametrize("format_name", NAMES)
async def test_a_write_inside_allowed_text_fails(schools: AsyncEngine, format_name: str) -> None:
    sneaky = text("WITH gone AS (DELETE FROM schools RETURNING id) SELECT id FROM gone").columns(column("id"))
    async with server_on(schools, allow_text=True) as server:
        with pytest.raises(QueryExecutionError):
            await streamed(server, sneaky, format_name)
    async with schools.connect() as connection:
        assert (await connection.execute(select(func.count()).select_from(School))).scalar() == len(SCHOOLS)


@pytest.fixture
async def source(schools: AsyncEngine) -> AsyncIterator[Source]:
    source = open_source("x", schools, Registry(Base))
    yield source
    await source.close()


def chunks_of(source: Source, statement: Any, format_name: str) -> AsyncGenerator[Chunk, None]:
    """A stream of the statement as it is, without the order that would make the database sort it first."""
    columns = plan.shape(statement).columns
    writer = FORMATS[format_name].writer(columns, source.engine.dialect, WriterOptions())
    writer.head()
    return stream_chunks(source, statement, RULES, columns, writer)


@pytest.mark.quick(1)
@pytest.mark.parametrize("format_name", NAMES)
async def test_a_reader_who_leaves_stops_the_database(source: Source, format_name: str) -> None:
    with backends_taken() as taken:
        async with aclosing(chunks_of(source, ENDLESS, format_name)) as chunks:
            for _ in range(5):
                assert (await anext(chunks)).rows
    assert taken != ["by_sqlalchemy"]
    await nothing_is_left(source)


@pytest.mark.quick(1)
@pytest.mark.parametrize("format_name", NAMES)
async def test_a_reader_who_waits_in_vain_stops_the_database(source: Source, format_name: str) -> None:
    async with aclosing(chunks_of(source, NO_ROW_EVER, format_name)) as chunks:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await anext(chunks)
    await nothing_is_left(source)


@pytest.mark.quick(1)
@pytest.mark.parametrize("format_name", NAMES)
async def test_a_reader_who_does_nothing_holds_postgresql_back(
    postgresql_url: str, make_engine: Any, format_name: str
) -> None:
    engine = make_engine(postgresql_url)
    source = open_source("x", engine, Registry(Base))
    held_back = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
        " AND (wait_event = 'ClientWrite' OR state = 'idle in transaction')"
    )
    async with aclosing(chunks_of(source, ENDLESS, format_name)) as chunks:
        await anext(chunks)
        async with engine.connect() as connection, asyncio.timeout(PATIENCE):
            while not (await connection.execute(held_back)).scalar_one():
                await connection.rollback()
    await nothing_is_left(source)


async def test_no_more_is_encoded_than_is_read(source: Source) -> None:
    """Four pieces ahead of the reader at most: two in the queue, one that waits, one in the making."""
    columns = plan.shape(ENDLESS).columns
    sizes: list[int] = []

    class Counting(NDJSONWriter):
        def rows(self, rows: Rows) -> Chunk:
            sizes.append(len(rows))
            return super().rows(rows)

    writer = Counting(columns, source.engine.dialect, WriterOptions())
    async with aclosing(stream_chunks(source, ENDLESS, RULES, columns, writer)) as chunks:
        for read in range(1, 30):
            await anext(chunks)
            assert len(sizes) <= read + 4
    await nothing_is_left(source)


async def nothing_is_left(source: Source) -> None:
    """No connection is out, and on PostgreSQL no statement runs."""
    await asyncio.gather(*source.finishing)
    engine = source.engine
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    if engine.dialect.name == "postgresql":
        running = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend'"
            " AND state = 'active' AND pid <> pg_backend_pid()"
        )
        async with engine.connect() as connection, asyncio.timeout(PATIENCE):
            while (await connection.execute(running)).scalar_one():
                await connection.rollback()


async def test_no_value_is_in_the_text_of_a_copy(postgresql_url: str, make_engine: Any) -> None:
    engine = make_engine(postgresql_url)
    source = open_source("x", engine, Registry(Base))
    statement = text(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY%'"
    )
    left = text("SELECT current_setting('dualsql.value_1', true)")
    wanted = ENDLESS.add_columns(literal(CANARY).label("canary"))
    with backends_taken() as taken:
        async with aclosing(chunks_of(source, wanted, "csv")) as chunks:
            assert CANARY.encode() in (await anext(chunks)).data
            async with engine.connect() as connection:
                (query,) = (await connection.execute(statement)).one()
    assert taken == ["by_csv_copy"]
    assert CANARY not in query
    assert "current_setting('dualsql.value_" in query
    await nothing_is_left(source)
    async with engine.connect() as connection:
        assert not (await connection.execute(left)).scalar()


async def test_values_come_back_as_they_went(postgresql_url: str, make_engine: Any) -> None:
    engine = make_engine(postgresql_url)
    await fill(engine)
    hostile = [*NASTY, "$1", "'; DROP TABLE schools; --", "\\'", "a\\", "{1}", "%s"]
    async with server_on(engine) as server:
        with backends_taken() as taken:
            for value in hostile:
                wanted = select(School.id, literal(value).label("v")).where(
                    literal(value) != "?", School.id <= 2
                )
                assert read_csv(await streamed(server, wanted, "csv"))["v"] == [value] * 2
                assert read_arrow("arrow", await streamed(server, wanted, "arrow"))["v"] == [value] * 2
    assert taken == ["by_csv_copy", "by_arrow_copy"] * len(hostile)


def test_rows_that_get_wide_are_met_in_moderate_numbers() -> None:
    pace = Pace()
    numbers = []
    for _ in range(6):
        numbers.append(pace.rows)
        pace.note(Chunk(b"x" * 10 * pace.rows, pace.rows), pace.rows)
    assert numbers == [100, 400, 1600, 4000, 4000, 4000]
    pace.note(Chunk(b"x" * 1_000_000 * 10, 10), 10)
    assert pace.rows == 1
    pace.note(Chunk(b"", 1, held=BATCH_BYTES // 2), 1)
    assert pace.rows == 2


async def test_wide_rows_come_in_small_pieces(engine: AsyncEngine) -> None:
    metadata = MetaData()
    wide = Table("wide", metadata, Column("id", Integer, primary_key=True), Column("text", Text))
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(insert(wide), [{"id": n, "text": "x" * 50_000} for n in range(500)])
    async with DualResponseServer(engine, base_url=BASE_URL, tables=metadata) as server:
        for format_name in ("ndjson", "csv"):
            stream = await opened(server, select(wide), format_name)
            async with aclosing(stream.chunks) as chunks:
                sizes = [len(chunk.data) async for chunk in chunks]
            assert sum(sizes) > 25_000_000
            assert max(sizes) <= 100 * 50_100  # the first hundred, before the width was known


@pytest.mark.quick(1)
@pytest.mark.parametrize("driver", ["psycopg async", "psycopg", "asyncmy", "pymysql"], indirect=True)
async def test_long_rows_behind_short_ones_come_in_small_pieces(database: Any, driver: str) -> None:
    """Short ones let batches grow; of long ones, no more than a piece or 500 are in memory."""
    source = open_source("x", database, Registry(Base))
    is_postgresql = source.engine.dialect.name == "postgresql"
    numbers = "generate_series(1, 3600)" if is_postgresql else "(SELECT seq AS n FROM seq_1_to_3600)"
    shown = "CASE WHEN n > 2100 THEN repeat('x', 100000) ELSE 'x' END"
    rows = text(f"SELECT {shown} AS t FROM {numbers} AS n").columns(Column("t", Text))
    async with aclosing(chunks_of(source, rows, "ndjson")) as chunks:
        sizes = [len(chunk.data) async for chunk in chunks]
    assert sum(sizes) > 150_000_000
    assert max(sizes) < 100_010 * (500 if source.engine.dialect.is_async else PIECE_ROWS)
    await source.close()


@pytest.mark.parametrize(
    "document",
    [
        {"a": {"b": ["tenletters"] * 10_000}},
        [[{"a": n} for n in range(5_000)]],
        {str(n): n for n in range(9_000)},
    ],
)
def test_documents_are_measured_by_what_they_hold(document: Any) -> None:
    """Drivers and SQLAlchemy make dicts and lists of them."""
    rows = iter([(n, "x") for n in range(200)] + [(n, document) for n in range(3_000)])
    assert (
        len(read_rows(lambda most: islice(rows, most), 4_000, BATCH_BYTES, PIECE_ROWS))
        <= 200 + 2 * PIECE_ROWS
    )
    for _ in range(3):
        assert len(read_rows(lambda most: islice(rows, most), 4_000, BATCH_BYTES, PIECE_ROWS)) < 10
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert len(read_rows(lambda most: [(deep,)][:most], 1, BATCH_BYTES, PIECE_ROWS)) == 1


_DOCUMENT = "json_build_object('a', array_fill(repeat('x', n / 60), ARRAY[1000]))"


@pytest.mark.parametrize("shown", ["repeat('x', 100000)", _DOCUMENT], ids=["text", "document"])
async def test_of_long_rows_behind_short_ones_few_are_in_memory(
    postgresql_url: str, make_engine: Any, shown: str
) -> None:
    """A fetch of asyncpg, whose rows are short until then, has at most 500, and they are not encoded at once."""
    source = open_source("x", make_engine(postgresql_url), Registry(Base))
    type_ = Text if shown.startswith("repeat") else JSON
    short = "'x'" if type_ is Text else "'1'::json"
    numbers = "generate_series(1, 7500) AS n"
    rows = text(f"SELECT CASE WHEN n > 6100 THEN {shown} ELSE {short} END AS t FROM {numbers}")
    tracemalloc.start()
    try:
        with backends_taken() as taken:
            async with aclosing(chunks_of(source, rows.columns(Column("t", type_)), "ndjson")) as chunks:
                sizes = [len(chunk.data) async for chunk in chunks]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == ["by_asyncpg_cursor"]
    assert sum(sizes) > 1_400 * 100_000
    assert max(sizes) < 2 * PIECE_ROWS * 120_000
    assert peak < 500 * 120_000 + 100_000_000  # a piece, as text, as values and as what is written
    await source.close()


async def test_statements_behind_a_pooler_bear_the_application_s_names(postgresql_url: str) -> None:
    given: list[str] = []

    def name() -> str:
        given.append(f"app-{len(given)}")
        return given[-1]

    async with opened_engine(postgresql_url, connect_args={"prepared_statement_name_func": name}) as engine:
        source = open_source("x", engine, Registry(Base))
        for expected in (None, 1):  # the first time, the session's own statements are named, too
            before = len(given)
            async with aclosing(chunks_of(source, ENDLESS, "ndjson")) as chunks:
                await anext(chunks)
            assert expected is None or len(given) - before == expected
            await nothing_is_left(source)
