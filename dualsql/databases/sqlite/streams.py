"""Streams from SQLite: rows are fetched and written in the thread of their connection."""

from __future__ import annotations

from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.driver import DriverStatement, require_described
from dualsql.databases.guard import driver_of
from dualsql.databases.sqlite.connection import next_rows
from dualsql.databases.stream_job import Lane, Pace, Put, StreamJob
from dualsql.databases.streams import next_chunk


async def choose_stream(job: StreamJob, connection: AsyncConnection, sent: DriverStatement) -> Lane:
    """What streams the rows of the statement from aiosqlite."""
    return by_sqlite_thread(sent)


def by_sqlite_thread(sent: DriverStatement) -> Lane:
    """Fetched and encoded in the thread of aiosqlite's connection: one crossing for each batch, bytes come back."""

    async def lane(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        driver = driver_of(connection)
        cursor = await driver._execute(driver._conn.execute, sent.sql, sent.parameters)
        fetching = partial(next_chunk, job, Pace(), partial(next_rows, cursor), sent.processors())
        try:
            require_described([column[0] for column in cursor.description], sent.described)
            while (chunk := await driver._execute(fetching)) is not None:
                await put(chunk)
        finally:
            await driver._execute(cursor.close)

    return lane
