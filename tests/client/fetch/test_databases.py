"""Rows as a DuckDB or SQLite file: is every value that of the stream, and is there a file only when it is whole?"""

from __future__ import annotations

import datetime as dt
import math
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

from dualsql_client import FetchError
from dualsql_client.arrow_ipc import ArrowFramer
from dualsql_client.database_files import distinct_names, table_name, write_database
from dualsql_client.formats import DatabaseFormat
from dualsql_client.framing import Block
from tests.columns.kinds import table as kinds
from tests.columns.kinds.results import served
from tests.columns.kinds.test_table import filled

pytestmark = pytest.mark.quick(50, "sqlite")

DATABASES: list[DatabaseFormat] = ["duckdb", "sqlite"]


async def stream(
    table: pa.Table, *, rows: int = 1_000, end: bytes | None = None
) -> AsyncGenerator[Block, None]:
    """The blocks of the table's Arrow stream, without its end; `end` follows."""
    framer, sink = ArrowFramer(2**30), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    data = sink.getvalue().to_pybytes()[:-8]
    for start in range(0, len(data), 65_536):
        for block in framer.feed(data[start : start + 65_536]):
            yield block
    if end is not None:
        for block in framer.feed(end):
            yield block
        raise FetchError("The stream ended too early.")


def read(path: Path, database: DatabaseFormat) -> dict[str, tuple[dict[str, str], list[tuple[Any, ...]]]]:
    """Type by name, and rows, of each table."""
    if database == "duckdb":
        with duckdb.connect(str(path), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
            found = {}
            for name in names:
                described = connection.execute(f'DESCRIBE "{name}"').fetchall()
                found[name] = (
                    {column[0]: column[1] for column in described},
                    connection.execute(f'FROM "{name}"').fetchall(),
                )
            return found
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        return {
            name: (
                {column[1]: column[2] for column in connection.execute(f'PRAGMA table_info("{name}")')},
                connection.execute(f'SELECT * FROM "{name}"').fetchall(),
            )
            for name in names
        }


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def said(encoding: str) -> dict[str, str]:
    return {"dualsql.encoding": encoding}


NAN, ZONE = float("nan"), dt.UTC
INSTANT = dt.datetime.fromisoformat("2024-02-29T12:30:00.500000")
CASES: list[tuple[pa.Field, list[Any], str, list[Any] | None, str, list[Any]]] = [
    # field, values, DuckDB's type, its values if they are others, SQLite's type, its values
    (pa.field("int", pa.int64()), [2**63 - 1, -(2**63), None], "BIGINT", None, "INTEGER", [2**63 - 1, -(2**63), None]),
    (
        pa.field("money", pa.decimal128(38, 10)),
        [Decimal("9" * 28 + ".0000000001"), Decimal("1E-10"), None],
        "DECIMAL(38,10)", None, "TEXT", ["9" * 28 + ".0000000001", "0.0000000001", None],
    ),
    (
        pa.field("digits", pa.string(), metadata=said("decimal")),
        ["1" * 60 + ".50", "NaN", None],
        "VARCHAR", None, "TEXT", ["1" * 60 + ".50", "NaN", None],
    ),
    (pa.field("bool", pa.bool_()), [True, False, None], "BOOLEAN", None, "BOOLEAN", [1, 0, None]),
    (
        pa.field("text", pa.string()),
        ["'; DROP TABLE rows; --\"\r\n\0é", "", None],
        "VARCHAR", None, "TEXT", ["'; DROP TABLE rows; --\"\r\n\0é", "", None],
    ),
    (
        pa.field("number", pa.string()), ["007", "1e5", None],
        "VARCHAR", None, "TEXT", ["007", "1e5", None],
    ),
    (
        pa.field("float", pa.float64()), [0.1, math.inf, NAN],
        "DOUBLE", None, "REAL", [0.1, math.inf, "NaN"],
    ),
    (
        pa.field("day", pa.date32()), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
        "DATE", None, "DATE", ["0001-01-01", "9999-12-31", None],
    ),
    (
        pa.field("time", pa.time64("us")), [dt.time(12, 30, 0, 1), dt.time(23, 59, 59, 999_999), None],
        "TIME", None, "TIME", ["12:30:00.000001", "23:59:59.999999", None],
    ),
    (
        pa.field("moment", pa.timestamp("us")), [INSTANT, dt.datetime.fromisoformat("0001-01-01"), None],
        "TIMESTAMP", None, "DATETIME", ["2024-02-29 12:30:00.500000", "0001-01-01 00:00:00.000000", None],
    ),
    (
        pa.field("instant", pa.timestamp("us", tz="UTC")), [INSTANT.replace(tzinfo=ZONE), None, None],
        "TIMESTAMP WITH TIME ZONE", None, "DATETIME", ["2024-02-29 12:30:00.500000+00:00", None, None],
    ),
    (
        pa.field("span", pa.duration("us")), [dt.timedelta(days=1, microseconds=1), dt.timedelta(-3), None],
        "INTERVAL", None, "INTEGER", [86_400_000_001, -259_200_000_000, None],
    ),
    (pa.field("bytes", pa.binary()), [b"\0\xff", b"", None], "BLOB", None, "BLOB", [b"\0\xff", b"", None]),
    (
        pa.field("doc", pa.string(), metadata=said("json")),
        ['{"a":[1,0.12345678901234567890]}', "12345678901234567890123", None],
        "JSON", None, "TEXT", ['{"a":[1,0.12345678901234567890]}', "12345678901234567890123", None],
    ),
    (
        pa.field("uuid", pa.string(), metadata=said("uuid")),
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None, None],
        "UUID", [UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), None, None],
        "TEXT", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None, None],
    ),
    (
        pa.field("ints", pa.list_(pa.int64())), [[2**63 - 1, None], [], None],
        "BIGINT[]", None, "TEXT", ["[9223372036854775807,null]", "[]", None],
    ),
    (
        pa.field("floats", pa.list_(pa.float64())), [[1.5, math.inf], [-math.inf], None],
        "DOUBLE[]", None, "TEXT", ['[1.5,"Infinity"]', '["-Infinity"]', None],
    ),
    (
        pa.field("days", pa.list_(pa.date32())), [[dt.date(2024, 2, 29)], None, None],
        "DATE[]", None, "TEXT", ['["2024-02-29"]', None, None],
    ),
    (
        pa.field("texts", pa.list_(pa.string())), [['a"', ""], None, None],
        "VARCHAR[]", None, "TEXT", ['["a\\"",""]', None, None],
    ),
]  # fmt: skip


