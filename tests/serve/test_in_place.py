"""Files that are read in place, and the number of a row: rows and order of the file, and no other file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow as pa
import pytest
from mcp import Client
from pyarrow import parquet
from sqlalchemy.dialects import postgresql

from dualsql.cli.files import with_database
from dualsql.cli.options import ServeOptions
from dualsql.cli.serve import selection_of
from dualsql.databases.duckdb import BACKEND, _described_type, close_instance
from dualsql.databases.files import files_url
from dualsql.databases.threads import new_synchronous_engine
from dualsql.serve import build_mcp, build_server, serve_app
from tests.serve.conftest import text_of

SECRET = "the secret of another file"


@dataclass(frozen=True)
class Analyst:
    """A model that asks, and an application that reads its results."""

    model: Client
    http: httpx.AsyncClient

    async def ask(self, query: str) -> Any:
        """The structure of an answer, or the text of an error."""
        answer = await self.model.call_tool("execute_query", {"query": query})
        return text_of(answer) if answer.is_error else answer.structured_content

    async def rows(self, query: str, limit: int) -> list[Any]:
        """All rows, from page to page."""
        uri = (await self.ask(query))["resource"]["uri"]
        path = f"/resources/{uri.partition('://')[2]}"
        rows: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await self.http.get(path, params={"limit": str(limit), **cursor})).json()
            rows += page["data"]
            if not page["next_cursor"]:
                return rows
            cursor = {"cursor": page["next_cursor"]}


@asynccontextmanager
async def serving(*files: Path) -> AsyncIterator[Analyst]:
    """`dualsql serve` of the files, in this process."""
    with with_database(ServeOptions(files=list(files)), lambda _: None) as (options, served):
        await served.load(lambda _: None, None)
        built = await build_server(
            options.database,
            replace(selection_of(options), row_number=served.row_number),
            base_url="http://127.0.0.1/resources",
        )
        app = serve_app(built.server)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
            Client(build_mcp(built.server)) as model,
        ):
            yield Analyst(model, http)


def write_parquet(path: Path, rows: int = 5_000) -> list[dict[str, Any]]:
    """Rows in an order that no column has, in many groups. Returns them as pyarrow reads them."""
    numbers = [number * 7_919 % rows for number in range(rows)]
    table = pa.table(
        {
            "id": numbers,
            "city": [None if number % 11 == 0 else f"City {number % 13}" for number in numbers],
            "place": [{"x": number, "tags": ["a", None]} for number in numbers],
            "huge": pa.array([number * 10**30 for number in numbers], pa.decimal128(38, 0)),
        }
    )
    parquet.write_table(table, path, row_group_size=300)
    read: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return [{**row, "huge": str(row["huge"])} for row in read]


async def test_rows_of_parquet_are_those_that_pyarrow_reads(tmp_path: Path) -> None:
    expected = write_parquet(tmp_path / "stock.parquet")
    async with serving(tmp_path / "stock.parquet") as analyst:
        assert await analyst.rows("SELECT * FROM stock", 999) == expected
        numbered = await analyst.rows("SELECT rowid, id FROM stock WHERE id % 2 = 0 ORDER BY rowid DESC", 999)
        some = [(number, row["id"]) for number, row in enumerate(expected) if row["id"] % 2 == 0]
        assert [(row["rowid"], row["id"]) for row in numbered] == some[::-1]


async def test_the_number_of_a_row_is_no_part_of_all_columns(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("city,rowid\nb,7\na,8\nb,7\n")
    async with serving(tmp_path / "sales.csv") as analyst:
        assert (await analyst.ask("SELECT DISTINCT * FROM sales ORDER BY city DESC"))["results"] == [
            {"city": "b", "rowid_2": 7},
            {"city": "a", "rowid_2": 8},
        ]
        joined = await analyst.ask("SELECT count(*) AS n FROM sales NATURAL JOIN sales AS s")
        assert joined["results"] == [{"n": 5}], "as of equal rows, and not of equal places"
        actual = (await analyst.ask("SELECT rowid, city FROM sales ORDER BY city, rowid DESC"))["results"]
        assert [(row["rowid"], row["city"]) for row in actual] == [(1, "a"), (2, "b"), (0, "b")]
        described = await analyst.model.call_tool("describe_table", {"table": "sales"})
        assert "|rowid|BIGINT|false|The position of the row in its file" in text_of(described)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A database with a table, and with views that would read another file of the machine."""
    (tmp_path / "other.txt").write_text(SECRET)
    path = tmp_path / "folder" / "shop.duckdb"
    path.parent.mkdir()
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 9 - i AS id FROM range(10) AS r (i)")
        connection.execute(f"CREATE VIEW v AS FROM read_text('{tmp_path / 'other.txt'}')")
        connection.execute("CREATE SCHEMA more")
        connection.execute("CREATE TABLE more.t AS SELECT 1 AS \"rowid\", 'x' AS name")
    write_parquet(path.parent / "stock.parquet", 10)
    return path


