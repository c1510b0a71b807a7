"""Open a database for reading; the rule: nothing is changed, and nothing is read but under the rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sqlalchemy import func, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing

_REFUSES_WRITES = "dualsql_refuses_writes"


@asynccontextmanager
async def read_only(source: Source, narrowing: Narrowing | None) -> AsyncIterator[AsyncConnection]:
    """A connection in a read-only transaction, rolled back at the end, that compiles under `narrowing`.

    None is for statements of dualsql's own, which prove what the database does.
    """
    async with AsyncExitStack() as stack:
        if source.turn is not None:
            await stack.enter_async_context(source.turn)
        connection = await stack.enter_async_context(source.engine.connect())
        if source.capabilities.read_only_transactions:
            await connection.execution_options(postgresql_readonly=True)
        if source.read_only_statements is not None and not await _refuses_writes(connection, source):
            await stack.enter_async_context(_between(connection, *source.read_only_statements))
        if narrowing is not None:
            await _narrow(connection, narrowing)
        yield connection


async def _narrow(connection: AsyncConnection, narrowing: Narrowing) -> None:
    if narrowing.settings:
        # For this transaction alone: the next user of the connection must not find them.
        await connection.execute(
            select(*(func.set_config(name, value, true()) for name, value in narrowing.settings))
        )
    opened = connection.sync_connection
    assert opened is not None
    opened.dialect = narrowing.dialect(opened.engine.dialect)


async def _refuses_writes(connection: AsyncConnection, source: Source) -> bool:
    """Whether the application made this connection read-only itself; asked once in the connection's life."""
    query = source.capabilities.read_only_query
    raw = connection.sync_connection
    if query is None or raw is None:
        return False
    if _REFUSES_WRITES not in raw.info:
        raw.info[_REFUSES_WRITES] = bool((await connection.exec_driver_sql(query)).scalar())
    return bool(raw.info[_REFUSES_WRITES])


@asynccontextmanager
async def _between(connection: AsyncConnection, before: str, after: str) -> AsyncIterator[None]:
    await connection.exec_driver_sql(before)
    try:
        yield
    finally:
        # The application's engine must not get a connection back that still refuses writes.
        restored = False
        try:
            await connection.exec_driver_sql(after)
            restored = True
        finally:
            if not restored:
                await connection.invalidate()
