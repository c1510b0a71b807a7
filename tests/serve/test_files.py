"""`dualsql serve sales.csv`: files as tables, with every value as it is written, and nothing but these files."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
import socket
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from time import process_time
from typing import Any
from zipfile import ZipFile

import duckdb
import httpx
import pyarrow as pa
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from openpyxl import Workbook
from pyarrow import parquet
from sqlalchemy import select

from dualsql.cli.files import with_database
from dualsql.cli.options import ServeOptions
from dualsql.cli.serve import selection_of
from dualsql.databases.duckdb import CONNECT_ARGUMENTS, close_instance
from dualsql.databases.duckdb.files import _CONDITIONS, _FAST_CHECKS, _cast_with_check, _for_rows_to_come
from dualsql.databases.duckdb.in_place import allow_files
from dualsql.databases.file_cache import private_folder
from dualsql.databases.file_selection import find_files
from dualsql.databases.files import FileLoader
from dualsql.databases.workbooks import read_sqlite
from dualsql.errors import ConfigurationError
from dualsql.serve import build_server
from dualsql.serve.listening import Starting
from dualsql_client import DualResponseClient
from tests.quiet_core import on_a_quiet_core
from tests.serve.conftest import PROGRAM, environment, serving_process, text_of
from tests.serve.dirty import LARGE, sqlite, write_dirty_files
from tests.waiting import until


def loaded(folder: Path, *arguments: Path) -> Path:
    """A DuckDB file with the tables of the given files."""
    database = folder / "loaded" / "loaded.duckdb"  # where no folder is searched
    database.parent.mkdir(exist_ok=True)
    database.unlink(missing_ok=True)
    FileLoader(find_files(arguments or [folder]).paths, database).run()
    return database


def table_of(database: Path, name: str) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """Types by column, and rows, without their numbers."""
    with duckdb.connect(str(database), read_only=True) as connection:
        allow_files(connection)
        described = connection.execute(f'DESCRIBE "{name}"').fetchall()
        types = {row[0]: row[1] for row in described if row[0] != "rowid"}
        columns = ", ".join('"{}"'.format(column.replace('"', '""')) for column in types)
        return types, connection.execute(f'SELECT {columns} FROM "{name}" ORDER BY rowid').fetchall()


COLUMNS: list[tuple[list[str], str, list[Any]]] = [
    (["1", "-2", ""], "BIGINT", [1, -2, None]),
    (["007", "1", "2"], "VARCHAR", ["007", "1", "2"]),
    (["-0", "1", "2"], "DECIMAL(1,0)", [Decimal(0), Decimal(1), Decimal(2)]),
    (["1.50", "2", "-0.125"], "DECIMAL(4,3)", [Decimal("1.500"), Decimal(2), Decimal("-0.125")]),
    (["12345678901234567890", "1", ""], "DECIMAL(20,0)", [Decimal(12345678901234567890), Decimal(1), None]),
    (["1" * 39, "1", "2"], "VARCHAR", ["1" * 39, "1", "2"]),
    (["1e5", "2.5", "-1E-3"], "DOUBLE", [100000.0, 2.5, -0.001]),
    (["1e400", "1", "2"], "VARCHAR", ["1e400", "1", "2"]),
    (["0.12345678901234567e1", "1", "2"], "VARCHAR", ["0.12345678901234567e1", "1", "2"]),
    (["1,5", "2", "3"], "VARCHAR", ["1,5", "2", "3"]),
    (["+1", "2", "3"], "VARCHAR", ["+1", "2", "3"]),
    (["TRUE", "false", ""], "BOOLEAN", [True, False, None]),
    (["2024-02-29", "1999-12-31", ""], "DATE", [dt.date(2024, 2, 29), dt.date(1999, 12, 31), None]),
    (["2024-02-30", "1999-12-31", ""], "VARCHAR", ["2024-02-30", "1999-12-31", None]),
    (["01/02/2024", "03/04/2024", ""], "VARCHAR", ["01/02/2024", "03/04/2024", None]),
    (
        ["2024-02-29T01:02", "2024-02-29 01:02:03.000001", ""],
        "TIMESTAMP",
        [dt.datetime.fromisoformat(text) for text in ("2024-02-29T01:02", "2024-02-29T01:02:03.000001")]
        + [None],
    ),
    (["2024-02-29T01:02:03Z", "x", ""], "VARCHAR", ["2024-02-29T01:02:03Z", "x", None]),
    (["", "", ""], "VARCHAR", [None, None, None]),
    (["#no comment", '"quoted ""words"""', '""'], "VARCHAR", ["#no comment", 'quoted "words"', ""]),
    (["=1+1", "NULL", "nan"], "VARCHAR", ["=1+1", "NULL", "nan"]),
]


