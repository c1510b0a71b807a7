"""Run one statement and pass its rows on as they come; the rule: a slow reader holds the database back.

The session lives in a task of its own, which reads ahead no further than a queue of a few batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.execute.failures import database_errors
from dualsql.execute.lanes.choice import chosen_lane
from dualsql.execute.lanes.job import Job, ReaderGone
from dualsql.execute.running import Session
from dualsql.formats.writer import Chunk
from dualsql.plan.projection import projected
from dualsql.statement import AnySelect

_CHUNKS_AHEAD = 2


async def stream_rows(job: Job) -> AsyncGenerator[Chunk, None]:
    """What the job's writer makes of the rows of its statement, piece by piece.

    Closing the generator stops the database. It has no deadline of its own.

    Raises:
        DatabaseBusyError: all connections are in use.
        QueryExecutionError: anything else that the database raised.
    """
    job = _reduced(job)
    channel = _Channel()

    async def produce(connection: AsyncConnection) -> None:
        lane = await chosen_lane(job, connection)
        try:
            await lane(job, connection, channel.put)
        except ReaderGone:
            return

    session = Session(job.source, job.narrowing, produce)
    with database_errors(job.source):
        try:
            while (chunk := await channel.get(session.task)) is not None:
                yield chunk
            await session.task
        finally:
            channel.close()
            if not session.task.done():
                job.source.finish(session.stop())


def _reduced(job: Job) -> Job:
    """The job without the columns that nobody writes, where the database may leave them out."""
    if job.places is None:
        return job
    statement = projected(cast("AnySelect", job.statement), job.places)
    if statement is None:
        return job
    return replace(job, statement=statement, columns=[job.columns[n] for n in job.places], places=None)


class _Channel:
    """Carries chunks from the session's task to the reader's, a few at a time."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Chunk] = asyncio.Queue(_CHUNKS_AHEAD)
        self._is_closed = False

    async def put(self, chunk: Chunk) -> None:
        """Wait until there is room.

        Raises:
            ReaderGone: nobody reads any longer.
        """
        if not self._is_closed:
            await self._queue.put(chunk)
        if self._is_closed:
            raise ReaderGone

    async def get(self, producing: asyncio.Future[None]) -> Chunk | None:
        """The next chunk; None once `producing` is over and all was taken."""
        if not self._queue.empty():
            return self._queue.get_nowait()
        getting = asyncio.ensure_future(self._queue.get())
        try:
            either: set[asyncio.Future[Any]] = {getting, producing}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return getting.result() if getting.done() else None
        finally:
            getting.cancel()

    def close(self) -> None:
        """Nobody reads any longer: let a producer that waits for room go on to its end."""
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get_nowait()
