"""What reader processes read of a SQLite file: batches of Arrow, and pages; see `reader_process` beside it."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sqlite3
import struct
import subprocess
import sys
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Any, cast

import orjson
from sqlalchemy import types
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine.processors import str_to_date, str_to_datetime
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.own_types import SQLType
from dualsql.columns.result import ResultColumn, is_sqlalchemys_own
from dualsql.databases.backends import DriverStatement, driver_of, memory_of, require_described
from dualsql.databases.session import note_lane
from dualsql.databases.sqlite import reader_process
from dualsql.databases.streams import Put, StreamBackend, StreamJob
from dualsql.errors import QueryExecutionError
from dualsql.formats.arrow import ArrowSchema, BatchWriter
from dualsql.formats.cells import Processor, Tolerant, processed
from dualsql.formats.writer import Chunk, Rows

_LENGTHS = struct.Struct("=II")
_PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = 1031
"""F_SETPIPE_SZ of Linux."""

_MOST_IDLE = 2

# Of the environment, the process gets what a library is found by, and where files of a sort are made.
_INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "SQLITE_TMPDIR", "TEMP", "TMP")

_LOCK_SECONDS = 5.0
"""As sqlite3 waits for a lock."""


@cache
def folder_of_apsw() -> str | None:
    """Where apsw is installed; None if it is not. It is not imported: it brings a second SQLite into the process."""
    found = find_spec("apsw")
    return None if found is None or found.origin is None else str(Path(found.origin).parents[1])


_FOLDER_OF_ORJSON = str(Path(orjson.__file__).parents[1])


class ReaderProcess:
    """A process that reads statements, one at a time. All but `kill` belongs to one thread at a time."""

    def __init__(self, folder: str) -> None:
        command = [sys.executable, "-I", "-S", reader_process.__file__, folder, _FOLDER_OF_ORJSON]
        self._process = subprocess.Popen(  # noqa: S603 - a program of this package
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            # An interrupt of the terminal is for the server, which ends its streams first.
            start_new_session=True,
        )
        asked: Any = self._process.stdin
        answers: Any = self._process.stdout
        self._in, self._out = asked, answers
        if sys.platform == "linux":
            # The default of 64 KiB holds no batch: the process would wait for each to be read. Linux refuses it to a
            # user who has many such pipes.
            with suppress(OSError, ImportError):
                import fcntl

                fcntl.fcntl(self._out.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)
                fcntl.fcntl(self._in.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)

    @property
    def has_ended(self) -> bool:
        """Whether the process can take no request."""
        return self._process.poll() is not None

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send a request, which answers with messages."""
        self._in.write(json.dumps(request).encode() + b"\n")

    def message(self) -> tuple[dict[str, Any], bytearray]:
        """The next message: its header and its body.

        Raises:
            EOFError: the process has ended.
        """
        told, body = _LENGTHS.unpack(self._read(_LENGTHS.size))
        return json.loads(self._read(told)), self._read(body)

    def _read(self, size: int) -> bytearray:
        found = bytearray(size)
        left = memoryview(found)
        while left:
            count = self._out.readinto(left)
            if not count:
                raise EOFError("A reader process has ended.")
            left = left[count:]
        return found

    @property
    def pipes(self) -> tuple[int, int]:
        """The descriptors of its requests, and of its answers."""
        return self._in.fileno(), self._out.fileno()

    def kill(self) -> None:
        """End the process, whatever it does. Who reads gets an EOFError. May be called by any thread, and again."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and free what it had."""
        self.kill()
        self._process.wait()
        self._in.close()
        self._out.close()