def test_no_digit_of_a_nanosecond_is_lost(tmp_path: Path) -> None:
    micro = 1_709_209_800_123_456
    parquet.write_table(
        pa.table(
            {
                "whole": pa.array([micro * 1000, None], pa.timestamp("ns")),
                "fine": pa.array([micro * 1000 + 789, None], pa.timestamp("ns")),
            }
        ),
        tmp_path / "fine.parquet",
    )
    types, rows = table_of(loaded(tmp_path), "fine")
    assert types == {"whole": "TIMESTAMP", "fine": "VARCHAR"}
    whole = dt.datetime.fromisoformat("2024-02-29T12:30:00.123456")
    assert rows == [(whole, "2024-02-29 12:30:00.123456789"), (None, None)]


def test_every_value_of_csv_is_as_it_is_written(tmp_path: Path) -> None:
    lines = ["\t".join(f"c{n}" for n in range(len(COLUMNS)))]
    lines += ["\t".join(column[0][row] for column in COLUMNS) for row in range(3)]
    (tmp_path / "all.tsv").write_text("\n".join(lines) + "\n")
    types, rows = table_of(loaded(tmp_path), "all")
    assert list(types.values()) == [column[1] for column in COLUMNS]
    assert [list(values) for values in zip(*rows, strict=True)] == [column[2] for column in COLUMNS]


def test_rows_late_in_a_file_decide_too(tmp_path: Path) -> None:
    (tmp_path / "late.csv").write_text("n\n" + "1\n" * 50_000 + "x\n")
    types, rows = table_of(loaded(tmp_path), "late")
    assert types == {"n": "VARCHAR"}
    assert rows[-1] == ("x",) and len(rows) == 50_001


@pytest.mark.long
def test_a_large_file_keeps_its_order_and_types(tmp_path: Path) -> None:
    """It is read at once, with checks; `rowid` numbers the rows in the order of the file."""
    rows = [
        (n, f"{n % 100}.{n % 10}", f"2024-01-{n % 28 + 1:02}", f"2024-01-01T10:00:{n % 60:02}")
        for n in range(90_000)
    ]
    lines = [",".join(map(str, row)) for row in rows]
    (tmp_path / "large.csv").write_text("n,price,day,at\n" + "\n".join(lines) + "\n")
    database = loaded(tmp_path)
    types, _ = table_of(database, "large")
    assert types == {"n": "BIGINT", "price": "DECIMAL(18,1)", "day": "DATE", "at": "TIMESTAMP"}
    with duckdb.connect(str(database), read_only=True) as connection:
        assert connection.execute("SELECT bool_and(rowid = n), count(*) FROM large").fetchone() == (
            True,
            90_000,
        )
        texts = "SELECT concat_ws(',', n, price, day, strftime(\"at\", '%Y-%m-%dT%H:%M:%S')) FROM large ORDER BY rowid"
        actual = [line for (line,) in connection.execute(texts).fetchall()]
    assert actual == lines


LATE = [
    ("1", "x", "VARCHAR"),
    ("1", "007", "VARCHAR"),
    ("1", "1.5", "DECIMAL(6,1)"),
    ("1.5", "12345678901234567.25", "DECIMAL(19,2)"),
    ("1.5", "12.", "VARCHAR"),
    ("1.5", "#N/A", "DECIMAL(2,1)"),
    ("", "7", "BIGINT"),
    ("2024-01-01", "2024/01/02", "VARCHAR"),
    ("2024-01-01", "infinity", "VARCHAR"),
    ("2024-01-01T10:00:00", "2024-01-01 10:00", "TIMESTAMP"),
    ("2024-01-01T10:00:00", "2024-01-01T10:00:00Z", "VARCHAR"),
    ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00", "VARCHAR"),
    ("true", "t", "VARCHAR"),
    ("1.5e3", "1e400", "VARCHAR"),
]


