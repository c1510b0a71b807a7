"""Writes the batches of an Arrow stream to a table of a new DuckDB or SQLite file."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from errno import EEXIST, EIO, ENOENT
from functools import partial
from math import isfinite, isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, cast

from dualsql_client.errors import FetchError, import_extra
from dualsql_client.formats import DATABASES, DatabaseFormat, FileFormat
from dualsql_client.framing import Block
from dualsql_client.streaming import read_batches

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 50_000
_BATCH_BYTES = 16 * 1024 * 1024
"""Rows, or bytes in Arrow's layout, that are collected before they are inserted."""


def database_of(path: Path, name: FileFormat | None) -> DatabaseFormat | None:
    """The database of a format's name, or else of the suffix; None for a format of streams."""
    if name is None:
        return next(
            (database for database, suffixes in DATABASES.items() if path.suffix.lower() in suffixes), None
        )
    return cast("DatabaseFormat", name) if name in DATABASES else None


async def write_database(
    blocks: AsyncGenerator[Block, None], path: Path, database: DatabaseFormat, name: str
) -> None:
    """Write all rows to the only table of a new database. The file gets its name when it is complete and on the disk.

    Args:
        blocks: of an Arrow stream.
        name: of the result; the table is named after it.

    Raises:
        FileExistsError: the file exists. It may have other tables, so it is not replaced.
        OSError: the file cannot be written.
        FetchError: the stream is no Arrow stream.
        MissingExtraError: pyarrow or duckdb is not installed.
    """
    async with aclosing(blocks):
        import_extra("pyarrow", "duckdb" if database == "duckdb" else "arrow")
        if database == "duckdb":
            import_extra("duckdb", "duckdb")
        if not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, "There is no such folder", str(path.parent))
        _refuse_existing(path)
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            part = Path(folder) / path.name
            table = _DuckDBTable if database == "duckdb" else _SQLiteTable
            await _fill(blocks, partial(table, part, table_name(name)), path)
            await asyncio.to_thread(_flush, part)
            _refuse_existing(path)
            part.replace(path)


def table_name(name: str) -> str:
    """The name of the table for a result: its letters and digits, in lower case, with underscores between them."""
    table = re.sub(r"\W+", "_", name.lower()).strip("_")[:63]
    # SQLite reserves names that begin with sqlite_.
    return f"rows_{table}" if table.startswith("sqlite_") else table or "rows"


def distinct_names(names: Iterable[str]) -> list[str]:
    """The names, numbered where one equals an earlier one in a database, which ignores case."""
    unique: dict[str, str] = {}
    for name in names:
        first = column = name.replace("\0", "") or "column"
        number = 1
        while column.casefold() in unique:
            number += 1
            column = f"{first}_{number}"
        unique[column.casefold()] = column
    return list(unique.values())


class _DatabaseTable(Protocol):
    def create(self, schema: pa.Schema) -> None: ...

    def insert(self, rows: pa.Table) -> None: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


