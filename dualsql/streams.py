"""A result as one stream of bytes; the rule: it ends with a summary or a problem, and both are written down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from dualsql import plan
from dualsql.columns import ResultColumn, chosen_columns
from dualsql.errors import DualResponseError, LimitExceededError, TooManyQueriesError
from dualsql.formats.formats import format_named
from dualsql.formats.writer import Chunk, Format, Options, Summary, Writer
from dualsql.freeze import Seal
from dualsql.resource import Principal, Resource
from dualsql.resuming import (
    Resumption,
    Stretch,
    obstacle_to_resuming,
    require_resumable,
    rest_of,
    result_changed,
    resume_token,
)
from dualsql.settings import Settings
from dualsql.snapshots import etag_of, snapshot_of
from dualsql.view import View
from dualsql_client.wire import SortKey, TotalCountKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What of a result is streamed, and how.

    Attributes:
        format: one of `dualsql.formats.formats.FORMATS`.
        columns: names of the columns wanted, in order; None for all.
        limit: the most rows; None for all of them.
        resumption: go on with a stream of the same request that broke.
    """

    format: str = "ndjson"
    columns: tuple[str, ...] | None = None
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None
    options: Options = field(default_factory=Options)
    resumption: Resumption | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultStream:
    """A stream that is about to begin.

    Attributes:
        chunks: the bytes, in pieces of whole rows; reading them runs the query, closing them stops it. What fails
            before the first row is raised, and so is what a format has no last record for.
        resume: the token to go on with after a break; None where that cannot be, for the reason `no_resume`.
        etag: the same for the same rows in the same form; None where the data may move.
        ending: filled in as the chunks are read.
    """

    name: str
    format: Format
    total_count: int | None
    total_count_kind: TotalCountKind
    chunks: AsyncGenerator[Chunk, None]
    resume: str | None
    no_resume: str | None
    etag: str | None
    ending: Ending


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


class Streams:
    """Opens the streams of one server."""

    def __init__(self, seal: Seal, settings: Settings) -> None:
        self._seal = seal
        self._settings = settings
        self._slots = Slots(settings.maximum_streams)

    def open(
        self,
        view: View,
        request: StreamRequest,
        *,
        resource: Resource,
        principal: Principal | None,
        log: StreamLog,
    ) -> ResultStream:
        """The stream of what `request` asks of `view`. Nothing runs before its first chunk is asked for.

        Raises:
            BadParameterError, UnknownColumnError: there is no such format, or no such column in the result.
            BadCursorError: the resumption is not of this stream.
        """
        written = format_named(request.format)
        columns = chosen_columns(view.columns, request.columns)
        order = view.ordered(request.sort).order
        stretch = Stretch(
            resource_id=resource.id,
            principal=principal,
            order=order.fingerprint(),
            columns=[column.name for column in columns],
            options=request.options,
        )
        if request.resumption is not None:
            require_resumable(self._seal, request.resumption, stretch, written.name)
        no_resume = obstacle_to_resuming(written.name, is_ordered=order.is_total)
        run = _Run(
            writer=written.writer(columns, view.source.engine.dialect, request.options),
            view=view,
            request=request,
            columns=columns,
            log=log,
            slots=self._slots,
        )
        return ResultStream(
            name=resource.name,
            format=written,
            total_count=resource.total_count,
            total_count_kind=resource.total_count_kind,
            chunks=run.chunks(),
            resume=None if no_resume else resume_token(self._seal, stretch),
            no_resume=no_resume,
            etag=self._etag(view, request, columns),
            ending=run.ending,
        )

    def _etag(self, view: View, request: StreamRequest, columns: Sequence[ResultColumn]) -> str | None:
        snapshot = snapshot_of(self._settings.snapshot_tags, view.source.name)
        if snapshot is None or request.resumption is not None:
            return None
        return etag_of(
            view,
            snapshot,
            columns,
            sort=request.sort,
            limit=request.limit,
            written=request.format,
            options=request.options,
        )


@dataclass(slots=True, kw_only=True)
class _Run:
    """One stream as it runs."""

    writer: Writer
    view: View
    request: StreamRequest
    columns: Sequence[ResultColumn]
    log: StreamLog
    slots: Slots
    ending: Ending = field(default_factory=Ending)
    is_told: bool = False

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """See `ResultStream.chunks`."""
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
        request, resumption = self.request, self.request.resumption
        skipped = resumption.skipped if resumption else 0
        batches = self.view.stream(
            self.writer,
            self.columns,
            sort=request.sort,
            limit=None if request.limit is None else max(0, request.limit - skipped),
            skip=skipped,
        )
        return rest_of(batches, resumption, request.format) if resumption and resumption.after else batches

    async def _check_known(self) -> None:
        """Where no digest tells it, see that there is still a row where the last known one was."""
        resumption = self.request.resumption
        if resumption is not None and resumption.after and resumption.last is None:
            rows = self.view.ordered(self.request.sort)
            if not await self.view.fetch(plan.page(rows, offset=resumption.after - 1, limit=1)):
                raise result_changed()

    @property
    def _known(self) -> int:
        """Rows that the reader has already."""
        return self.request.resumption.after if self.request.resumption else 0

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