@pytest.mark.quick(1)
@pytest.mark.parametrize(("first", "last", "expected"), LATE)
def test_a_value_late_in_a_large_file_decides_as_in_a_small_one(
    tmp_path: Path, first: str, last: str, expected: str
) -> None:
    for name, copies in (("small", 100), ("large", 40_000)):
        lines = [f"{number},{first}\n" for number in range(copies)]
        (tmp_path / f"{name}.csv").write_text(f"id,value\n{''.join(lines)}{copies},{last}\n")
    database = loaded(tmp_path)
    (small, few), (large, many) = table_of(database, "small"), table_of(database, "large")
    kind = expected.partition("(")[0]
    assert small["value"].partition("(")[0] == large["value"].partition("(")[0] == kind
    assert (few[0][1], few[-1][1]) == (many[0][1], many[-1][1])
    assert len(many) == 40_001


SEEDS = {
    "BIGINT": ["120", "-5", "0"],
    "DECIMAL(5, 2)": ["1.50", "-0.25", "3"],
    "DATE": ["2024-02-28"],
    "BOOLEAN": ["true"],
    "TIMESTAMP": ["2024-02-28 10:20:30", "2024-02-28T10:20"],
}


@pytest.mark.parametrize("type_", SEEDS)
def test_no_check_of_a_large_file_takes_what_a_small_one_does_not(type_: str) -> None:
    """Texts that are near to values of the type: DuckDB reads "10:20: 5" as 10:20:00, and "1e2" as 100."""
    texts = {"infinity", "epoch", "12024-02-28", "1e2", "9E4", "0x1F", ""}
    for seed in SEEDS[type_]:
        for at, sign in product(range(len(seed) + 1), " +-T.:/0195eE_t,٣"):
            texts |= {seed[:at] + sign + seed[at:], seed[:at] + sign + seed[at + 1 :]}
        for (one, sign), (two, other) in combinations(product(range(len(seed)), " 1-"), 2):
            text = list(seed)
            text[one], text[two] = sign, other
            texts.add("".join(text))
    kind = type_.partition("(")[0]
    small = _CONDITIONS.get(kind, "regexp_full_match(%c, '-?(0|[1-9][0-9]*)([.][0-9]{1,2})?')")
    checked = [
        _cast_with_check("text", _for_rows_to_come(type_), is_fast=is_fast) for is_fast in (False, True)
    ]
    # NULL for an error, so that one query checks all.
    checks = [
        re.sub(r"text::(\w+(\(.*?\))?)", r"try_cast(text AS \1)", re.sub(r"error\(.*?\)", "NULL", check))
        for check in checked
    ]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE texts AS SELECT unnest(?::VARCHAR[]) AS text", [list(texts)])
        for check in checks[: 1 + (kind in _FAST_CHECKS)]:
            actual = connection.execute(
                f"SELECT text FROM texts WHERE {check} IS NOT NULL AND ({small.replace('%c', 'text')}) IS NOT TRUE"
            )
            assert actual.fetchall() == []
        [taken] = connection.execute(f"SELECT count({checks[0]}) FROM texts").fetchone() or (0,)
        assert taken


def test_a_broken_file_is_named_and_not_read_in_part(tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text("a,b\n" + "1,2\n" * 3_000 + "1,2,3\n")
    with pytest.raises(ConfigurationError, match=r"broken\.csv' cannot be read"):
        loaded(tmp_path)
    (tmp_path / "broken.csv").unlink()
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigurationError, match=r"no\.parquet' cannot be read"):
        loaded(tmp_path / ".." / tmp_path.name)


