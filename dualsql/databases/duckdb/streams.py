"""Reads rows of DuckDB: all of a statement at once, or as Arrow's batches, for formats that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from datetime import datetime, time
from functools import partial
from typing import Any, cast

from sqlalchemy import Dialect, types
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.result import ResultColumn
from dualsql.databases.driver import DriverStatement, WeighedCache, driver_of, memory_of, require_described
from dualsql.databases.fetch import Fetch
from dualsql.databases.streams import BATCH_BYTES, Put, StreamBackend, StreamJob, by_thread
from dualsql.formats.arrow import ArrowCast, ArrowSchema
from dualsql.formats.cells import processed
from dualsql.formats.writer import BatchWriter, Chunk, Rows

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_ARROW_TYPES: Mapping[str, tuple[type[types.TypeEngine[Any]], str]] = {
    **dict.fromkeys(_WHOLE, (types.Integer, "int64")),
    "FLOAT": (types.Float, "double"),
    "DOUBLE": (types.Float, "double"),
    "BOOLEAN": (types.Boolean, "bool"),
    "VARCHAR": (types.String, "string"),
    "DATE": (types.Date, "date32[day]"),
    "TIMESTAMP": (types.DateTime, "timestamp[us]"),
    "TIME": (types.Time, "time64[us]"),
    "BLOB": (types.LargeBinary, "binary"),
    "DECIMAL": (types.Numeric, "decimal128"),
}
"""DuckDB's types whose values Arrow and the driver read alike; the SQLAlchemy type whose columns are taken as they are,
and the beginning of the name of their Arrow type."""

_ARROW_ROWS = 2_048
"""Rows of a batch: DuckDB computes so many at a time."""

Taker = Callable[[Any], Any]
"""Makes what `ArrowSchema.batch_of_columns` takes of one of DuckDB's arrays."""


_PARSED: WeighedCache[tuple[Any, str], Any] = WeighedCache(100_000)
"""By the settings of the parser and their SQL: statements, whose parsing takes a fifth of a millisecond. Characters."""

_PARSING = "SELECT current_setting('integer_division'), current_setting('preserve_identifier_case')"
"""What the parser reads of the settings of its database."""


async def fetch_parsed(fetch: Fetch, connection: AsyncConnection) -> Rows:
    """All rows of a statement, which is parsed once for all connections."""
    threaded: Any = connection
    rows = await threaded.run(_rows, fetch, connection.dialect, driver_of(connection), memory_of(connection))
    return await fetch.rows_of_sqlalchemy(connection) if rows is None else cast("Rows", rows)


def _rows(fetch: Fetch, dialect: Dialect, driver: Any, memory: dict[Any, Any]) -> Rows | None:
    """In the connection's thread: all rows; None if their columns cannot be matched by position."""
    statement = fetch.statement_for(dialect)
    if statement is None:
        return None
    sql = statement.sql
    if _PARSING not in memory:
        memory[_PARSING] = driver.execute(_PARSING).fetchone()
    key = (memory[_PARSING], sql)
    parsed = _PARSED.get(key)
    if parsed is None:
        [parsed] = driver.extract_statements(sql)
        _PARSED.put(key, parsed, len(sql))
    result = driver.execute(parsed, statement.parameters or None)
    described = result.description
    require_described([name for name, *_ in described], statement.described)
    return processed(result.fetchall(), statement.processors([str(code) for _, code, *_ in described]))


async def choose_stream(
    job: StreamJob, connection: AsyncConnection, statement: DriverStatement
) -> StreamBackend:
    """Arrow's batches for formats that are made of them, if DuckDB gives the values of all columns exactly."""
    if not isinstance(job.writer, BatchWriter):
        return by_thread
    threaded: Any = connection
    threaded.is_used_up = True
    # Bound only; it runs when it is read. A result of `execute` would be gathered and copied first.
    relation = await threaded.run(
        driver_of(connection).sql, statement.sql, params=list(statement.parameters) or None
    )
    require_described(relation.columns, statement.described)
    kinds = [str(kind).partition("(")[0] for kind in relation.types]
    if not all(kind in _ARROW_TYPES for kind in kinds):
        return by_thread
    arrow = job.writer.arrow
    processors = dict(statement.processors())
    takers = [
        _taker(
            arrow, position, job.columns[index], (kinds[index], statement.types[index]), processors.get(index)
        )
        for position, index in enumerate(job.positions)
    ]
    return by_thread if None in takers else by_arrow_reader(relation, [taker for taker in takers if taker])


