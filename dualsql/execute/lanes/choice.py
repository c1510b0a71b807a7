"""Which lane a stream takes; the rule: this is the only place that decides, and every doubt ends at SQLAlchemy's."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns import driver_names
from dualsql.execute.guards import driver_of
from dualsql.execute.lanes.copying import by_copy
from dualsql.execute.lanes.job import Job, Lane
from dualsql.execute.lanes.rows import by_asyncpg_cursor, by_sqlalchemy, by_sqlite_thread, by_thread
from dualsql.execute.lanes.statement import driver_statement, is_listened_to, require_described


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
    bare = driver_of(connection)
    # Behind a pooler, an application gives its statements names that no other client has.
    adapted: Any = opened.connection.dbapi_connection
    prepared = await bare.prepare(sent.sql, name=adapted._prepared_statement_name_func())
    require_described([attribute.name for attribute in prepared.get_attributes()], sent.described)
    return by_copy(job, sent, bare, prepared) or by_asyncpg_cursor(sent, prepared)