def test_sheets_of_a_workbook(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Q1 2024"
    sheet.append(["id", "price", "day", "at", "code", "mixed", "ok", None, "id"])
    sheet.append(
        [1, 1.5, dt.date(2024, 2, 29), dt.datetime.fromisoformat("2024-02-29T01:02:03"), "007", 1, True]
    )
    sheet.append([2, 2, None, None, "8", "x", None, "y", 5])
    book.create_sheet("empty")
    book.create_sheet("other").append(["only names"])
    book.save(tmp_path / "my book.xlsx")
    database = loaded(tmp_path)
    types, rows = table_of(database, "my_book_Q1_2024")
    assert types == {
        "id": "BIGINT", "price": "DOUBLE", "day": "DATE", "at": "TIMESTAMP", "code": "VARCHAR", "mixed": "VARCHAR",
        "ok": "BOOLEAN", "column8": "VARCHAR", "id_2": "BIGINT",
    }  # fmt: skip
    at = dt.datetime.fromisoformat("2024-02-29T01:02:03")
    assert rows == [
        (1, 1.5, dt.date(2024, 2, 29), at, "007", "1", True, None, None),
        (2, 2.0, None, None, "8", "x", None, "y", 5),
    ]
    assert table_of(database, "my_book_other") == ({"only names": "VARCHAR"}, [])


SHEET = """<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c></row>
<row r="1048576"><c r="{last}"><v>1</v></c></row></sheetData></worksheet>"""


@pytest.mark.parametrize("replaced", ["folder/sales.csv", "folder"])
def test_a_file_that_becomes_a_link_is_not_read(tmp_path: Path, replaced: str) -> None:
    for folder, text in (("folder", "n\n1\n"), ("private", "password\nhunter2\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sales.csv").write_text(text)
    files = find_files([tmp_path / "folder"])
    place = tmp_path / replaced
    place.rename(tmp_path / "old")
    place.symlink_to(tmp_path / replaced.replace("folder", "private"))
    with pytest.raises(ConfigurationError, match="replaced by a link"):
        FileLoader(files.paths, tmp_path / "loaded.duckdb").run()


@pytest.mark.long
@pytest.mark.parametrize(
    ("last", "memory"), [("XFD1048576", 2**62), ("CV1048576", 2**30)], ids=["all-cells", "many-cells"]
)
def test_a_workbook_takes_no_more_memory_than_it_may(tmp_path: Path, last: str, memory: int) -> None:
    Workbook().save(tmp_path / "whole.xlsx")
    path = tmp_path / "bomb.xlsx"
    with ZipFile(tmp_path / "whole.xlsx") as whole, ZipFile(path, "w") as bomb:
        for name in whole.namelist():
            is_sheet = name == "xl/worksheets/sheet1.xml"
            bomb.writestr(name, SHEET.format(last=last) if is_sheet else whole.read(name))
    loader = FileLoader([path], tmp_path / "loaded.duckdb", memory=memory)
    with pytest.raises(ConfigurationError, match=r"bomb\.xlsx' cannot be read.*too large"):
        loader.run()
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == [], "nothing is left"


@pytest.mark.long
async def test_reading_a_workbook_can_be_stopped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "endless.xlsx")
    loader = FileLoader([tmp_path / "endless.xlsx"], tmp_path / "loaded.duckdb")
    running = asyncio.create_task(asyncio.to_thread(loader.run))
    writer = await asyncio.to_thread((tmp_path / "endless.xlsx").open, "wb")  # returns when it is being read
    loader.stop()
    with pytest.raises(ConfigurationError):
        await running
    writer.close()


def test_no_file_is_read_after_a_stop(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("n\n1\n")
    loader = FileLoader(find_files([tmp_path]).paths, tmp_path / "loaded.duckdb")
    loader.stop()
    with pytest.raises(ConfigurationError, match="was not read"):
        loader.run()


def test_reading_a_sqlite_file_can_be_stopped(tmp_path: Path) -> None:
    sqlite(tmp_path / "shop.sqlite")
    with pytest.raises(ValueError, match="was not read"):
        list(read_sqlite(tmp_path / "shop.sqlite", str(tmp_path), lambda: True))


@pytest.mark.long
def test_the_name_of_a_folder_is_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "secret=no rows"
    folder.mkdir()
    (folder / "sales.csv").write_text("n\n1\n")
    book = Workbook()
    assert book.active is not None
    book.active.append(["n"])
    book.active.append([2])
    book.save(folder / "book.xlsx")
    database = loaded(folder)
    assert table_of(database, "sales") == ({"n": "BIGINT"}, [(1,)])
    assert table_of(database, "book") == ({"n": "BIGINT"}, [(2,)])


def test_names_of_tables(tmp_path: Path) -> None:
    for name in ("2024.csv", "a b.csv", "a-b.csv", "A_B.csv.gz", "dualsql_x.csv", "ünï.csv", "'; DROP.csv"):
        if name.endswith(".gz"):
            import gzip

            (tmp_path / name).write_bytes(gzip.compress(b"n\n1\n"))
        else:
            (tmp_path / name).write_text("n\n1\n")
    with duckdb.connect(str(loaded(tmp_path))) as connection:
        names = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    assert names == {"file_2024", "A_B", "a_b_2", "a_b_3", "file_dualsql_x", "ünï", "DROP"}


def test_a_pattern_in_a_name_reads_no_other_file(tmp_path: Path) -> None:
    given = tmp_path / "x[1]*?.csv"
    given.write_text("n\n1\n")
    (tmp_path / "x1zz.csv").write_text("n\n2\n")
    assert table_of(loaded(tmp_path, given), "x_1")[1] == [(1,)]


def test_links_and_other_kinds_in_a_folder_are_left_out_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    secret = tmp_path / "secret.csv"
    secret.write_text("n\n1\n")
    (folder / "link.csv").symlink_to(secret)
    (folder / ".hidden.csv").write_text("n\n1\n")
    (folder / "notes.txt").write_text("no table")
    (folder / "shop.sqlite-wal").touch()  # SQLite's own, beside a database
    with pytest.raises(ConfigurationError, match="no files to serve"):
        find_files([folder])
    (folder / "own.csv").write_text("n\n1\n")
    files = find_files([folder, folder / ".." / "folder"])
    assert [path.name for path in files.paths] == ["own.csv"]
    assert (set(files.links), set(files.unknown)) == ({"link.csv"}, {"notes.txt"})


@pytest.mark.parametrize("name", ["none.csv", "notes.txt", "queue.csv", "circle.csv", f"{'n' * 300}.csv"])
def test_what_is_no_such_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("no table")
    (tmp_path / "circle.csv").symlink_to(tmp_path / "circle.csv")
    os.mkfifo(tmp_path / "queue.csv")
    with pytest.raises(ConfigurationError, match=r"no file|no known kind|cannot be read"):
        find_files([tmp_path / name])


ATTACKS = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_csv('{given}')",
    "COPY sales TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/other.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT * FROM read_parquet('https://example.com/x.parquet')",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "RESET lock_configuration",
    "CREATE TABLE more AS SELECT 1",
    "DELETE FROM sales",
    "PRAGMA database_list; COPY (SELECT 1) TO '{folder}/out.csv'",
]


def copies_in(folder: Path) -> list[Path]:
    return list(folder.glob("dualsql-*"))


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    path.write_text("id,city\n" + "".join(f"{n},City {n % 7}\n" for n in range(1_000)))
    return path


@pytest.mark.quick(6)
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_database_itself_reads_and_writes_nothing_else(tmp_path: Path, sales: Path, attack: str) -> None:
    database = loaded(tmp_path, sales)
    kept = set(tmp_path.iterdir())
    with duckdb.connect(str(database), **CONNECT_ARGUMENTS) as connection:
        close_instance(connection)
        assert connection.execute("SELECT count(*) FROM sales").fetchone() == (1_000,)
        with pytest.raises(duckdb.Error):
            connection.execute(attack.format(given=sales, folder=tmp_path)).fetchall()
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in kept}