def by_arrow_reader(relation: Any, takers: list[Taker]) -> StreamBackend:
    """Stream `relation`, one of DuckDB, with one of `takers` for each column to write."""

    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        threaded: Any = connection
        chunks = _chunks(job, relation, takers)
        try:
            while (chunk := await threaded.run(next, chunks, None)) is not None:
                await put(chunk)
        finally:
            await threaded.run(chunks.close)

    return backend


def _chunks(job: StreamJob, relation: Any, takers: list[Taker]) -> Generator[Chunk, None, None]:
    """In the connection's thread: pieces of the batches. Few rows are in memory, however many there are."""
    import pyarrow as pa

    writer: Any = job.writer
    try:
        reader = relation.to_arrow_reader(_ARROW_ROWS)
        try:
            for batch in reader:
                pieces = batch.nbytes // BATCH_BYTES + 1
                rows = batch.num_rows // pieces + 1
                for start in range(0, batch.num_rows, rows):
                    piece = batch.slice(start, rows)
                    columns = [
                        take(piece.column(index)) for take, index in zip(takers, job.positions, strict=True)
                    ]
                    yield writer.batch(writer.arrow.batch_of_columns(columns))
        finally:
            reader.close()
    except (OSError, pa.ArrowException) as error:
        raise _driver_error(error) from error


def _driver_error(error: Exception) -> Exception:
    """The error of DuckDB that an error of Arrow stands for: its readers raise Arrow's, with DuckDB's message."""
    import duckdb

    kind, colon, _ = str(error).partition(" Error:")
    name = (
        "Interrupt" if kind == "INTERRUPT" else "".join(part[:1].upper() + part[1:] for part in kind.split())
    )
    error_type: type[Exception] = getattr(duckdb, f"{name}Exception", duckdb.Error) if colon else duckdb.Error
    return error_type(str(error))


def _taker(
    arrow: ArrowSchema,
    position: int,
    column: ResultColumn,
    source: tuple[str, types.TypeEngine[Any]],
    processor: Callable[[Any], Any] | None,
) -> Taker | None:
    """How the arrays of one column are taken; None if only the driver reads its values.

    Args:
        position: of the column in the schema.
        source: DuckDB's type of the column, and SQLAlchemy's of the values. processor: of that type.
    """
    kind, type_ = source
    expected, target = _ARROW_TYPES[kind]
    field_type = arrow.schema.field(position).type
    is_time = kind in ("DATE", "TIMESTAMP", "TIME")
    within = partial(_within, arrow, position) if is_time else _same
    if arrow.is_unconverted(position):
        if isinstance(type_, ArrowCast):
            if type_.is_cast and (kind != "VARCHAR" or str(field_type) == "string"):
                return within
        elif isinstance(type_, expected) and not isinstance(type_, types.Enum):
            if str(field_type).startswith(target):
                return within
            if kind == "DECIMAL" and column.encoding == "decimal" and str(field_type) == "string":
                return _digits

    if is_time:
        return None  # of infinities and other values that Python lacks, the driver makes texts

    def take(array: Any) -> Any:
        values = array.to_pylist()
        if processor is not None:
            values = [None if value is None else processor(value) for value in values]
        return arrow.column(position, values)

    return take


def _same(array: Any) -> Any:
    return array


def _within(arrow: ArrowSchema, position: int, array: Any) -> Any:
    """The array, if Python has all of its values: not DuckDB's infinities, the year 10000, or 24:00:00."""
    import pyarrow as pa
    from pyarrow import compute

    limits = (time.min, time.max) if pa.types.is_time(array.type) else (datetime.min, datetime.max)  # noqa: DTZ901
    first, last = (pa.scalar(limit).cast(array.type) for limit in limits)
    extremes = compute.min_max(array)
    # With no values, the comparisons are null.
    if compute.less(extremes["min"], first).as_py() or compute.greater(extremes["max"], last).as_py():
        raise arrow.unfit(position)
    return array


def _digits(array: Any) -> Any:
    """Decimals as text. Arrow writes those below a millionth with an exponent."""
    from pyarrow import compute

    texts = array.cast("string")
    if not compute.any(compute.match_substring(texts, "E")).as_py():
        return texts
    return [None if value is None else format(value, "f") for value in array.to_pylist()]
