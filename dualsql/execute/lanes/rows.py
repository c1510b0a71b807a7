"""Rows, from the driver to the writer; the rule: SQLAlchemy's own processors make the values, on every lane."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.execute.guards import driver_of
from dualsql.execute.lanes.collector import without_collector
from dualsql.execute.lanes.job import Job, Lane, Pace, Put
from dualsql.execute.lanes.statement import DriverStatement, processed
from dualsql.formats.writer import Chunk


async def by_sqlalchemy(job: Job, connection: AsyncConnection, put: Put) -> None:
    """On any database."""
    result = await connection.stream(
        job.statement, job.narrowing.values, execution_options={"compiled_cache": job.source.compiled}
    )
    async for rows in result.partitions(_SQLALCHEMY_ROWS):
        chunk = job.encode([tuple(row) for row in rows])
        with job.source.guard.held(connection):
            await put(chunk)


_SQLALCHEMY_ROWS = 500


def by_sqlite_thread(sent: DriverStatement) -> Lane:
    """Fetched and encoded in the thread of aiosqlite's connection: one crossing for each batch, bytes come back."""

    async def lane(job: Job, connection: AsyncConnection, put: Put) -> None:
        driver = driver_of(connection)
        cursor = await driver._execute(driver._conn.execute, sent.sql, sent.parameters)
        read = partial(_read, job, cursor, sent.processors(), Pace())
        try:
            while (chunk := await driver._execute(read)) is not None:
                await put(chunk)
        finally:
            await driver._execute(cursor.close)

    return lane


def _read(job: Job, cursor: Any, processors: Any, pace: Pace) -> Chunk | None:
    with without_collector():
        chunk = _next(job, cursor, processors, pace.rows)
    if chunk is not None:
        pace.note(chunk)
    return chunk


def _next(job: Job, cursor: Any, processors: Any, most: int) -> Chunk | None:
    """A chunk of the next rows, which are gone with the end of this function."""
    rows = list(islice(cursor, most))
    return job.encode(processed(rows, processors)) if rows else None


def by_asyncpg_cursor(sent: DriverStatement, prepared: Any) -> Lane:
    """A cursor of asyncpg's own, over a statement it prepared."""

    async def lane(job: Job, connection: AsyncConnection, put: Put) -> None:
        processors = sent.processors([attribute.type.oid for attribute in prepared.get_attributes()])
        cursor, pace = await prepared.cursor(*sent.parameters), Pace()
        while records := await cursor.fetch(pace.rows):
            chunk = job.encode(processed([tuple(record) for record in records], processors))
            pace.note(chunk)
            await put(chunk)

    return lane