def everything() -> pa.Table:
    arrays = [pa.array(values, field.type) for field, values, *_ in CASES]
    return pa.Table.from_arrays(arrays, schema=pa.schema([field for field, *_ in CASES]))


def _exact(value: Any) -> str:
    return repr(value.isoformat() if isinstance(value, dt.datetime) else value)


@pytest.mark.parametrize("database", DATABASES)
async def test_every_arrow_type(tmp_path: Path, database: DatabaseFormat) -> None:
    path = tmp_path / f"rows.{database}"
    await write_database(stream(everything()), path, database, "Schools in New York")
    ((name, (types, rows)),) = read(path, database).items()
    assert name == "schools_in_new_york"
    at = 0 if database == "duckdb" else 2
    assert types == {case[0].name: case[2 + at] for case in CASES}
    for position, case in enumerate(CASES):
        wanted, seen = case[3 + at] or case[1], [row[position] for row in rows]
        assert list(map(_exact, seen)) == list(map(_exact, wanted)), case[0]
    assert names_in(tmp_path) == [path.name], "nothing else is left"


@pytest.mark.quick(1, "sqlite")
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
@pytest.mark.parametrize("engine", kinds.KINDS)
async def test_each_type_of_each_database(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """What docs/types.md lists, of the server itself: the files hold what the Arrow stream of the rows holds."""
    url, declared = await filled(engine, tmp_path, request), kinds.declared(kinds.KINDS[engine])
    async with served(url, declared.metadata) as server:
        result = await server.result(declared.select())
        unfit = [
            str(column["name"])
            for column in result.columns
            if (await server.rows(result, "arrow", columns=[column["name"]])).status_code != 200
        ]
        options: dict[str, Any] = {"text_columns": unfit} if unfit else {}
        arrow = (await result.to_arrow(**options)).to_pydict()
        for database in DATABASES:
            path = await result.save(tmp_path / f"saved.{database}", **options)
            ((types, (row,)),) = read(path, database).values()
            assert list(types) == list(arrow)
            for name, value in zip(arrow, row, strict=True):
                assert _plain(value) == _plain(arrow[name][0]) or database == "sqlite", (name, value)
                assert (value is None) == (arrow[name][0] is None), name


def _plain(value: Any) -> str:
    return str(value.astimezone(ZONE) if isinstance(value, dt.datetime) and value.tzinfo else value)


@pytest.mark.parametrize("database", DATABASES)
async def test_hostile_names(tmp_path: Path, database: DatabaseFormat) -> None:
    names = ['a"; DROP TABLE rows; --', "A", "a", "", "\0", "rowid", "select", "?", "x" * 1_000, "ß", "SS"]
    table = pa.Table.from_arrays([pa.array([number]) for number in range(len(names))], names=names)
    for number, name in enumerate(['"; DROP TABLE "', "sqlite_master", "", "select", "../../etc", "日本"]):
        path = tmp_path / f"{number}.{database}"
        await write_database(stream(table), path, database, name)
        ((found, (types, rows)),) = read(path, database).items()
        assert found == table_name(name)
        assert rows == [tuple(range(len(names)))]
        assert list(types) == distinct_names(names)


def test_names() -> None:
    assert distinct_names(["a", "A", "a_2", "", ""]) == ["a", "A_2", "a_2_2", "column", "column_2"]
    assert [table_name(name) for name in ("", "sqlite_x", "A  b-C", "../x")] == [
        "rows",
        "rows_sqlite_x",
        "a_b_c",
        "x",
    ]


@pytest.mark.parametrize("database", DATABASES)
async def test_an_existing_file_is_refused(tmp_path: Path, database: DatabaseFormat) -> None:
    path = tmp_path / f"rows.{database}"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="may have other tables"):
        await write_database(stream(everything()), path, database, "Rows")
    link = tmp_path / f"link.{database}"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        await write_database(stream(everything()), link, database, "Rows")
    assert path.read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("database", DATABASES)
