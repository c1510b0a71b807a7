"""Arrow and Parquet of DuckDB's files are its own batches: rows in their order, streamed, and stopped when asked."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Time,
    select,
)

from dualsql import DualResponse, DualResponseServer, LocalResultStorage, PageRequest, StreamRequest
from dualsql.databases.duckdb import DuckDBGuard
from dualsql.databases.duckdb.streams import _driver_error
from dualsql.databases.guard import FailureKind
from dualsql.databases.source import Source
from dualsql.errors import DualResponseError
from dualsql.formats.writer import WriterOptions
from dualsql.kept.service import ResultKeeper
from dualsql.log import REQUEST, RequestRecord
from tests.servers import create_server
from tests.waiting import until

ROWS = 130_000
"""Several groups of rows of DuckDB, which it reads in several threads."""

metadata = MetaData()
numbers = Table(
    "numbers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("n", BigInteger),
    Column("s", String),
    Column("d", Numeric(12, 2)),
)


async def batches(
    dual: DualResponseServer, response: DualResponse, lane: str = "arrow_reader", **options: Any
) -> pa.Table:
    """The rows of an Arrow stream that was read in this lane."""
    record = RequestRecord(id="test")
    token = REQUEST.set(record)
    try:
        stream = await dual.stream(response.resource_id, None, StreamRequest(format="arrow", **options))
        data = b"".join([chunk.data async for chunk in stream.chunks])
    finally:
        REQUEST.reset(token)
    assert record.lane == lane
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of many rows, whose ids go down as the rows were inserted."""
    actual = tmp_path_factory.mktemp("numbers")
    with closing(sqlite3.connect(actual / "data.db")) as connection, connection:
        connection.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, n INTEGER, s VARCHAR, d NUMERIC)")
        connection.executemany(
            "INSERT INTO numbers VALUES (?, ?, ?, ?)",
            ((ROWS - n, n * 7919 % ROWS, f"text {n}", f"{n}.25") for n in range(ROWS)),
        )
    return actual


@asynccontextmanager
async def server(url: str, storage: Path, **options: Any) -> AsyncIterator[DualResponseServer]:
    options = {"tables": metadata, "query_timeout": timedelta(minutes=2), **options}
    async with create_server(
        url, base_url="http://127.0.0.1/resources", storage=LocalResultStorage(storage), **options
    ) as dual:
        yield dual


@pytest.mark.long
async def test_every_row_once_in_the_order_of_the_run(folder: Path) -> None:
    async with server(f"sqlite:///{folder / 'data.db'}", folder / "kept") as dual:
        # SQLite's order of `n` is no order of the ids.
        response = await dual.create_response(select(numbers).order_by(numbers.c.n), name="n", keep=True)
        rows = await batches(dual, response)
        assert numbered(rows, range(ROWS))
        assert rows.schema.field("d").type == pa.decimal128(12, 2)
        assert numbered(
            await batches(dual, response, sort=({"field": "n", "order": "desc"},)), range(ROWS)[::-1]
        )
        some = await batches(dual, response, limit=5_000, columns=("s", "n"))
        assert numbered(some, range(5_000)) and some.column_names == ["s", "n"]
        page = await dual.read_page(response.resource_id, None, PageRequest(limit=3, offset=1_000))
        assert numbered(await batches(dual, response, cursor=page.next_cursor), range(1_003, ROWS))
        # A column that is wanted as text is made by Python, the others are DuckDB's.
        texts = await batches(dual, response, limit=2, options=WriterOptions(text_columns=("n",)))
        assert texts["n"].to_pylist() == ["0", "1"]
        await stopped_early(dual, response)


def numbered(table: pa.Table, expected: range) -> bool:
    return bool(table["n"].equals(pa.chunked_array([pa.array(expected)])))


async def stopped_early(dual: DualResponseServer, response: DualResponse) -> None:
    """A reader that is slow holds few rows, and one that leaves ends the query and gives its connection back."""
    (file,) = dual.features.get(ResultKeeper)._open.values()
    before = pa.total_allocated_bytes()
    for _ in range(20):
        stream = await dual.stream(response.resource_id, None, StreamRequest(format="arrow"))
        async with aclosing(stream.chunks) as chunks:
            async for chunk in chunks:
                if chunk.rows:
                    break
    await until(partial(is_idle, file.source))
    assert pa.total_allocated_bytes() - before < 8 * 1024 * 1024
    assert (await batches(dual, response, limit=1)).num_rows == 1


