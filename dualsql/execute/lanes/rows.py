"""Rows, from the driver to the writer; the rule: SQLAlchemy's own processors make the values, on every lane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns import driver_names
from dualsql.execute.guards import driver_of
from dualsql.execute.lanes.collector import without_collector
from dualsql.execute.lanes.job import Job, Lane, Pace, Put
from dualsql.execute.lanes.statement import DriverStatement, require_described
from dualsql.execute.lanes.unreadable import Readable
from dualsql.execute.sqlite_file import next_rows
from dualsql.formats.processing import Processor, processed
from dualsql.formats.writer import Chunk, Rows


async def by_sqlalchemy(job: Job, connection: AsyncConnection, put: Put) -> None:
    """On any asynchronous engine."""
    async with _rows(job, connection) as result:
        async for rows in result.partitions(_SQLALCHEMY_ROWS):
            chunk = job.encode([tuple(row) for row in rows])
            with job.source.guard.held(connection):
                await put(chunk)


_SQLALCHEMY_ROWS = 500


async def by_thread(job: Job, connection: AsyncConnection, put: Put) -> None:
    """On any synchronous engine: rows are fetched and encoded in the thread of its connection, bytes come back."""
    async with _rows(job, connection) as result:
        fetching = partial(_chunk, job, Pace(), result.fetchmany)
        while (chunk := await result.run(fetching)) is not None:
            await put(chunk)


@asynccontextmanager
async def _rows(job: Job, connection: AsyncConnection) -> AsyncIterator[Any]:
    """The rows of the job's statement, by SQLAlchemy, as they are asked for."""
    options = {"compiled_cache": job.source.compiled}
    with job.source.guard.reading(connection):
        result = await connection.stream(job.statement, job.narrowing.values, execution_options=options)
        try:
            require_described(list(result.keys()), driver_names(job.columns))
            yield result
        finally:
            await job.source.guard.put_away(result)


def by_sqlite_thread(sent: DriverStatement) -> Lane:
    """Fetched and encoded in the thread of aiosqlite's connection: one crossing for each batch, bytes come back."""

    async def lane(job: Job, connection: AsyncConnection, put: Put) -> None:
        driver = driver_of(connection)
        cursor = await driver._execute(driver._conn.execute, sent.sql, sent.parameters)
        fetching = partial(_chunk, job, Pace(), partial(next_rows, cursor), sent.processors())
        try:
            require_described([column[0] for column in cursor.description], sent.described)
            while (chunk := await driver._execute(fetching)) is not None:
                await put(chunk)
        finally:
            await driver._execute(cursor.close)

    return lane


def _chunk(
    job: Job, pace: Pace, fetch: Callable[[int], Rows], processors: Sequence[tuple[int, Processor]] = ()
) -> Chunk | None:
    """In a connection's thread: the next rows as the writer writes them; None after the last."""
    with without_collector():
        chunk = _encoded(job, fetch(pace.rows), processors)
    if chunk is not None:
        pace.note(chunk)
    return chunk


def _encoded(job: Job, rows: Rows, processors: Sequence[tuple[int, Processor]]) -> Chunk | None:
    """The rows are gone with the end of this function."""
    return job.encode(processed(rows, processors)) if rows else None


def by_asyncpg_cursor(readable: Readable, prepared: Any, parameters: Sequence[Any]) -> Lane:
    """A cursor of asyncpg's own, over a statement it prepared."""

    async def lane(job: Job, connection: AsyncConnection, put: Put) -> None:
        processors = readable.processors()
        cursor, pace = await prepared.cursor(*parameters), Pace()
        while records := await cursor.fetch(pace.rows):
            chunk = job.encode(readable.rows(records, processors))
            pace.note(chunk)
            await put(chunk)

    return lane