@pytest.fixture
def opened_page(tmp_path: Path) -> Path:
    """A browser that only notes what it is told to open."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened"}\n')
    browser.chmod(0o755)
    return browser


@pytest.mark.long
async def test_files_are_served_over_http(
    tmp_path: Path, sales: Path, opened_page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet.write_table(
        pa.table({"id": [1, 2], "total": [Decimal("1.50"), None]}), tmp_path / "orders.parquet"
    )
    monkeypatch.setenv("BROWSER", str(opened_page))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    async with serving_process(str(sales), str(tmp_path / "orders.parquet"), "--open") as served:
        assert "Serving 2 tables of sales.csv, orders.parquet, read-only." in served.said
        async with (
            Client(f"{served.origin}/mcp") as model,
            DualResponseClient(f"{served.origin}/resources") as application,
        ):
            result = await model.call_tool("execute_query", {"query": "SELECT * FROM sales ORDER BY id"})
            assert len(await application.parse(result, strict=True).fetch_all()) == 1_000
            for attack in ATTACKS:
                query = attack.format(given=sales, folder=tmp_path)
                refused = await model.call_tool("execute_query", {"query": query})
                assert refused.is_error, query
                assert "root:" not in text_of(refused)
        await served.stop()
    assert (tmp_path / "opened").read_text().strip() == f"{served.origin}/"
    assert not copies_in(tmp_path), "the copy is deleted"
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.long
async def test_files_are_served_over_stdio(tmp_path: Path, sales: Path) -> None:
    parameters = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], "serve", "--stdio", "sales.csv"],
        env=environment(TMPDIR=str(tmp_path)),
        cwd=tmp_path,
    )
    with (tmp_path / "said").open("w") as errors:
        async with Client(stdio_client(parameters, errlog=errors)) as model:
            result = await model.call_tool(
                "execute_query", {"query": "SELECT city, count(*) FROM sales GROUP BY city"}
            )
            assert "all 7 rows" in text_of(result)
            resources = re.search(r"http://\S+/resources", (tmp_path / "said").read_text())
            assert resources
            async with DualResponseClient(resources[0]) as application:
                result = await model.call_tool("execute_query", {"query": "SELECT * FROM sales"})
                assert (await application.parse(result, strict=True).to_arrow()).num_rows == 1_000
    text = (tmp_path / "said").read_text()
    assert f'"args": ["serve", "{sales}", "--stdio"]' in text, "a host starts it from any folder"
    assert "claude mcp add --transport stdio dualsql -- " in text
    assert "DUALSQL_DATABASE_URL" not in text
    assert not copies_in(tmp_path), "the copy is deleted"
    assert text.endswith("The server stops when the host closes it.\n"), "no leaks of DuckDB's binding"


def options_for(*files: Path, **options: Any) -> ServeOptions:
    return ServeOptions(files=list(files), **options)


async def read_by(options: ServeOptions) -> tuple[list[str], list[str]]:
    """What is shown while the files are read, and after it."""
    shown: list[str] = []
    with with_database(options, shown.append) as (_, files):
        await files.load(shown.append, None)
        return shown, list(files.summary())


async def test_a_second_start_reuses_what_the_first_has_read(
    tmp_path: Path, sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("dualsql.cli.files.CACHED_FROM", 0)
    unchanged, read = "The files are unchanged", ["Reading 0 MB of files."]
    first, summary = await read_by(options_for(sales))
    assert first == read and "sales (sales.csv): 1,000 rows, id BIGINT, city VARCHAR" in " ".join(summary)
    second, same = await read_by(options_for(sales))
    assert unchanged in second[0] and same == summary
    assert (await read_by(options_for(sales, no_file_cache=True)))[0] == read
    assert (await read_by(options_for(sales, encoding="cp1250")))[0] == read
    await asyncio.to_thread(sales.write_text, "id\n1\n")
    changed, summary = await read_by(options_for(sales))
    assert changed == read and "1 row," in " ".join(summary)
    kept = tmp_path / "cache" / "dualsql" / "files"
    assert kept.stat().st_mode & 0o77 == 0, "only the user reads it"
    assert not list(kept.glob("dualsql-*")), "the copy that was served is deleted"
    for entry in kept.iterdir():
        os.utime(entry, (0, 0))
    killed = kept / "dualsql-killed"
    killed.mkdir()
    (killed / "lock").touch()
    with private_folder(kept) as served:
        for folder in (served, killed):
            os.utime(folder, (0, 0))
        await read_by(options_for(sales, encoding="cp1251"))
        assert served.exists() and not killed.exists(), "not of a server that runs"
    assert len(list(kept.iterdir())) == 2, "what is old is removed"


async def test_large_files_are_announced_at_once(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await read_by(options_for(sales)))[0] == []
    monkeypatch.setattr("dualsql.cli.files.CACHED_FROM", 0)
    assert (await read_by(options_for(sales)))[0] == ["Reading 0 MB of files."]


@pytest.mark.parametrize("name", ["shop.duckdb", "shop.sqlite"])
async def test_a_database_file_is_served_where_it_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    connect: Any = duckdb.connect if name.endswith("duckdb") else sqlite3.connect
    connection = connect(str(path))
    connection.execute("CREATE TABLE t (id INTEGER)")
    connection.execute("INSERT INTO t VALUES (7)")
    connection.commit()
    connection.close()
    with with_database(options_for(path), lambda _: None) as (options, files):
        await files.load(lambda _: None, None)
        assert options.everything and options.database.endswith(str(path))
        built = await build_server(options.database, selection_of(options), base_url="http://127.0.0.1:1/r")
        async with built.server as server:
            response = await server.create_response(select(built.reflected.metadata.tables["t"]), name="t")
            assert list(response.sample) == [{"id": 7}]
    assert path.exists()


async def test_requests_are_told_how_far_the_files_are_read() -> None:
    transport = httpx.ASGITransport(Starting(lambda: "The server is loading its files: 42% are read."))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answer = await http.get("/resources/x")
    assert (answer.status_code, answer.json()["code"]) == (503, "SERVER_UNAVAILABLE")
    assert "42% are read" in answer.json()["message"]


@pytest.mark.long
def test_the_share_that_is_read_grows_to_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("n\n" + "1\n" * 300_000)
    loader = FileLoader(find_files([tmp_path]).paths, tmp_path / "files.duckdb")
    assert loader.share() == 0
    shares = []
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(loader.run)
        while not running.done():
            shares.append(loader.share())
        running.result()
    assert loader.share() == 1
    assert len({round(share, 1) for share in shares}) > 2


def cpu_seconds(process: int) -> float:
    """Of a process and its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
