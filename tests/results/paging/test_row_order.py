"""Rows without an order of their author have one order through every door: that of the table's rows, or all columns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, event, insert, select, true

from dualsql import (
    DualResponseServer,
    LocalResultStorage,
    Mask,
    PageRequest,
    Principal,
    Shared,
    StreamRequest,
    TenantFilter,
)
from dualsql_client.wire import SortKey
from tests.servers import create_server

pytestmark = pytest.mark.quick(4)

METADATA = MetaData()
COLUMNS = ("word", "size", "tenant")
FLIGHTS = Table(
    "flights", METADATA, *(Column(name, String if name != "size" else Integer) for name in COLUMNS)
)
SHOWN = Table("shown", METADATA, *(Column(name, String if name != "size" else Integer) for name in COLUMNS))
"""A view, which the application declares as a table."""
ROWS = [
    {"word": None if n % 7 == 0 else f"s{n % 13}", "size": None if n % 11 == 0 else n, "tenant": "ab"[n % 2]}
    for n in range(120, 0, -1)
]
WHO = Principal(id="ann")


def filled(folder: Path, engine: str, *, number: str = "") -> str:
    """The URL of a database with the rows; `number` is a further column of that name."""
    url = f"{engine}:///{folder}/rows.{engine}"
    made = create_engine(url)
    extra = "" if not number else f", {number} INTEGER DEFAULT 1"
    with made.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE flights (word TEXT, size INTEGER, tenant TEXT{extra})")
        connection.exec_driver_sql("CREATE VIEW shown AS SELECT word, size, tenant FROM flights")
        connection.execute(insert(FLIGHTS), ROWS)
    made.dispose()
    return url


def last(value: Any) -> tuple[bool, Any]:
    return value is None, "" if value is None else value


def by_all_columns(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: [last(row[name]) for name in COLUMNS])


async def doors(dual: DualResponseServer, statement: Any, keep: bool) -> list[dict[str, Any]]:
    """The rows, which are the same in the sample, the pages, the stream and a question."""
    response = await dual.create_response(
        statement, name="rows", principal=WHO, keep=keep, sample_size=50, is_text=True
    )
    page = await dual.read_page(response.resource_id, WHO, PageRequest(limit=17))
    pages = list(page.rows)
    while page.next_cursor:
        page = await dual.read_page(response.resource_id, WHO, PageRequest(limit=17, cursor=page.next_cursor))
        pages += page.rows
    stream = await dual.stream(response.resource_id, WHO, StreamRequest())
    lines = b"".join([chunk.data async for chunk in stream.chunks]).decode().splitlines()[:-1]
    assert [json.loads(line) for line in lines] == pages
    assert list(response.sample) == pages[:50]
    # Its hidden keys are stored with it.
    rest = await dual.create_response(
        name="rest",
        parent=response.resource_uri,
        principal=WHO,
        refinement={"sql": "SELECT * FROM data LIMIT 9 OFFSET 3"},
    )
    assert list(rest.sample) == pages[3:12]
    return pages


_HOOKS: dict[str, list[Any]] = {
    "open": [],
    "tenants": [TenantFilter(column="tenant", value=lambda _: "a"), Mask(FLIGHTS.c.word)],
    "shared": [Shared(FLIGHTS, SHOWN)],
}


@pytest.mark.long
@pytest.mark.parametrize("hooks", _HOOKS)
@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
async def test_rows_of_a_table_without_a_key_are_in_the_order_of_its_rows(
    engine: str, hooks: str, tmp_path: Path
) -> None:
    rows = [row for row in ROWS if row["tenant"] == "a"] if hooks == "tenants" else ROWS
    wanted = [{**row, "word": None} for row in rows] if hooks == "tenants" else rows
    async with create_server(
        filled(tmp_path, engine),
        base_url="http://h/r",
        tables=METADATA,
        hooks=_HOOKS[hooks],
        storage=LocalResultStorage(tmp_path / "kept"),
    ) as dual:
        for keep in (False, True):
            assert await doors(dual, select(FLIGHTS), keep) == wanted
            text = (
                await dual.sql.read("SELECT word, size, tenant FROM flights WHERE 1 = 1", principal=WHO)
            ).select
            assert await doors(dual, text, keep) == (
                wanted if engine == "sqlite" or hooks != "tenants" else by_all_columns(wanted)
            )
            # A view has no rows of its own.
            assert await doors(dual, select(SHOWN), keep) == by_all_columns(rows)
            ordered = (
                await dual.sql.read("SELECT * FROM flights ORDER BY tenant DESC", principal=WHO)
            ).select
            assert [row["tenant"] for row in await doors(dual, ordered, keep)] == sorted(
                (str(row["tenant"]) for row in rows), reverse=True
            )


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
async def test_a_column_of_that_name_is_no_row_number(engine: str, tmp_path: Path) -> None:
    url = filled(tmp_path, engine, number="RowID")
    async with create_server(
        url, base_url="http://h/r", tables=METADATA, storage=LocalResultStorage(tmp_path / "kept")
    ) as dual:
        wanted = ROWS if engine == "sqlite" else by_all_columns(ROWS)
        assert await doors(dual, select(FLIGHTS), False) == wanted


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
async def test_groups_and_distinct_rows_have_their_nulls_last(engine: str, tmp_path: Path) -> None:
    async with create_server(
        filled(tmp_path, engine),
        base_url="http://h/r",
        tables=METADATA,
        storage=LocalResultStorage(tmp_path / "k"),
    ) as dual:
        words = sorted({row["word"] for row in ROWS}, key=last)
        for statement in (
            select(FLIGHTS.c.word).distinct(),
            select(FLIGHTS.c.word).group_by(FLIGHTS.c.word),
            select(FLIGHTS.c.word).union(select(FLIGHTS.c.word)),
        ):
            for keep in (False, True):
                assert [row["word"] for row in await doors(dual, statement, keep)] == words


async def test_the_number_of_the_row_needs_no_sort(tmp_path: Path) -> None:
    url = filled(tmp_path, "sqlite")
    async with DualResponseServer(url, base_url="http://h/r", tables=METADATA) as dual:
        response = await dual.create_response(select(FLIGHTS), name="rows")
        resource = await dual.unchecked.get(response.resource_id)
        assert resource is not None
        statement = dual.parts.views.live(resource, None).ordered().arranged
    engine = create_engine(url)
    with engine.connect() as connection:
        compiled = statement.compile(engine)
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}").all()
    engine.dispose()
    assert [row[-1] for row in plan] == ["SCAN flights"]


_NULL_KEYS = {
    "text": "id TEXT PRIMARY KEY, word TEXT",
    "no row number": "id INT PRIMARY KEY, word TEXT",
    "of two columns": "id INT, word TEXT, PRIMARY KEY (id, word)",
    "no name for the row's number": "id TEXT PRIMARY KEY, word TEXT, rowid AS (1), oid AS (1), _rowid_ AS (1)",
}


@pytest.mark.parametrize("sort", ["id", "word", ""])
@pytest.mark.parametrize("columns", _NULL_KEYS.values(), ids=_NULL_KEYS)
async def test_rows_whose_key_is_null_are_all_on_pages(columns: str, sort: str, tmp_path: Path) -> None:
    """A primary key of SQLite may be NULL in several rows, unless it is the row's number (sqlite.org/quirks.html)."""
    file = tmp_path / "keys.sqlite"
    with closing(sqlite3.connect(file)) as made, made:
        made.execute(f"CREATE TABLE things ({columns})")
        made.executemany(
            "INSERT INTO things VALUES (?, ?)", [(None if n % 3 else n, "ab"[n % 2]) for n in range(40)]
        )
    engine, tables = create_engine(f"sqlite:///{file}"), MetaData()
    tables.reflect(engine)
    things = tables.tables["things"]
    rows_of_things = select(things.c.id, things.c.word)
    inner = rows_of_things.subquery()
    keys = [SortKey(field=sort, order="desc")] if sort else []
    async with create_server(f"sqlite:///{file}", base_url="http://h/r", tables=tables) as dual:
        for statement in (
            rows_of_things,
            select(inner),
            select(things.c.id, inner.c.word).join(inner, true()),
        ):
            response = await dual.create_response(statement, name="things")
            pages, cursor = list[Any](), None
            while not pages or cursor:
                request = PageRequest(limit=7, sort=keys, cursor=cursor)
                page = await dual.read_page(response.resource_id, None, request)
                pages, cursor = [*pages, *page.rows], page.next_cursor
            while page.previous_cursor:
                request = PageRequest(limit=7, sort=keys, cursor=page.previous_cursor)
                page = await dual.read_page(response.resource_id, None, request)
                assert list(page.rows) == pages[page.offset :][: len(page.rows)]
            assert page.offset == 0
            rows = sorted(((row["id"], row["word"]) for row in pages), key=repr)
            with engine.connect() as connection:
                assert rows == sorted(connection.execute(statement).all(), key=repr)
    engine.dispose()


async def test_rows_of_an_attached_file_whose_key_is_null_are_all_on_pages(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as made, made:
        made.execute("CREATE TABLE things (id TEXT PRIMARY KEY)")
        made.executemany("INSERT INTO things VALUES (?)", [(None,)] * 20)
    engine, tables = create_engine(f"sqlite:///{tmp_path}/main.sqlite"), MetaData()
    event.listen(engine, "connect", lambda connection, _: connection.execute(f"ATTACH '{other}' AS other"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE things (id INTEGER PRIMARY KEY)")
    tables.reflect(engine, schema="other")
    async with create_server(engine, base_url="http://h/r", tables=tables) as dual:
        response = await dual.create_response(select(tables.tables["other.things"]), name="things")
        page = await dual.read_page(response.resource_id, None, PageRequest(limit=15))
        rest = await dual.read_page(
            response.resource_id, None, PageRequest(limit=15, cursor=page.next_cursor)
        )
        assert page.row_count + rest.row_count == 20
    engine.dispose()