class ReaderProcesses:
    """The reader processes of one file. As many as there are streams; a few are kept for the next ones."""

    def __init__(self) -> None:
        self._idle: list[ReaderProcess] = []
        self._lock = Lock()
        self._is_closed = False

    def take(self, folder: str) -> ReaderProcess:
        """An idle process, or a new one."""
        while True:
            with self._lock:
                found = self._idle.pop() if self._idle else None
            if found is None:
                return ReaderProcess(folder)
            if not found.has_ended:
                return found
            found.close()

    def give_back(self, process: ReaderProcess) -> None:
        """Keep a process that has answered its request, if there is room."""
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.close()

    def close(self) -> None:
        """End the idle processes; those that are busy end with their streams."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()


def request_for(path: str, sent: DriverStatement, seconds: float, largest: int) -> dict[str, Any] | None:
    """What a reader process is asked; None if it cannot be sent the values.

    Args:
        seconds: the time that is left. largest: bytes of the largest value.
    """
    parameters = _in_json(sent.parameters)
    if parameters is None:
        return None
    return {
        "path": str(Path(path).resolve()),
        "sql": sent.sql,
        "parameters": parameters,
        "seconds": min(seconds, _LONGEST),
        "lock_seconds": _LOCK_SECONDS,
        "largest_value": largest,
    }


def _in_json(parameters: Sequence[Any]) -> Sequence[Any] | None:
    """The values as `reader_process.read_parameters` reads them; None if one cannot be sent."""
    if not all(type(value) in _SENT for value in parameters):
        return None
    return [[b64encode(value).decode()] if type(value) is bytes else value for value in parameters]


_SENT = frozenset({int, float, str, bytes, bool, type(None)})
_LONGEST = 1e9


class PageProcess:
    """A reader process that reads pages for one event loop, in the order in which they are asked for.

    The work of SQLite, and making objects of its cells, are half the time of a page. Another core does them here, while
    the event loop works for others. It is not replaced by itself once it has ended.

    Attributes:
        is_open: whether it may answer yet. was_ready: it could read the file.
    """

    def __init__(self, process: ReaderProcess, path: str) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._terms = {
            "path": path,
            "seconds": PAGE_SECONDS,
            "lock_seconds": 0,
            "largest_value": _LARGEST_IN_PAGE,
            "is_page": True,
        }
        self._waiting: deque[tuple[str, asyncio.Future[bytes | None]]] = deque()
        self._unread = bytearray()
        self._declined: set[str] = set()
        self._begun = self._begun_without = self._alone = 0
        self.is_open, self.was_ready = True, False
        self._requests, self._answers = process.pipes
        for pipe in process.pipes:
            os.set_blocking(pipe, False)
        self._loop.add_reader(self._answers, self._receive)
        self._ask("SELECT 1", ())  # answered once it has started and opened the file

    def takes(self, sql: str) -> bool:
        """Whether this statement can be asked for now, on the running event loop."""
        is_ready = self.was_ready and self.is_open and len(self._waiting) < _MOST_WAITING
        return is_ready and sql not in self._declined and asyncio.get_running_loop() is self._loop

    def is_worth_asking(self) -> bool:
        """Count a page that is read next, and tell whether the process should read it.

        Waking it takes longer than reading, if the event loop has nothing else to do meanwhile. It has, if other pages
        are read while one is waited for: when none was, some are tried.
        """
        self._begun += 1
        self._begun_without += 1
        return bool(self._waiting) or self._alone < _TRIES or self._begun_without >= _TRIED_EVERY

    async def fetch(self, sent: DriverStatement) -> Rows | None:
        """All rows of a statement; None if it must be read in another way.

        Raises:
            QueryExecutionError: it has other columns than described.
        """
        asked, begun = self._ask(sent.sql, sent.parameters), self._begun
        if asked is None:
            return None
        self._begun_without = 0
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await asked
        except TimeoutError:
            self.close()
            return None
        self._alone = 0 if self._begun > begun else self._alone + 1
        if answer is None:
            return None
        names, rows = orjson.loads(answer)
        require_described(names, sent.described)
        return processed(rows, sent.processors())

    def close(self) -> None:
        """End the process. Who waits for a page gets None."""
        if not self.is_open:
            return
        self.is_open = False
        if not self._loop.is_closed():
            self._loop.remove_reader(self._answers)
            while self._waiting:
                self._answered(None)
        # In a thread: a process that waits for a disk does not end at once, whatever it is told.
        Thread(target=self._process.close, name="dualsql-end-of-reader", daemon=True).start()

    def _ask(self, sql: str, parameters: Sequence[Any]) -> asyncio.Future[bytes | None] | None:
        """Send a request for its answer; None if it cannot be sent."""
        request = self._request(sql, parameters)
        if request is None:
            self._decline(sql)
            return None
        try:
            written = os.write(self._requests, request) if self.is_open else 0
        except OSError:  # the pipe is full, or nobody reads it
            return None
        if written < len(request):
            self.close()
            return None
        asked = self._loop.create_future()
        self._waiting.append((sql, asked))
        return asked

    def _request(self, sql: str, parameters: Sequence[Any]) -> bytes | None:
        written = _in_json(parameters)
        # orjson would write infinity as null.
        if written is None or any(type(value) is float and not math.isfinite(value) for value in written):
            return None
        try:
            request = orjson.dumps({**self._terms, "sql": sql, "parameters": written}) + b"\n"
        except TypeError:  # a number beyond 64 bits, half a surrogate pair
            return None
        return request if len(request) <= _LARGEST_REQUEST else None

    def _decline(self, sql: str) -> None:
        if len(self._declined) < _MOST_DECLINED:
            self._declined.add(sql)

    def _receive(self) -> None:
        """On the event loop: take what the process has written."""
        try:
            read = os.read(self._answers, _READ_BYTES)
        except BlockingIOError:
            return
        if not read:
            self.close()
            return
        self._unread += read
        while len(self._unread) >= _LENGTHS.size:
            told, size = _LENGTHS.unpack_from(self._unread)
            body = _LENGTHS.size + told
            if len(self._unread) < body + size:
                return
            header = json.loads(self._unread[_LENGTHS.size : body])
            answer = bytes(self._unread[body : body + size])
            del self._unread[: body + size]
            if not self.was_ready and not answer:
                self.close()
                return
            self.was_ready = True
            if "declined" in header:
                self._decline(self._waiting[0][0])
            self._answered(answer or None)

    def _answered(self, answer: bytes | None) -> None:
        _, asked = self._waiting.popleft()
        if not asked.done():
            asked.set_result(answer)


PAGE_SECONDS = 0.02
"""How long a process works on a page at most: others wait meanwhile."""

_ANSWER_SECONDS = 1.0
"""Seconds without an answer after which a process is given up."""

_LARGEST_IN_PAGE = 1024 * 1024
"""Bytes of one value."""

_TRIES, _TRIED_EVERY = 4, 16
_MOST_WAITING = 16
_MOST_DECLINED = 1_000
_LARGEST_REQUEST = 16 * 1024
_READ_BYTES = 256 * 1024


def by_reader_process(
    processes: ReaderProcesses,
    folder: str,
    request: Mapping[str, Any],
    sent: DriverStatement,
    otherwise: StreamBackend,
) -> StreamBackend:
    """Stream batches that a reader process makes.

    Args:
        folder: where apsw is. otherwise: reads statements that the process declines.
    """

    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        run = driver_of(connection)._execute  # in the connection's thread, which has nothing else to do
        reading = _Reading(job, sent, processes, folder)
        memory_of(connection)[READING] = reading
        try:
            await run(partial(reading.begin, request))
            while (chunk := await run(reading.next_chunk)) is not None:
                await put(chunk)
        finally:
            reading.stop()
            del memory_of(connection)[READING]
            await run(reading.end)
        if reading.is_declined:
            note_lane("sqlite_thread")
            await otherwise(job, connection, put)
        elif reading.is_unreadable:
            # The error names the column, as it does without the process; the rows up to it were sent.
            await otherwise(job, connection, _drop)
            raise QueryExecutionError("A row of the result could not be read.")

    return backend


READING = "dualsql_reading"
"""Under this name, a connection's memory has what is to be stopped with its statement."""


