"""Streams the rows of a statement in a few batches at a time. A slow reader slows the database down."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, cast

from anyio import BrokenResourceError, create_memory_object_stream
from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.result import DriverNames, ResultColumn, driver_names
from dualsql.databases.driver import driver_statement, must_use_sqlalchemy, require_described
from dualsql.databases.session import DatabaseErrors, Session, measured, note_lane, note_slow
from dualsql.databases.source import Source
from dualsql.events import EVENTS, StatementStopped
from dualsql.formats.cells import Processor, are_heavy, processed, run_heavy, without_collector
from dualsql.formats.writer import Chunk, Rows, Writer
from dualsql.freeze.document import AnySelect
from dualsql.tenancy import ActiveRules

Put = Callable[[Chunk], Awaitable[None]]
"""Takes the next chunk, once there is room for it; raises BrokenResourceError when the reader has left."""

BATCH_BYTES = 256 * 1024

_FIRST_ROWS, _MOST_ROWS, _GROWTH = 100, 4_000, 4

MOST_FETCHED = 500
"""Rows with texts or documents that an asynchronous driver fetches at once: they are measured when all have come."""

PIECE_ROWS = 100
"""Rows of a batch that are read before one of them is measured; see `read_rows`."""


class StreamJob(NamedTuple):
    """A statement to stream.

    Attributes:
        columns: the columns of the statement, in order.
        described: their names; see `Fetch`.
        subset: the positions of the columns to write; None for all.
        expected_rows: how many rows there may be, if that is known. It may be wrong.
    """

    source: Source
    statement: Executable
    rules: ActiveRules
    columns: Sequence[ResultColumn]
    described: DriverNames
    writer: Writer
    subset: Sequence[int] | None = None
    expected_rows: int | None = None

    @property
    def positions(self) -> Sequence[int]:
        """The positions of the columns to write."""
        return range(len(self.columns)) if self.subset is None else self.subset

    def encode(self, rows: Rows) -> Chunk:
        """Encode rows of all columns, each a tuple or list, with the writer."""
        if self.subset is None:
            return self.writer.rows(rows)
        return self.writer.rows([[row[position] for position in self.subset] for row in rows])


StreamBackend = Callable[[StreamJob, AsyncConnection, Put], Awaitable[None]]


class Pace:
    """The number of rows of the next batch: few at first, then as many as fill a piece.

    A batch has at most four times as many rows as the one before, and ends early where `read_rows` finds long values.
    """

    def __init__(self, piece: int = PIECE_ROWS) -> None:
        self.rows, self.piece = _FIRST_ROWS, piece

    def note(self, chunk: Chunk, rows: int) -> None:
        """Adjust the number after a batch of so many rows."""
        fitting = BATCH_BYTES * rows // max(len(chunk.data), chunk.held, 1)
        self.rows = max(1, min(fitting, self.rows * _GROWTH, _MOST_ROWS))


async def by_sqlalchemy(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
    """Stream through SQLAlchemy, on any asynchronous engine."""
    from dualsql.formats.row_objects import by_size

    pace = Pace()
    async with _rows(job, connection) as result:
        while fetched := await result.fetchmany(min(pace.rows, MOST_FETCHED)):
            for rows in by_size(fetched, BATCH_BYTES, PIECE_ROWS):
                chunk = await encode(job, [tuple(row) for row in rows])
                pace.note(chunk, len(rows))
                with job.source.guard.without_read_ahead(connection):
                    await put(chunk)


async def encode(job: StreamJob, rows: Rows) -> Chunk:
    """Encode rows, in a thread if that would keep the event loop."""
    return await run_heavy(job.encode, rows) if are_heavy(job.columns, rows) else job.encode(rows)


async def by_thread(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
    """Stream on any synchronous engine: the thread of the connection fetches and encodes, and returns bytes."""
    async with _rows(job, connection) as result:
        fetching = partial(next_chunk, job, Pace(), result.fetchmany)
        while (chunk := await result.run(fetching)) is not None:
            await put(chunk)


@asynccontextmanager
async def _rows(job: StreamJob, connection: AsyncConnection) -> AsyncIterator[Any]:
    """The rows of the job's statement from SQLAlchemy, on demand."""
    options = {"compiled_cache": job.source.compiled}
    with job.source.guard.tolerant_reading(connection):
        result = await connection.stream(job.statement, job.rules.values, execution_options=options)
        try:
            require_described(list(result.keys()), job.described)
            yield result
        finally:
            await job.source.guard.close_result(result)


