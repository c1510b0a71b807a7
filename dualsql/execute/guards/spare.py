"""A connection beside the pool, to stop what runs on one of its own; the rule: a full pool is no obstacle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import PoolProxiedConnection
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import greenlet_spawn

Run = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def spare_connection(connection: AsyncConnection) -> AsyncIterator[Run]:
    """What runs a statement on a connection made just as those of the engine's pool are, and closed at the end."""
    opened = connection.sync_connection
    assert opened is not None
    call = greenlet_spawn if connection.dialect.is_async else asyncio.to_thread
    spare: PoolProxiedConnection = await call(opened.engine.pool.recreate().connect)

    async def run(statement: str) -> None:
        await call(_execute, spare, statement)

    try:
        yield run
    finally:
        await call(_close, spare)


def _execute(spare: PoolProxiedConnection, statement: str) -> None:
    cursor: Any = spare.cursor()
    cursor.execute(statement)
    cursor.close()


def _close(spare: PoolProxiedConnection) -> None:
    # Given back, it would wait in a pool that nobody uses.
    spare.detach()
    spare.close()