async def _drop(_: Chunk) -> None:
    """Take a chunk that was sent before."""


class _Reading:
    """One statement in a reader process. All but `stop` belongs to the thread of the connection.

    Attributes:
        is_declined: the process does not read this statement. is_unreadable: it cannot read one of its rows.
    """

    def __init__(
        self, job: StreamJob, sent: DriverStatement, processes: ReaderProcesses, folder: str
    ) -> None:
        self._job = job
        self._sent = sent
        self._processes = processes
        self._folder = folder
        self._lock = Lock()
        self._process: ReaderProcess | None = None
        self._is_stopped = False
        self._makers = _makers(job, sent)
        self.is_declined = self.is_unreadable = self._is_over = False

    def begin(self, request: Mapping[str, Any]) -> None:
        """Send the request."""
        try:
            process = self._processes.take(self._folder)
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
        require_described(names, self._sent.described)

    def next_chunk(self) -> Chunk | None:
        """The next rows, encoded; None after the last."""
        if self.is_declined or self._process is None:
            return None
        header, body = self._process.message()
        if "rows" in header:
            return self._encoded(header, body)
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

    def _encoded(self, header: Mapping[str, Any], body: bytearray) -> Chunk:
        writer = cast("BatchWriter", self._job.writer)
        found = _arrays(header["columns"], header["rows"], body)
        made = [make(found[place]) for place, make in zip(self._job.written, self._makers, strict=True)]
        return writer.batch(writer.arrow.batch_of_columns(made))


