"""The connections a store works on, one for each statement; the rule: closing waits for what is at work.

A connection that comes back after its pool was disposed of would stay open, with its thread, until it is found
by the garbage collector.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql.errors import StorageError
from dualsql.store.failures import storage_errors


class Connections:
    """Connections of an engine, until they are closed.

    Args:
        is_ours: the engine is disposed of at the end.
    """

    def __init__(self, engine: AsyncEngine, *, is_ours: bool) -> None:
        self._engine = engine
        self._is_ours = is_ours
        self._is_closed = False
        self._at_work = 0
        self._is_idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def reopen(self) -> None:
        """Be of use in the running event loop, which may be another one than before."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._is_ours and not self._is_closed:
                self._engine.sync_engine.dispose(close=False)  # its connections ended with their loop
            self._loop, self._at_work, self._is_idle = loop, 0, asyncio.Event()
        self._is_closed = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncConnection]:
        """A connection on which each statement is a transaction.

        Raises:
            StorageError: whatever the database does in the block; or the store was closed.
        """
        if self._is_closed:
            raise StorageError("The resource store was closed.", hint="Open it again: `await store.open()`.")
        self._at_work += 1
        try:
            with storage_errors():
                async with self._engine.connect() as connection:
                    yield connection
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._is_idle.set()

    async def close(self) -> None:
        """Refuse from now on, wait for the statements that run, and dispose of an engine that is ours."""
        self._is_closed = True
        while self._at_work:
            self._is_idle.clear()
            await self._is_idle.wait()
        if self._is_ours:
            await self._engine.dispose()
