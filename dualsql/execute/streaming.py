"""Run one statement and pass its rows on as they come; the rule: a slow reader holds the database back.

The session lives in a task of its own, which reads ahead no further than a queue of a few batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, TypeVar

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.execute.failures import database_errors
from dualsql.execute.rows import Rows
from dualsql.execute.running import Session
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing

T = TypeVar("T")

BATCH_ROWS = 1_000
_BATCHES_AHEAD = 2


async def stream_rows(
    source: Source, statement: Executable, narrowing: Narrowing, encode: Callable[[Rows], T]
) -> AsyncGenerator[T, None]:
    """What `encode` makes of the rows of `statement` under `narrowing`, batch by batch.

    Closing the generator stops the database. It has no deadline of its own.

    Raises:
        DatabaseBusyError: all connections are in use.
        QueryExecutionError: anything else that the database raised.
    """
    channel: _Channel[T] = _Channel()

    async def produce(connection: AsyncConnection) -> None:
        result = await connection.stream(
            statement, narrowing.values, execution_options={"compiled_cache": source.compiled}
        )
        async for rows in result.partitions(BATCH_ROWS):
            if not await channel.put(encode(rows)):
                return

    session = Session(source, narrowing, produce)
    with database_errors(source):
        try:
            while (found := await channel.get(session.task)) is not None:
                yield found[0]
            await session.task
        finally:
            channel.close()
            if not session.task.done():
                source.finish(session.stop())


class _Channel(Generic[T]):
    """Carries batches from the session's task to the reader's, a few at a time."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[T] = asyncio.Queue(_BATCHES_AHEAD)
        self._is_closed = False

    async def put(self, item: T) -> bool:
        """Wait until there is room. False when nobody reads any longer."""
        if not self._is_closed:
            await self._queue.put(item)
        return not self._is_closed

    async def get(self, producing: asyncio.Future[None]) -> tuple[T] | None:
        """The next item; None once `producing` is over and all was taken."""
        if not self._queue.empty():
            return (self._queue.get_nowait(),)
        getting = asyncio.ensure_future(self._queue.get())
        try:
            either: set[asyncio.Future[Any]] = {getting, producing}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return (getting.result(),) if getting.done() else None
        finally:
            getting.cancel()

    def close(self) -> None:
        """Nobody reads any longer: let a producer that waits for room go on to its end."""
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get_nowait()
