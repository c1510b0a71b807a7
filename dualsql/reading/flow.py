"""One stream as it runs; the rule: however it ends, it is written down, and nothing is left running.

select -> lane -> pieces of whole rows -> bounds -> reader
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from dualsql import plan
from dualsql.columns import ResultColumn
from dualsql.errors import DualResponseError, LimitExceededError, TooManyQueriesError
from dualsql.formats.writer import Chunk, Summary, Writer
from dualsql.plan import Ordered, Place
from dualsql.reading.resuming import Resumption, rest_of, result_changed
from dualsql.reading.view import View
from dualsql.settings import Settings
from dualsql.statement import AnySelect


@dataclass(slots=True)
class Ending:
    """How far a stream got.

    Attributes:
        rows: handed out; those that a resumption begins after are not among them.
        is_complete: there were no more.
        error: what ended it; None for a stream that is complete, or was cut off by its reader.
    """

    rows: int = 0
    is_complete: bool = False
    error: DualResponseError | None = None


class StreamLog(Protocol):
    """Where a stream is written down."""

    async def began(self) -> None:
        """Before its query runs. What it raises refuses the stream."""
        ...

    async def ended(self, ending: Ending) -> None:
        """Once: before the last bytes leave, or when the stream was cut off."""
        ...


class Slots:
    """Counts the streams that run at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    def __enter__(self) -> None:
        if self._taken >= self._most:
            raise TooManyQueriesError(
                f"{self._most} streams run at once, which is as many as this server sends.",
                hint="Try again in a moment, or read pages.",
            )
        self._taken += 1

    def __exit__(self, *_: object) -> None:
        self._taken -= 1


@dataclass(frozen=True, slots=True)
class Section:
    """The rows that a stream is about: all of a statement, or those from a place on, or the first of these."""

    rows: Ordered
    start: Place | None
    limit: int | None

    def select(self, *, skip: int = 0) -> AnySelect:
        """Those behind the first `skip` rows."""
        limit = None if self.limit is None else max(0, self.limit - skip)
        return self._cut(skip, limit)

    def select_row(self, number: int) -> AnySelect:
        """One row, counted from 0."""
        return self._cut(number, 1)

    def _cut(self, skip: int, limit: int | None) -> AnySelect:
        if self.start is None:
            return plan.page(self.rows, offset=skip, limit=limit)
        return plan.rows_beside(self.rows, self.start, skip=skip, limit=limit)


@dataclass(slots=True, kw_only=True)
class Flow:
    """One stream as it runs."""

    writer: Writer
    view: View
    section: Section
    written: str
    columns: Sequence[ResultColumn]
    resumption: Resumption | None
    log: StreamLog
    slots: Slots
    ending: Ending = field(default_factory=Ending)
    is_told: bool = False

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """See `dualsql.reading.streams.ResultStream.chunks`."""
        with self.slots:
            await self.log.began()
            try:
                async with aclosing(self._chunks()) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                if not self.is_told:
                    # In a task of its own: whoever reads may be cancelled again and again while this unwinds.
                    self.view.source.finish(self._tell())

    async def _chunks(self) -> AsyncGenerator[Chunk, None]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.view.settings.maximum_stream_duration.total_seconds()
        head = self.writer.head()
        if not self._known:
            yield Chunk(head, 0)
        size = 0
        async with aclosing(self._batches()) as batches:
            try:
                await self._check_known()
                while (chunk := await _next(batches, deadline)) is not None:
                    size += len(chunk.data)
                    _check_bounds(self.ending.rows + chunk.rows, size, self.view.settings)
                    self.ending.rows += chunk.rows
                    yield chunk
                self.ending.is_complete = True
                last = self.writer.end(self._summary())
            except DualResponseError as error:
                last = self._failure(error)
        await self._tell()
        yield Chunk(last, 0)

    def _batches(self) -> AsyncGenerator[Chunk, None]:
        resumption = self.resumption
        select = self.section.select(skip=resumption.skipped if resumption else 0)
        batches = self.view.stream(self.writer, self.columns, select)
        return rest_of(batches, resumption, self.written) if resumption and self._known else batches

    async def _check_known(self) -> None:
        """Where no digest tells it, see that there is still a row where the last known one was."""
        if self.resumption is None or not self._known or self.resumption.last is not None:
            return
        if not await self.view.fetch(self.section.select_row(self._known - 1)):
            raise result_changed()

    @property
    def _known(self) -> int:
        """Rows that the reader has already."""
        return self.resumption.after if self.resumption else 0

    def _summary(self) -> Summary:
        return Summary(rows=self._known + self.ending.rows, complete=self.ending.is_complete)

    def _failure(self, error: DualResponseError) -> bytes:
        """The last record. Where there is no place for one the error goes through, which cuts the connection."""
        self.ending.error = error
        said = self.writer.failure(error, self._summary()) if self.ending.rows else None
        if said is None:
            raise error
        return said

    async def _tell(self) -> None:
        self.is_told = True
        await self.log.ended(self.ending)


async def _next(batches: AsyncGenerator[Chunk, None], deadline: float) -> Chunk | None:
    try:
        # Never around a `yield`: the time would then run out inside whoever reads the stream.
        async with asyncio.timeout_at(deadline):
            return await anext(batches, None)
    except TimeoutError:
        raise _limit("seconds") from None


def _check_bounds(rows: int, size: int, settings: Settings) -> None:
    if rows > settings.maximum_stream_rows:
        raise _limit("rows")
    if size > settings.maximum_stream_bytes:
        raise _limit("bytes")


def _limit(what: str) -> LimitExceededError:
    return LimitExceededError(
        f"The stream reached the most {what} this server sends at once.",
        hint="Continue from the last complete row, or ask for fewer columns.",
        details={"limit": what},
    )
