"""Batches of Arrow, and lines, that a reader process makes of the rows of a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, cast

from sqlalchemy import types
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine.processors import str_to_date, str_to_datetime
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.own_types import SQLType
from dualsql.columns.result import ResultColumn, is_sqlalchemys_own
from dualsql.databases.driver import ON_STOP, DriverStatement, driver_of, memory_of, require_described
from dualsql.databases.session import note_lane
from dualsql.databases.sqlite.callbacks import LARGEST_VALUE
from dualsql.databases.sqlite.processes import ReaderProcess, ReaderProcesses, sendable, sendable_columns
from dualsql.databases.streams import Put, StreamBackend, StreamJob
from dualsql.errors import DatabaseBusyError, QueryExecutionError
from dualsql.formats.arrow import ArrowSchema
from dualsql.formats.cells import Processor, Tolerant, processed
from dualsql.formats.writer import BatchWriter, Chunk, LineWriter, Rows, Writer


def terms_of_batches(job: StreamJob) -> dict[str, Any] | None:
    """What to ask a process for batches of Arrow.

    None with `text_columns`, which show texts that are not valid UTF-8: a process cannot read them.
    """
    return None if cast("BatchWriter", job.writer).arrow.texts else {}


def terms_of_lines(job: StreamJob, statement: DriverStatement) -> dict[str, Any] | None:
    """What to ask a process for lines; None if the writer has to see the values."""
    writer = cast("LineWriter", job.writer)
    plain = writer.plain if job.subset is None else None
    columns = plain and sendable_columns(plain, statement.processors(), statement.dialect)
    return None if columns is None else {"lines": writer.line_format, "columns": columns}


def by_reader_process(
    processes: ReaderProcesses,
    terms: Mapping[str, Any],
    statement: DriverStatement,
    otherwise: StreamBackend,
    slow: set[tuple[str, str]],
) -> StreamBackend:
    """Stream what a reader process makes.

    Args:
        terms: the file, the seconds that are left, and in which form rows are needed.
        otherwise: reads statements that the process declines, or cannot be sent, and the rows that it cannot read.
        slow: gets the format and the SQL of lines that take more time with a process.
    """
    parameters = sendable(statement.parameters)
    if parameters is None:
        return otherwise
    request = {
        **terms,
        "sql": statement.sql,
        "parameters": parameters,
        "seconds": min(terms["seconds"], _LONGEST),
        "lock_seconds": _LOCK_SECONDS,
        "largest_value": LARGEST_VALUE,
    }

    async def read(job: StreamJob, connection: AsyncConnection, put: Put, snapshot: _Snapshot | None) -> None:
        run = driver_of(connection)._execute  # in the connection's thread, which has nothing else to do
        reading, rows, last = _ProcessRun(job, statement, processes, snapshot), 0, b""
        memory_of(connection)[ON_STOP] = reading.stop
        try:
            await run(partial(reading.begin, request))
            while (chunk := await run(reading.next_chunk)) is not None:
                rows, last = rows + chunk.rows, chunk.data
                await put(chunk)
        finally:
            reading.stop()
            del memory_of(connection)[ON_STOP]
            await run(reading.end)
        if snapshot is not None and (reading.is_unreadable or reading.odd_batches * 2 > reading.batches):
            slow.add((terms["lines"], statement.sql))
        if reading.is_declined:
            note_lane("sqlite_thread")
            await otherwise(job, connection, put)
        elif reading.is_unreadable and snapshot is not None:
            rest = cast("Writer", _Rest(job.writer, rows, reading.row_bytes, last))
            await otherwise(job._replace(writer=rest), connection, put)
        elif reading.is_unreadable:
            # The error names the column, as it does without the process; the rows up to it were sent.
            await otherwise(job, connection, _drop)
            raise QueryExecutionError("A row of the result could not be read.")

    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        if "lines" not in terms:
            await read(job, connection, put, None)
            return
        driver = driver_of(connection)
        snapshot = _Snapshot(driver._conn, terms["path"])
        # The thread closes it behind what it opens, also for one that is cancelled meanwhile.
        try:
            await driver._execute(snapshot.open)
            await read(job, connection, put, snapshot)
        finally:
            await driver._execute(snapshot.close)

    return backend


class _Snapshot:
    """The state of a file before a process reads it, on a connection that can read the rest of the rows.

    Its methods belong to the thread of the connection.
    """

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._uri = f"{Path(path).as_uri()}?mode=ro"
        self._watch: sqlite3.Connection | None = None
        self._version: Any = None

    def open(self) -> None:
        self._watch = sqlite3.connect(self._uri, uri=True, timeout=_LOCK_SECONDS)
        self._version = self._read_version()
        self._connection.execute("BEGIN").close()
        self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").close()

    def is_current(self) -> bool:
        """Whether who reads the file now reads this state of it."""
        return bool(self._read_version() == self._version)

    def close(self) -> None:
        self._connection.rollback()
        if self._watch is not None:
            self._watch.close()

    def _read_version(self) -> Any:
        # Another number, once another connection has changed the file: https://www.sqlite.org/pragma.html.
        return self._watch and self._watch.execute("PRAGMA data_version").fetchone()


_LONGEST = 1e9

_LOCK_SECONDS = 5.0
"""As sqlite3 waits for a lock."""


async def _drop(_: Chunk) -> None:
    """Take a chunk that was sent before."""


class _ProcessRun:
    """One statement in a reader process. All but `stop` belongs to the thread of the connection.

    Attributes:
        is_declined: the process does not read this statement. is_unreadable: it cannot read one of its rows, or has
            ended before the last one, if a snapshot has them.
        batches, odd_batches: of rows, and of those that it could not write as lines.
        row_bytes: of a row, in the batch of the longest lines.
    """

    def __init__(
        self,
        job: StreamJob,
        statement: DriverStatement,
        processes: ReaderProcesses,
        snapshot: _Snapshot | None,
    ) -> None:
        self._job = job
        self._snapshot = snapshot
        self.batches = self.odd_batches = self.row_bytes = 0
        self._statement = statement
        self._processes = processes
        self._lock = Lock()
        self._process: ReaderProcess | None = None
        self._is_stopped = False
        self._processors = list(statement.processors())
        self._makers = _makers(job, statement) if isinstance(job.writer, BatchWriter) else []
        self.is_declined = self.is_unreadable = self._is_over = False

    def begin(self, request: Mapping[str, Any]) -> None:
        """Send the request."""
        try:
            process = self._processes.take()
            with self._lock:
                self._process = process
                if self._is_stopped:
                    process.kill()
            process.ask(request)
            names = process.message()[0].get("names")
        except (OSError, EOFError):
            if self._is_stopped:
                raise
            # It could not start, or has ended meanwhile; nothing is lost.
            self.is_declined = True
            return
        if names is None:
            self._is_over = self.is_declined = True
            return
        if self._snapshot is not None and not self._snapshot.is_current():
            self.is_declined = True  # it may read another state of the file
            return
        require_described(names, self._statement.described)

    def next_chunk(self) -> Chunk | None:
        """The next rows, encoded; None after the last."""
        if self.is_declined or self._process is None:
            return None
        try:
            header, body = self._process.message()
        except EOFError:
            if self._is_stopped or self._snapshot is None:
                raise
            self._is_over = self.is_unreadable = True
            return None
        if "rows" in header:
            return self._encode(header, body)
        self._is_over = True
        self.is_declined, self.is_unreadable = "declined" in header, "unreadable" in header
        if "code" in header:
            failure = sqlite3.OperationalError(header["message"])
            failure.sqlite_errorcode = header["code"]
            raise failure
        return None

    def stop(self) -> None:
        """End the process, if it still reads."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None and not self._is_over:
                self._process.kill()

    def end(self) -> None:
        """Give the process back."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            (self._processes.give_back if self._is_over else ReaderProcess.close)(process)

    def _encode(self, header: Mapping[str, Any], body: bytearray) -> Chunk:
        if "columns" not in header:
            return self._lines(header, body)
        writer = cast("BatchWriter", self._job.writer)
        arrays = _arrays(header["columns"], header["rows"], body)
        columns = [make(arrays[index]) for index, make in zip(self._job.positions, self._makers, strict=True)]
        return writer.batch(writer.arrow.batch_of_columns(columns))

    def _lines(self, header: Mapping[str, Any], body: bytearray) -> Chunk:
        self.batches += 1
        self.row_bytes = max(self.row_bytes, len(body) // header["rows"])
        self.odd_batches += "values" in header
        if "values" not in header:
            return cast("LineWriter", self._job.writer).written(bytes(body), header["rows"])
        rows = [list(map(_value, row)) for row in json.loads(body)]
        return self._job.encode(processed(rows, self._processors))


class _Rest:
    """Writes the rows after the first ones.

    Args:
        row_bytes: of one of the first ones, at most. sent: the last bytes of them.
    """

    def __init__(self, writer: Writer, skipped: int, row_bytes: int, sent: bytes) -> None:
        self._writer, self._skipped, self._row_bytes, self._sent = writer, skipped, row_bytes, sent

    def rows(self, rows: Rows) -> Chunk:
        left = rows[self._skipped :]
        if 0 < self._skipped <= len(rows):
            self._require_sent(rows[self._skipped - 1])
        self._skipped -= len(rows) - len(left)
        # As if it held what is passed over, so that batches stay as small as what was sent.
        return self._writer.rows(left) if left else Chunk(b"", 0, self._row_bytes * len(rows))

    def _require_sent(self, row: Sequence[Any]) -> None:
        if not self._sent.endswith(self._writer.rows([row]).data):
            raise DatabaseBusyError(
                "The order of the rows changed while they were read.", hint="Read the result again."
            )


def _makers(job: StreamJob, statement: DriverStatement) -> list[Callable[[Any], Any]]:
    arrow, processors = cast("BatchWriter", job.writer).arrow, dict(statement.processors())
    return [
        _maker(arrow, position, job.columns[index], statement.types[index], processors.get(index))
        for position, index in enumerate(job.positions)
    ]


def _arrays(columns: Sequence[Any], rows: int, body: bytearray) -> list[Any]:
    """Each column as an Arrow array, or as a list of values where their classes differ."""
    import pyarrow as pa

    whole, at, arrays = pa.py_buffer(body), 0, []
    for kind, nulls, sizes in columns:
        buffers = []
        for size in sizes:
            buffers.append(whole.slice(at, size))
            at += size + -size % 8
        if kind == "values":
            listed = json.loads(buffers[0].to_pybytes())
            arrays.append(list(map(_value, listed)))
        elif kind == "nulls":
            arrays.append(pa.nulls(rows))
        else:
            arrays.append(_array(kind, rows, nulls, buffers))
    return arrays


def _value(spelled: Any) -> Any:
    return b64decode(spelled[0]) if isinstance(spelled, list) else spelled


def _array(kind: str, rows: int, nulls: int, buffers: Sequence[Any]) -> Any:
    import pyarrow as pa

    valid = None
    if nulls:
        bitmap, *buffers = buffers
        valid = pa.Array.from_buffers(pa.uint8(), rows, [None, bitmap]).cast(pa.bool_()).buffers()[1]
    if kind in _WITH_LENGTHS:
        return pa.Array.from_buffers(
            _TYPES[kind](pa), rows, [valid, _offsets(rows, *buffers), buffers[1]], nulls
        )
    return pa.Array.from_buffers(_TYPES[kind](pa), rows, [valid, buffers[0]], nulls)


def _offsets(rows: int, lengths: Any, data: Any) -> Any:
    """Where the values begin in `data`; without lengths, they have one length. More than 32 bits are an error."""
    import pyarrow as pa
    from pyarrow import compute

    if not lengths.size:
        equal = pa.Array.from_buffers(pa.binary(data.size // rows), rows, [None, data])
        return equal.cast(pa.binary()).buffers()[1]
    type_ = pa.uint8() if lengths.size == rows + 1 else pa.int32()
    lengths = pa.Array.from_buffers(type_, rows + 1, [None, lengths])
    return compute.cumulative_sum_checked(lengths.cast(pa.int32())).buffers()[1]


_WITH_LENGTHS = frozenset({"texts", "bytes"})
_TYPES: Mapping[str, Callable[[Any], Any]] = {
    "integers": lambda pa: pa.int64(),
    "floats": lambda pa: pa.float64(),
    "texts": lambda pa: pa.string(),
    "bytes": lambda pa: pa.binary(),
}


def _maker(
    arrow: ArrowSchema, position: int, column: ResultColumn, type_: SQLType, processor: Processor | None
) -> Callable[[Any], Any]:
    """The function that makes of a column what `ArrowSchema.batch_of_columns` takes.

    Args:
        type_: SQLAlchemy's of what is read. processor: of that type.
    """
    target = arrow.schema.field(position).type
    is_plain = arrow.is_unconverted(position) and is_sqlalchemys_own(column.type, _DIALECT)
    is_same = (
        is_plain and processor is None and isinstance(type_, _PLAIN) and not isinstance(type_, types.Enum)
    )
    parse = _PARSERS.get(processor.processor) if is_plain and isinstance(processor, Tolerant) else None

    def convert(values: Any) -> Any:
        if not isinstance(values, list):
            if is_same and (values.type == target or values.null_count == len(values)):
                return values.cast(target)
            parsed = parse(values, target) if parse is not None else None
            if parsed is not None:
                return parsed
            values = values.to_pylist()
        if processor is not None:
            values = [processor(value) for value in values]
        return arrow.column(position, values)

    return convert


_DIALECT = sqlite.dialect()
_PLAIN = (types.Integer, types.Float, types.String, types.LargeBinary)


def _instants(texts: Any, target: Any, *, length: int) -> Any | None:
    """The texts as dates or instants, if Python reads each of them as the same one; else None."""
    import pyarrow as pa
    from pyarrow import compute

    if texts.type != pa.string() or not (pa.types.is_timestamp(target) or pa.types.is_date(target)):
        return None
    # Of this length, Arrow and fromisoformat() read one spelling; but Python has no year 0.
    sizes = compute.min_max(compute.binary_length(texts))
    if sizes["min"].as_py() != length or sizes["max"].as_py() != length:
        return None
    try:
        moments = texts.cast(target)
    except pa.ArrowInvalid:
        return None
    return (
        None
        if compute.less(compute.min_max(moments)["min"], pa.scalar(_FIRST_DAY).cast(target)).as_py()
        else moments
    )


_FIRST_DAY = date(1, 1, 1)


_PARSERS: Mapping[Any, Callable[[Any, Any], Any]] = {
    str_to_datetime: partial(_instants, length=len("2024-02-29 12:30:00.500000")),
    str_to_date: partial(_instants, length=len("2024-02-29")),
}
"""By SQLAlchemy's processors of texts."""