def next_chunk(
    job: StreamJob, pace: Pace, more: Callable[[int], Rows], processors: Sequence[tuple[int, Processor]] = ()
) -> Chunk | None:
    """In a connection's thread: the next rows, encoded; None after the last."""
    from dualsql.formats.row_objects import read_rows

    with without_collector():
        rows = processed(read_rows(more, pace.rows, BATCH_BYTES, pace.piece), processors)
        if not rows:
            return None
        chunk, count = job.encode(rows), len(rows)
        del rows  # within the block: a search for garbage would visit them
    pace.note(chunk, count)
    return chunk


async def chosen_stream_backend(job: StreamJob, connection: AsyncConnection) -> StreamBackend:
    """The fastest stream backend that is exact for this statement, this format and the driver of this connection."""
    choose = job.source.backend.stream_backends.get(connection.dialect.driver)
    plain = by_sqlalchemy if connection.dialect.is_async else by_thread
    if choose is None or must_use_sqlalchemy(job.source.engine.sync_engine, connection.sync_connection):
        return plain
    values, cache = job.rules.values, job.source.compiled
    statement = driver_statement(connection.dialect, job.statement, values, cache, job.described, drafts={})
    if statement is None:
        return plain
    return await choose(job, connection, statement)


def lane_of(backend: StreamBackend) -> str:
    """What the log calls a stream backend, such as `asyncpg_cursor`."""
    name: str = getattr(backend, "__qualname__", type(backend).__qualname__)
    return name.partition(".")[0].removeprefix("by_")


_CHUNKS_AHEAD = 2


async def stream_rows(job: StreamJob) -> AsyncGenerator[Chunk, None]:
    """What the job's writer makes of the rows of its statement, piece by piece.

    Closing the generator stops the database. It has no deadline of its own.

    Raises:
        DatabaseBusyError: all connections are in use.
        QueryExecutionError: anything else that the database raised.
    """
    job = _without_unread_columns(job)
    sending, receiving = create_memory_object_stream[Chunk](_CHUNKS_AHEAD)
    started: float | None = None

    async def produce(connection: AsyncConnection) -> None:
        nonlocal started
        started = perf_counter()
        backend = await chosen_stream_backend(job, connection)
        lane = lane_of(backend)
        note_lane(lane)
        # A broken resource: the reader has left, and the backend ends.
        with sending, measured(job) as measurement, suppress(BrokenResourceError):
            if measurement is not None:
                measurement.note({"dualsql.lane": lane})
            await backend(job, connection, sending.send)

    session = Session(job.source, job.rules, produce)
    session.task.add_done_callback(lambda _: sending.close())
    with DatabaseErrors(job.source):
        try:
            async for chunk in receiving:
                # Only the time to the first rows is the statement's: from then on the reader sets the pace.
                if started is not None:
                    note_slow(job, perf_counter() - started)
                    started = None
                yield chunk
            await session.answered
            session.result()
        finally:
            receiving.close()
            if session.is_busy:
                EVENTS.report(StatementStopped("cancelled"))
                # Not awaited: the reader has left, perhaps by a cancellation. The database is stopped all the same.
                job.source.finish(session.stop())


def _without_unread_columns(job: StreamJob) -> StreamJob:
    """The job without the columns that are not written, where the database may leave them out."""
    if job.subset is None:
        return job
    from dualsql.plan.derived import projected

    statement = projected(cast("AnySelect", job.statement), job.subset)
    if statement is None:
        return job
    columns = [job.columns[position] for position in job.subset]
    return job._replace(statement=statement, columns=columns, described=driver_names(columns), subset=None)