async def _fill(
    blocks: AsyncGenerator[Block, None], new_table: Callable[[], _DatabaseTable], path: Path
) -> None:
    """Create the table with all rows of the stream, in one transaction and one thread."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "dualsql-file") as thread:

        async def run(work: Callable[..., Any], *arguments: Any) -> Any:
            return await loop.run_in_executor(thread, partial(_write, path, work, *arguments))

        table: _DatabaseTable = await run(new_table)
        try:
            async for schema, rows in _tables(blocks):
                if rows is not None:
                    await run(table.insert, rows)
                    continue
                try:
                    await run(table.create, schema)
                except OSError as error:  # no row is written yet, so the columns are the cause
                    raise FetchError(
                        f"The database cannot have a table of these {len(schema.names):,} columns: {error.strerror}",
                        status=200,
                        hint="Ask for fewer columns with columns=, or save the rows as Parquet.",
                        details={"columns": len(schema.names)},
                    ) from error
            await run(table.commit)
        finally:
            # The statement of a cancelled caller may still run.
            thread.submit(table.close).result()


async def _tables(blocks: AsyncGenerator[Block, None]) -> AsyncGenerator[tuple[Any, Any], None]:
    """The schema with None, then the schema with each table of about `_BATCH_ROWS` rows."""
    import pyarrow as pa

    schema, batches = None, list[Any]()
    async for schema, batch in read_batches(blocks):
        if batch is None:
            yield schema, None
            continue
        batches.append(batch)
        if sum(each.num_rows for each in batches) >= _BATCH_ROWS or (
            sum(each.nbytes for each in batches) >= _BATCH_BYTES
        ):
            yield schema, pa.Table.from_batches(batches, schema)
            batches.clear()
    if batches:
        yield schema, pa.Table.from_batches(batches, schema)


_DRIVERS = frozenset({"sqlite3", "duckdb", "_duckdb"})


def _write(path: Path, work: Callable[..., Any], *arguments: Any) -> Any:
    from pyarrow import ArrowException

    try:
        return work(*arguments)
    except (ArrowException, OverflowError, ValueError) as error:
        raise FetchError("The stream has values that the database cannot hold.", status=200) from error
    except Exception as error:
        # DuckDB is imported only where it is needed.
        if type(error).__module__.partition(".")[0] not in _DRIVERS:
            raise
        raise OSError(EIO, f"The rows cannot be written: {str(error)[:300]}", str(path)) from error


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(EEXIST, "It exists, and may have other tables: name a new file", str(path))


def _flush(path: Path) -> None:
    # Windows flushes only files that are open for writing.
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _encoding(field: pa.Field) -> str:
    encoding: bytes = (field.metadata or {}).get(b"dualsql.encoding", b"")
    return encoding.decode("utf-8", "replace")


def hide_progress_bar(connection: Any) -> None:
    """Let DuckDB draw no bar, as it does on the standard output of a program without a file (`python -c`).

    In Jupyter without ipywidgets it draws none either, and refuses any change of the setting.
    """
    [is_shown] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    if is_shown:
        connection.execute("SET enable_progress_bar = false")


class _DuckDBTable:
    """A table with DuckDB's own types for Arrow's, and with JSON and UUID by the encoding of the column."""

    def __init__(self, path: Path, name: str) -> None:
        import duckdb

        config: dict[str, Any] = {"memory_limit": "256MB", "temp_directory": str(path.parent), "threads": 2}
        # Extensions must not be downloaded.
        config |= {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        self._connection = duckdb.connect(str(path), config=config)
        hide_progress_bar(self._connection)
        self._name = _quote(name)
        self._cells = ""

    def create(self, schema: pa.Schema) -> None:
        names = distinct_names(schema.names)
        casts = {"json": "::JSON", "uuid": "::UUID"}
        self._cells = ", ".join(
            f"c{position}{casts.get(_encoding(field), '')} AS {_quote(name)}"
            for position, (name, field) in enumerate(zip(names, schema, strict=True))
        )
        self._connection.begin()
        self._execute(f"CREATE TABLE {self._name} AS SELECT {self._cells} FROM batch", schema.empty_table())  # noqa: S608 - quoted

    def insert(self, rows: pa.Table) -> None:
        self._execute(f"INSERT INTO {self._name} SELECT {self._cells} FROM batch", rows)  # noqa: S608 - quoted

    def _execute(self, statement: str, rows: pa.Table) -> None:
        self._connection.register("batch", rows.rename_columns([f"c{n}" for n in range(rows.num_columns)]))
        try:
            self._connection.execute(statement)
        finally:
            self._connection.unregister("batch")

    def commit(self) -> None:
        self._connection.commit()
        self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        self._connection.close()


class _SQLiteTable:
    """A table with values in SQLite's five storage classes, so that no digit changes."""

    def __init__(self, path: Path, name: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        # The temporary file needs no journal: it is flushed when it is complete.
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._name = _quote(name)

    def create(self, schema: pa.Schema) -> None:
        columns = ", ".join(
            f"{_quote(name)} {_sqlite_type(field.type)}"
            for name, field in zip(distinct_names(schema.names), schema, strict=True)
        )
        self._connection.execute("BEGIN")
        self._connection.execute(f"CREATE TABLE {self._name} ({columns})")

    def insert(self, rows: pa.Table) -> None:
        parameters = ", ".join("?" * rows.num_columns)
        values = zip(*map(_sqlite_values, rows.columns), strict=True)
        self._connection.executemany(f"INSERT INTO {self._name} VALUES ({parameters})", values)  # noqa: S608 - quoted

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()


def _sqlite_type(type_: pa.DataType) -> str:
    """The declared type of a column. Its affinity changes no value of `_sqlite_values`."""
    from pyarrow import types

    tests: Sequence[tuple[Callable[[Any], bool], str]] = (
        (types.is_boolean, "BOOLEAN"),
        (types.is_integer, "INTEGER"),
        (types.is_duration, "INTEGER"),
        (types.is_floating, "REAL"),
        (types.is_date, "DATE"),
        (types.is_time, "TIME"),
        (types.is_timestamp, "DATETIME"),
        (types.is_binary, "BLOB"),
        (types.is_large_binary, "BLOB"),
    )
    return next((name for test, name in tests if test(type_)), "TEXT")


def _sqlite_values(column: pa.ChunkedArray) -> list[Any]:
    import pyarrow as pa
    from pyarrow import types

    type_ = column.type
    if types.is_timestamp(type_):
        instants = column.cast(pa.timestamp(type_.unit)).cast(pa.string()).to_pylist()
        return instants if type_.tz is None else [text and f"{text}+00:00" for text in instants]
    if types.is_date(type_) or types.is_time(type_):
        return list(column.cast(pa.string()).to_pylist())
    if types.is_duration(type_):
        return list(column.cast(pa.duration("us")).cast(pa.int64()).to_pylist())
    if types.is_floating(type_):
        # SQLite would store NaN as NULL.
        return ["NaN" if value is not None and isnan(value) else value for value in column.to_pylist()]
    if types.is_decimal(type_):
        return [None if value is None else format(value, "f") for value in column.to_pylist()]
    if types.is_list(type_):
        return [None if value is None else _json(value) for value in column.to_pylist()]
    return list(column.to_pylist())


def _json(values: Iterable[Any]) -> str:
    return json.dumps(list(map(_plain, values)), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """An item of a list as a value of JSON; NaN and the infinities are texts."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
