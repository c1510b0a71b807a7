"""Which lane a stream takes; the rule: this is the only place that decides, and every doubt ends at SQLAlchemy's."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns import driver_names
from dualsql.execute.guards import driver_of
from dualsql.execute.lanes.copying import by_copy
from dualsql.execute.lanes.job import Job, Lane
from dualsql.execute.lanes.rows import by_asyncpg_cursor, by_sqlalchemy, by_sqlite_thread, by_thread
from dualsql.execute.lanes.statement import driver_statement, is_listened_to, require_described
from dualsql.execute.lanes.unreadable import prepare, prepare_readably


async def chosen_lane(job: Job, connection: AsyncConnection) -> Lane:
    """The fastest lane that is exact for this statement, this format and the driver of this connection."""
    driver = connection.dialect.driver
    opened = connection.sync_connection
    if not connection.dialect.is_async:
        return by_thread
    if driver not in {"aiosqlite", "asyncpg"} or opened is None or is_listened_to(opened.engine, opened):
        return by_sqlalchemy
    described = driver_names(job.columns)
    sent = driver_statement(
        opened.dialect, job.statement, job.narrowing.values, job.source.compiled, described
    )
    if sent is None:
        return by_sqlalchemy
    if driver == "aiosqlite":
        return by_sqlite_thread(sent)
    prepared = await prepare(connection, sent.sql)
    require_described([attribute.name for attribute in prepared.get_attributes()], sent.described)
    copied = by_copy(job, sent, driver_of(connection), prepared)
    if copied is not None:
        return copied
    readable, prepared = await prepare_readably(connection, sent, prepared)
    return by_asyncpg_cursor(readable, prepared, sent.parameters)