def test_a_large_file_takes_little_more_than_duckdb_itself(tmp_path: Path) -> None:
    """The least CPU of three times each. Choosing the types takes 0.1 s, whatever the size."""
    lines = "".join(
        f"{n},City {n % 97},{n % 1000}.{n % 100:02},2024-01-{n % 28 + 1:02},2024-01-01T10:00:{n % 60:02},{n % 9}th\n"
        for n in range(1_000_000)
    )
    path = tmp_path / "large.csv"
    path.write_text(f"id,city,price,day,at,note\n{lines}")

    def by_duckdb(database: Path) -> None:
        with duckdb.connect(str(database), config={"memory_limit": "25%"}) as connection:
            connection.execute("CREATE TABLE large AS FROM read_csv(?)", [str(path)])

    def by_us(database: Path) -> None:
        FileLoader([path], database).run()

    def cpu(load: Callable[[Path], None], number: int) -> float:
        before = process_time()
        load(tmp_path / f"{load.__name__}{number}.duckdb")
        return process_time() - before

    least = [min(cpu(load, number) for number in range(3)) for load in (by_duckdb, by_us)]
    assert least[1] < 1.5 * least[0] + 0.15


@pytest.mark.long
async def test_a_folder_of_dirty_files_is_served_in_three_seconds(tmp_path: Path) -> None:
    """Counted in CPU, so that it holds on a busy machine; and the rows are in the order of the file."""
    write_dirty_files(tmp_path, without=LARGE)
    async with serving_process(str(tmp_path)) as served:
        assert on_a_quiet_core(cpu_seconds(served.process.pid)) < 3
        assert "cp1252 (cp1252.csv): 2 rows, id BIGINT, city VARCHAR. Note: read as cp1252" in served.said
        assert "Not read: long_row.csv: " in served.said and "quote fields with delimiters" in served.said
        async with Client(f"{served.origin}/mcp") as model:
            query = "SELECT city FROM cp1252"
            answer = await model.call_tool("execute_query", {"query": query})
            assert [row["city"] for row in answer.structured_content["results"]] == ["Zürich", "Genève"]
        await served.stop()


@pytest.mark.long
async def test_the_port_answers_while_large_files_are_read(tmp_path: Path) -> None:
    lines = "".join(f"{n},note {n % 97},{n % 1000}.5\n" for n in range(1_000_000)) * 8
    await asyncio.to_thread((tmp_path / "large.csv").write_text, f"id,note,price\n{lines}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "serve", str(tmp_path / "large.csv"), "--port", str(port), "--no-file-cache",
        env=environment(), stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    messages: list[str] = []
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:

            async def status() -> int:
                with suppress(httpx.ConnectError):  # before it listens
                    answer = await http.get("/resources/none")
                    messages.append(answer.json()["message"])
                    return answer.status_code
                return 0

            await until(status, lambda code: code == 404)
    finally:
        process.kill()
        await process.wait()
    shares = [
        int(found[1]) for message in messages if (found := re.search(r"loading its files: (\d+)%", message))
    ]
    assert shares == sorted(shares) and len(set(shares)) > 3