async def test_a_stream_without_its_end_leaves_no_file(tmp_path: Path, database: DatabaseFormat) -> None:
    many = pa.table({"id": range(120_000)})
    with pytest.raises(FetchError, match="too early"):
        await write_database(stream(many, end=b""), tmp_path / f"rows.{database}", database, "Rows")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("database", DATABASES)
async def test_values_that_contradict_their_column_are_refused(
    tmp_path: Path, database: DatabaseFormat
) -> None:
    """Of a hostile server: JSON that is none, a number beyond 64 bits, a text that is none."""
    beyond = pa.array([2**64 - 1], pa.uint64())
    no_uuid = pa.field("u", pa.string(), metadata=said("uuid"))
    torn = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    hostile = [
        pa.table({"n": beyond})
        if database == "sqlite"
        else pa.table({"u": ["no"]}, schema=pa.schema([no_uuid])),
        pa.table({"t": torn}),
    ]
    for table in hostile:
        with pytest.raises((FetchError, OSError)):
            await write_database(stream(table), tmp_path / f"rows.{database}", database, "Rows")
        assert names_in(tmp_path) == []


MEMORY = """
import asyncio, resource, sys
from pathlib import Path
import pyarrow as pa
from dualsql_client.database_files import write_database
from dualsql_client.framing import Block

async def blocks(batches):
    text = pa.array(["x" * 200 + str(n) for n in range(10_000)])
    batch = pa.record_batch({"id": pa.array(range(10_000)), "text": text})
    yield Block(batch.schema.serialize().to_pybytes(), 0)
    data = batch.serialize().to_pybytes()
    for _ in range(batches):
        yield Block(data, batch.num_rows)

path = Path(sys.argv[1])
asyncio.run(write_database(blocks(int(sys.argv[2])), path, path.suffix[1:], "Rows"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.long
@pytest.mark.parametrize("database", DATABASES)
def test_a_million_rows_take_bounded_memory(tmp_path: Path, database: DatabaseFormat) -> None:
    """250 MB of texts: 100 batches of 10,000 rows, beside 10 of them."""
    most = []
    for batches in (10, 100):
        path = tmp_path / f"{batches}.{database}"
        command = [sys.executable, "-c", MEMORY, str(path), str(batches)]
        most.append(int(subprocess.run(command, check=True, capture_output=True).stdout))
        ((_, rows),) = read_counts(path, database)
        assert rows == batches * 10_000
    assert most[1] < most[0] + (256 if database == "duckdb" else 30), most


def read_counts(path: Path, database: DatabaseFormat) -> Iterator[tuple[str, int]]:
    connection: Any = duckdb.connect(str(path)) if database == "duckdb" else sqlite3.connect(path)
    with closing(connection):
        yield "rows", connection.execute("SELECT count(*) FROM rows").fetchone()[0]


@pytest.mark.parametrize("missing", ["duckdb", "pyarrow"])
def test_what_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    program = (
        f"import sys, asyncio; sys.modules[{missing!r}] = None\n"
        "from pathlib import Path\n"
        "from dualsql_client.database_files import write_database\n"
        "async def none():\n"
        "    return\n"
        "    yield\n"
        f"asyncio.run(write_database(none(), Path({str(tmp_path / 'x.duckdb')!r}), 'duckdb', 'x'))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"This needs {missing}, which is not installed" in ran.stderr
    assert 'pip install "dualsql-client[duckdb]"' in ran.stderr


@pytest.mark.parametrize("database", DATABASES)
async def test_more_columns_than_a_table_can_have(tmp_path: Path, database: DatabaseFormat) -> None:
    table = pa.table({f"column {number}": pa.array([1]) for number in range(20_000)})
    with pytest.raises(FetchError, match="table of these 20,000 columns") as error:
        await write_database(stream(table), tmp_path / "rows.db", database, "rows")
    assert error.value.__cause__ is not None
    assert names_in(tmp_path) == []
