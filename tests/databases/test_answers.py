"""Every shape of statement is answered on every kind of engine, by pages and as a stream."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, event, func, insert, literal_column, select, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import aliased

from dualsql import (
    DualResponseServer,
    PageRequest,
    Principal,
    QueryExecutionError,
    Resource,
    RowFilter,
)
from dualsql.databases.session import read_only
from dualsql.databases.source import Source
from dualsql.formats.json import dumps
from dualsql.results.streams import StreamRequest
from tests.databases.kinds import MakeServer
from tests.engines import opened
from tests.quick import case_of
from tests.schools import Base, School, fill
from tests.server.conftest import BASE_URL
from tests.servers import create_server
from tests.statements import STATEMENTS, TEXT

ALL = {**STATEMENTS, **TEXT}
ARBITRARY = {"window"}
"""It numbers rows that are equal in its own order, on MariaDB in another way each time."""

UNSETTLED = {"limit without order", "union all, limited", "author's own limit"}
"""Which rows these keep is up to the database, until dualsql gives them an order."""


sums = Table(
    "sums",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("v", Integer),
    Column("owner", Integer),
)
OF_ANN = select(sums.c.id, sums.c.v).where(sums.c.owner == 1).subquery("sums")


@pytest.mark.parametrize(
    ("source", "rules"),
    [(OF_ANN, []), (sums, [RowFilter(sums, lambda _: sums.c.owner == 1)])],
    ids=["a subquery", "a rule"],
)
async def test_no_window_ends_mariadb(source: Any, rules: list[Any], mariadb_url: str) -> None:
    """MariaDB 10.11 ends, with the queries of everybody, at a subquery with the name of its table, as rules are."""
    rows = [{"id": number, "v": number % 4, "owner": number % 2} for number in range(1, 21)]
    async with opened(mariadb_url) as engine, engine.begin() as connection:
        await connection.run_sync(sums.create)
        await connection.execute(insert(sums), rows)
    total = func.sum(source.c.v).over(partition_by=source.c.v, order_by=source.c.id)
    statement = select(source.c.id, total.label("so_far")).order_by(source.c.v, source.c.id)
    ann = Principal(id="ann")
    async with create_server(mariadb_url, base_url=BASE_URL, tables=sums.metadata, hooks=rules) as server:
        for count in ("exact", "estimated"):
            response = await server.create_response(statement, name="Sums", principal=ann, count=count)
            page = await server.read_page(response.resource_id, ann, PageRequest(limit=100))
            assert len(page.rows) == 10


# tests/results/paging has the others.
@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize(
    "driver",
    [
        *("asyncmy", "duckdb"),
        *(
            case_of(name, is_long=True)
            for name in ("sqlite3", "psycopg", "psycopg async", "psycopg2", "pymysql")
        ),
    ],
    indirect=True,
)
async def test_pages_and_streams_are_the_query_s_rows(make_server: MakeServer) -> None:
    server = await make_server(allow_text=True)
    wrong = {}
    for name, statement in ALL.items():
        response = await server.create_response(statement, name=name)
        resource = await server.open_resource(response.resource_id, None, "read")
        pages = await _by_pages(server, resource)
        if name not in ARBITRARY and pages != await _by_stream(server, resource):
            wrong[name] = f"pages and stream differ: {pages[:1]}"
        if len(pages) != response.total_count:
            wrong[name] = f"{len(pages)} rows, {response.total_count} counted"
        if name not in UNSETTLED and _seen(pages) != _seen(
            await _rows(server.parts.sources["default"], statement)
        ):
            wrong[name] = "not the query's rows"
    assert wrong == {}


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg"], indirect=True)
async def test_asyncpg_reads_what_sqlalchemy_reads(make_server: MakeServer, database: AsyncEngine) -> None:
    """SQLAlchemy reads the rows of an engine with an event listener."""
    server, pages = await make_server(allow_text=True), defaultdict[str, list[Any]](list)
    for read in ("asyncpg", "SQLAlchemy"):
        if read == "SQLAlchemy":
            event.listen(database.sync_engine, "before_cursor_execute", lambda *_: None)
        for name, statement in ALL.items():
            response = await server.create_response(statement, name=name)
            rows = (await server.read_page(response.resource_id, None, PageRequest(limit=9))).rows
            pages[name].append((repr(rows), response.total_count))
    assert {name: both for name, both in pages.items() if both[0] != both[1]} == {}


@pytest.mark.parametrize("engine_name", ["sqlite", "postgresql"])
@pytest.mark.parametrize("way", ["echo", "logging"])
async def test_an_engine_that_logs_shows_each_statement_of_a_page(
    request: pytest.FixtureRequest, engine_name: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    if way == "logging":
        caplog.set_level("INFO", logger="sqlalchemy.engine")
    async with opened(request.getfixturevalue(f"{engine_name}_url"), echo=way == "echo") as engine:
        await fill(engine)
        async with create_server(engine, base_url=BASE_URL, tables=Base) as server:
            response = await server.create_response(select(School), name="x")
            for _ in range(3):
                caplog.clear()
                await server.read_page(response.resource_id, None, PageRequest(limit=9))
                assert "FROM schools" in caplog.text


@pytest.mark.parametrize("engine_name", ["sqlite", "postgresql"])
async def test_an_engine_may_name_another_schema(
    request: pytest.FixtureRequest, engine_name: str, tmp_path: Path
) -> None:
    tables, url = MetaData(), request.getfixturevalue(f"{engine_name}_url")
    items = Table("items", tables, Column("id", Integer, primary_key=True))
    async with opened(url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(tables.create_all)
            if engine_name == "sqlite":
                await connection.exec_driver_sql(f"ATTACH '{tmp_path}/other.sqlite' AS other")
            else:
                await connection.exec_driver_sql("CREATE SCHEMA other")
            await connection.exec_driver_sql("CREATE TABLE other.items (id INTEGER PRIMARY KEY)")
            await connection.exec_driver_sql("INSERT INTO other.items VALUES (7)")
        mapped = engine.execution_options(schema_translate_map={None: "other"})
        async with create_server(mapped, base_url=BASE_URL, tables=tables) as server:
            response = await server.create_response(select(items), name="x")
            page = await server.read_page(response.resource_id, None)
            stream = await server.stream(response.resource_id, None, StreamRequest(format="csv"))
            text = b"".join([chunk.data async for chunk in stream.chunks])
    assert (response.sample, page.rows, text.split()) == ([{"id": 7}], [{"id": 7}], [b"id", b"7"])


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("driver", ["asyncpg"], indirect=True)
async def test_statements_are_prepared_anew_if_a_column_has_another_type(
    make_server: MakeServer, database: AsyncEngine
) -> None:
    """On each connection of the pool, after one of them failed."""
    server = await make_server()
    response = await server.create_response(select(School.id, School.enrollment), name="x")

    async def page() -> Any:
        return (await server.read_page(response.resource_id, None, PageRequest(limit=9))).rows

    pages = await asyncio.gather(*(page() for _ in range(4)))
    assert database.pool.checkedin() > 1  # type: ignore[attr-defined]
    async with opened(database.url) as engine, engine.begin() as connection:
        change = text(f"ALTER TABLE {School.__tablename__} ALTER enrollment TYPE bigint")
        await connection.execute(change)
    with pytest.raises(QueryExecutionError):
        await page()
    assert await asyncio.gather(*(page() for _ in range(4))) == pages


async def test_a_readable_form_is_another_one_if_a_column_has_another_type(postgresql_url: str) -> None:
    """Of columns that asyncpg reads otherwise: a document by json.loads, and an interval as days."""
    tables = MetaData()
    columns = [Column("id", Integer, primary_key=True), Column("document"), Column("length")]
    notes = Table("notes", tables, *columns)
    async with opened(postgresql_url) as engine:

        async def change(*statements: str) -> None:
            async with engine.begin() as connection:
                for statement in statements:
                    await connection.exec_driver_sql(statement)

        await change(
            "CREATE TABLE notes (id integer PRIMARY KEY, document jsonb, length interval)",
            """INSERT INTO notes VALUES (1, '{"a": 0.12345678901234567890}', '1 month')""",
        )
        async with create_server(engine, base_url=BASE_URL, tables=tables) as server:
            response = await server.create_response(select(notes), name="x")

            async def page() -> str:
                return dumps((await server.read_page(response.resource_id, None)).rows).decode()

            before = '[{"id":1,"document":{"a":0.12345678901234567890},"length":"P0Y1M0DT0H0M0S","$unfit":["length"]}]'
            assert [await page(), await page()] == [before, before]
            await change("ALTER TABLE notes ALTER document TYPE text")
            as_text = before.replace('{"a":0.12345678901234567890}', '"{\\"a\\": 0.12345678901234567890}"')
            assert [await page(), await page()] == [as_text, as_text]
            await change("ALTER TABLE notes ALTER length TYPE text")
            as_text = as_text.replace("P0Y1M0DT0H0M0S", "1 mon")
            assert [await page(), await page()] == [as_text, as_text]


@pytest.mark.quick(1, "sqlite")
async def test_cursors_follow_a_sort_by_any_column(make_server: MakeServer) -> None:
    """An ENUM has an order of its own, JSON that of its text, and FLOAT digits that are not shown."""
    server = await make_server()
    response = await server.create_response(select(School), name="x")
    resource = await server.open_resource(response.resource_id, None, "read")
    wrong = []
    for column in resource.columns:
        for order in ("asc", "desc"):
            keys: list[Any] = [{"field": column["name"], "order": order}]
            whole = await server.unchecked.read_page(resource, None, PageRequest(limit=100, sort=keys))
            page = await server.unchecked.read_page(resource, None, PageRequest(limit=8, sort=keys))
            rows = list(page.rows)
            while page.next_cursor and len(rows) <= len(whole.rows):
                page = await server.unchecked.read_page(
                    resource, None, PageRequest(limit=8, sort=keys, cursor=page.next_cursor)
                )
                rows += page.rows
            if rows != whole.rows or page.has_next:
                wrong.append((column["name"], order))
    assert wrong == []


async def _by_pages(server: DualResponseServer, resource: Resource) -> list[Any]:
    rows: list[Any] = []
    while True:
        page = await server.unchecked.read_page(resource, None, PageRequest(offset=len(rows), limit=7))
        rows += [orjson.loads(dumps(row)) for row in page.rows]
        if not page.has_next:
            return rows


async def _by_stream(server: DualResponseServer, resource: Resource) -> list[Any]:
    stream = await server.unchecked.stream(resource, None, StreamRequest(format="json"))
    whole = b"".join([bytes(chunk.data) async for chunk in stream.chunks])
    document = orjson.loads(whole)
    rows: list[Any] = document["rows"] if isinstance(document, dict) else document
    return rows


async def _rows(source: Source, statement: Any) -> list[Any]:
    """What the statement itself answers."""
    async with read_only(source, None, limit=timedelta(seconds=30)) as connection:
        return list((await connection.execute(statement)).all())


def _seen(rows: list[Any]) -> Counter[int]:
    """How many rows have so many NULLs: what is comparable between values of Python and values of JSON."""
    values = [list(row.values()) if isinstance(row, dict) else list(row) for row in rows]
    return Counter(sum(value is None for value in row) for row in values)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("rows", [0, 5_000])
async def test_a_stream_of_any_length(make_server: MakeServer, rows: int) -> None:
    first, second, third = (aliased(School, name=name) for name in "abc")
    product = (
        select(first.id, second.name, third.founded)
        .join(second, second.id != first.id + 100)
        .join(third, third.id != first.id + 100)
        .limit(rows)
    )
    server = await make_server()
    response = await server.create_response(product, name="x")
    resource = await server.open_resource(response.resource_id, None, "read")
    assert len(await _by_stream(server, resource)) == rows


async def test_statements_of_duckdb_are_parsed_with_the_settings_of_their_database(tmp_path: Path) -> None:
    import duckdb

    table = Table("t", MetaData(), Column("a", Integer, primary_key=True), Column("b", Integer))
    statement, quotients = select(table.c.a, literal_column("a / b").label("quotient")), []
    for name, settings in (("plain", ""), ("whole", "?integer_division=true"), ("plain", "")):
        path = tmp_path / name
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE OR REPLACE TABLE t AS SELECT 7 AS a, 2 AS b")
        url = f"duckdb:///{path}{settings}"
        async with create_server(url, base_url="http://h/r", tables=table.metadata, allow_text=True) as dual:
            response = await dual.create_response(statement, name=name)
            quotients.append(response.sample[0]["quotient"])
    assert quotients == [3.5, 3, 3.5]