@pytest.mark.long
async def test_a_database_among_other_files_is_read_in_place(shop: Path) -> None:
    async with serving(shop.parent) as analyst:
        assert [row["id"] for row in await analyst.rows("SELECT * FROM shop_t", 3)] == [*range(9, -1, -1)]
        assert (await analyst.ask("SELECT * FROM shop_more_t"))["results"] == [{"rowid_2": 1, "name": "x"}]
        assert "UNKNOWN_TABLE" in await analyst.ask("SELECT * FROM shop_v")
    async with serving(shop) as analyst:
        assert "UNKNOWN_TABLE" in await analyst.ask("SELECT * FROM v")


async def test_what_reads_in_place_reads_no_other_file(shop: Path) -> None:
    others = shop.parent.parent
    with with_database(ServeOptions(files=[shop.parent]), lambda _: None) as (options, served):
        await served.load(lambda _: None, None)
        assert served.loader is not None
        url = files_url(served.loader.database.parent)
        assert url.render_as_string() == options.database
        engine = new_synchronous_engine(url)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM stock, shop_t").scalar_one() == 100
            names = connection.exec_driver_sql("SELECT database_name FROM duckdb_databases()").scalars().all()
            [attached] = [name for name in names if name.startswith("file_")]
            for attack in (
                f"FROM {attached}.v",
                f"FROM read_text('{others / 'other.txt'}')",
                f"FROM read_blob('{others / 'other.txt'}')",
                f"FROM glob('{others}/*')",
                f"FROM read_parquet('{shop.parent}/*.parquet')",
                f"COPY stock TO '{others / 'out.csv'}'",
                f"COPY stock TO '{shop.parent / 'out.csv'}'",
                f"ATTACH '{others / 'new.duckdb'}'",
                f"INSERT INTO {attached}.t VALUES (1)",
                "SET enable_external_access = true",
                f"SET allowed_paths = ['{others / 'other.txt'}']",
                "RESET lock_configuration",
            ):
                with pytest.raises(Exception, match=r"(?i)permission|disabled|locked|read-only|cannot"):
                    connection.exec_driver_sql(attack).all()
                connection.rollback()
        engine.dispose()
    assert {path.name for path in others.iterdir()} == {"folder", "other.txt"}


def test_a_foreign_database_does_not_choose_what_it_reads(shop: Path) -> None:
    """Only what the process was given for the database at this path is allowed."""
    assert BACKEND.adapt_url(files_url(shop.parent)).query == {}
    connection = duckdb.connect(str(shop), read_only=True, config={"enable_external_access": "false"})
    close_instance(connection)
    with pytest.raises(duckdb.PermissionException):
        connection.execute("FROM v").fetchall()
    connection.close()


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["written", "removed", "linked"])
async def test_a_file_that_changes_is_read_no_further(tmp_path: Path, how: str) -> None:
    """Its pages would repeat or lose rows."""
    path = tmp_path / "stock.parquet"
    write_parquet(path, 3_000)
    async with serving(path) as analyst:
        await analyst.ask("SELECT * FROM stock")
        if how == "written":
            write_parquet(path, 2_000)
        else:
            os.replace(path, tmp_path / "old.parquet")  # noqa: PTH105 - as programs do
            if how == "linked":
                path.symlink_to(tmp_path / "other.parquet")
        refused = await analyst.ask("SELECT * FROM stock")
        assert "'stock.parquet' has changed since the server was started" in refused


def test_a_list_of_decimals_has_a_type() -> None:
    assert str(_described_type("DECIMAL(5,2)[]").compile(dialect=postgresql.dialect())) == "NUMERIC[]"


async def test_parquet_that_cannot_be_read_in_place_is_copied(tmp_path: Path) -> None:
    """Its name is a pattern to DuckDB, or it has the column in which DuckDB writes the number of a row."""
    for name, column in (("a[1].parquet", "id"), ("b.parquet", "file_row_number")):
        parquet.write_table(pa.table({column: [3, 1, 2]}), tmp_path / name)
    async with serving(tmp_path) as analyst:
        assert await analyst.rows("SELECT rowid, id FROM a_1", 2) == [
            {"rowid": number, "id": value} for number, value in enumerate([3, 1, 2])
        ]
        rows = await analyst.rows("SELECT * FROM b", 2)
        assert [row["file_row_number"] for row in rows] == [3, 1, 2]