def _makers(job: StreamJob, sent: DriverStatement) -> list[Callable[[Any], Any]]:
    arrow, processors = cast("BatchWriter", job.writer).arrow, dict(sent.processors())
    return [
        _maker(arrow, position, job.columns[place], sent.types[place], processors.get(place))
        for position, place in enumerate(job.written)
    ]


def _arrays(columns: Sequence[Any], rows: int, body: bytearray) -> list[Any]:
    """Each column as an Arrow array, or as a list of values where their classes differ."""
    import pyarrow as pa

    whole, at, found = pa.py_buffer(body), 0, []
    for kind, nulls, sizes in columns:
        buffers = []
        for size in sizes:
            buffers.append(whole.slice(at, size))
            at += size + -size % 8
        if kind == "values":
            listed = json.loads(buffers[0].to_pybytes())
            found.append([b64decode(value[0]) if isinstance(value, list) else value for value in listed])
        elif kind == "nulls":
            found.append(pa.nulls(rows))
        else:
            found.append(_array(kind, rows, nulls, buffers))
    return found


def _array(kind: str, rows: int, nulls: int, buffers: Sequence[Any]) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    valid = None
    if nulls:
        told, *buffers = buffers
        valid = pa.Array.from_buffers(pa.uint8(), rows, [None, told]).cast(pa.bool_()).buffers()[1]
    if kind in _WITH_LENGTHS:
        short = buffers[0].size == rows + 1
        lengths = pa.Array.from_buffers(pa.uint8() if short else pa.int32(), rows + 1, [None, buffers[0]])
        # A sum beyond 32 bits would be an error.
        offsets = compute.cumulative_sum_checked(lengths.cast(pa.int32())).buffers()[1]
        return pa.Array.from_buffers(_TYPES[kind](pa), rows, [valid, offsets, buffers[1]], nulls)
    return pa.Array.from_buffers(_TYPES[kind](pa), rows, [valid, buffers[0]], nulls)


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
    wanted = arrow.schema.field(position).type
    is_plain = arrow.is_as_read(position) and is_sqlalchemys_own(column.type, _DIALECT)
    is_same = (
        is_plain and processor is None and isinstance(type_, _PLAIN) and not isinstance(type_, types.Enum)
    )
    parse = _PARSERS.get(processor.processor) if is_plain and isinstance(processor, Tolerant) else None

    def made(found: Any) -> Any:
        if not isinstance(found, list):
            if is_same and (found.type == wanted or found.null_count == len(found)):
                return found.cast(wanted)
            parsed = parse(found, wanted) if parse is not None else None
            if parsed is not None:
                return parsed
            found = found.to_pylist()
        if processor is not None:
            found = [processor(value) for value in found]
        return arrow.column(position, found)

    return made


_DIALECT = sqlite.dialect()
_PLAIN = (types.Integer, types.Float, types.String, types.LargeBinary)


def _instants(texts: Any, wanted: Any, *, length: int) -> Any | None:
    """The texts as dates or instants, if Python reads each of them as the same one; else None."""
    import pyarrow as pa
    from pyarrow import compute

    if texts.type != pa.string() or not (pa.types.is_timestamp(wanted) or pa.types.is_date(wanted)):
        return None
    # Of this length, Arrow and fromisoformat() read one spelling; but Python has no year 0.
    sizes = compute.min_max(compute.binary_length(texts))
    if sizes["min"].as_py() != length or sizes["max"].as_py() != length:
        return None
    try:
        found = texts.cast(wanted)
    except pa.ArrowInvalid:
        return None
    return (
        None
        if compute.less(compute.min_max(found)["min"], pa.scalar(_FIRST_DAY).cast(wanted)).as_py()
        else found
    )


_FIRST_DAY = date(1, 1, 1)


_PARSERS: Mapping[Any, Callable[[Any, Any], Any]] = {
    str_to_datetime: partial(_instants, length=len("2024-02-29 12:30:00.500000")),
    str_to_date: partial(_instants, length=len("2024-02-29")),
}
"""By SQLAlchemy's processors of texts."""