KINDS: dict[str, Any] = {
    "small": Integer, "big": BigInteger, "f": Double, "b": Boolean, "t": String, "day": Date, "at": DateTime,
    "clock": Time, "raw": LargeBinary, "d": Numeric(12, 2), "wide": Numeric(38, 10),
}  # fmt: skip
types_ = Table(
    "types",
    MetaData(),
    Column("id", Integer, primary_key=True),
    *(Column(name, type_) for name, type_ in KINDS.items()),
)
VALUES = """
    n, n % 200 - 100, 9223372036854775807 - n, n / 7, n % 2 = 0, 'text ' || n, DATE '0001-01-01' + n::INTEGER,
    TIMESTAMP '9999-12-31 23:59:59.999999' - INTERVAL 1 SECOND * n, TIME '23:59:59.999999', 'a'::BLOB,
    n / 100, 0.0000000001 * n
"""


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """A DuckDB database with a table of plain types: 5,000 rows, and one of NULLs."""
    path = tmp_path / "types.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """CREATE TABLE types (id INTEGER PRIMARY KEY, small TINYINT, big BIGINT, f DOUBLE, b BOOLEAN, t VARCHAR,
                day DATE, "at" TIMESTAMP, clock TIME, raw BLOB, d DECIMAL(12, 2), wide DECIMAL(38, 10))"""
        )
        connection.execute(f"INSERT INTO types SELECT {VALUES} FROM range(5000) r(n)")
        connection.execute("INSERT INTO types (id) VALUES (5000)")
    return path


async def test_a_database_of_duckdb_gives_the_values_that_its_driver_gives(
    typed: Path, tmp_path: Path
) -> None:
    with duckdb.connect(str(typed), read_only=True) as connection:
        rows = connection.execute("SELECT * FROM types ORDER BY id").fetchall()
    async with server(f"duckdb:///{typed}", tmp_path / "kept", tables=types_.metadata) as dual:
        response = await dual.create_response(select(types_).order_by(types_.c.id), name="types")
        actual = await batches(dual, response)
        assert [tuple(row.values()) for row in actual.to_pylist()] == rows
        computed = select(types_.c.id, (types_.c.wide * 1).label("n")).order_by(types_.c.id)
        exact = await batches(dual, await dual.create_response(computed, name="computed"))
        # Arrow alone would write 1E-10.
        assert exact["n"].to_pylist()[1] == "0.0000000001"


def test_a_failure_in_the_middle_is_that_of_the_driver() -> None:
    def failed(rows: str) -> Exception:
        """The error of a reader after its first batch."""
        reader = connection.sql(f"SELECT * FROM range(5000) r(n) UNION ALL {rows}").to_arrow_reader(2_048)
        with pytest.raises(OSError, match="Error") as error:  # noqa: PT012
            for batch in reader:
                assert batch.num_rows
                if "DISTINCT" in rows:
                    connection.interrupt()
        reader.close()
        return _driver_error(error.value)

    with duckdb.connect() as connection:
        assert type(failed("SELECT ('x' || n)::INTEGER FROM range(5000) r(n)")) is duckdb.ConversionException
        stopped = failed("SELECT DISTINCT a.n FROM range(3000) a(n), range(3000) b(n)")
        assert type(stopped) is duckdb.InterruptException
        assert DuckDBGuard().failure_kind(stopped) is FailureKind.TIMEOUT
        assert type(_driver_error(OSError("nothing known"))) is duckdb.Error


async def test_what_python_has_no_value_for_is_refused(typed: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(typed)) as connection:
        connection.execute("UPDATE types SET \"at\" = 'infinity', clock = '24:00:00' WHERE id = 4000")
    async with server(f"duckdb:///{typed}", tmp_path / "kept", tables=types_.metadata) as dual:
        for name in ("at", "clock"):
            far = select(types_.c.id, types_.c[name]).order_by(types_.c.id)
            assert str(await ending(dual, far, "arrow")).startswith(
                f"The column '{name}' holds a value that is not"
            )


async def ending(dual: DualResponseServer, statement: Any, format_name: str) -> str | None:
    """What ended a stream of a result."""
    response = await dual.create_response(statement, name="ends")
    stream = await dual.stream(response.resource_id, None, StreamRequest(format=format_name))
    with suppress(DualResponseError):
        async for _ in stream.chunks:
            pass
    return None if stream.ending.error is None else stream.ending.error.message


async def test_a_query_that_computes_is_stopped_at_the_limit(typed: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(typed)) as connection:
        connection.execute(
            "INSERT INTO types (id, small, big) SELECT id + 6000 * n, small, big - n FROM types, range(1, 60) r(n)"
        )
    limits = {"maximum_stream_duration": timedelta(milliseconds=20)}
    async with server(f"duckdb:///{typed}", tmp_path / "kept", tables=types_.metadata, **limits) as dual:
        sorted_ = select(types_).order_by(types_.c.small, types_.c.big.desc())
        assert (
            await ending(dual, sorted_, "arrow")
            == "The stream reached this server's limit of seconds in one stream."
        )
        (source,) = dual.parts.sources.values()
        await until(partial(is_idle, source))


async def is_idle(source: Source) -> bool:
    pool: Any = source.engine.pool
    return bool(pool.checkedout() == 0)
