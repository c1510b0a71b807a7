"""A result as one stream of bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from dualsql import plan
from dualsql.columns.result import ResultColumn, chosen_columns
from dualsql.errors import BadParameterError, DualResponseError, LimitExceededError, TooManyQueriesError
from dualsql.formats.table import DEFAULT_FORMAT, format_named
from dualsql.formats.writer import Chunk, Format, StreamEnd, Writer, WriterOptions
from dualsql.freeze import Seal
from dualsql.freeze.document import AnySelect
from dualsql.plan import KeysetPosition, Ordered
from dualsql.resource import Principal, Resource
from dualsql.results.cursors import Cursors, CursorScope
from dualsql.results.options import within
from dualsql.results.resume import (
    ResumeScope,
    Resumption,
    obstacle_to_resuming,
    require_resumable,
    rest_of,
    result_changed,
    resume_token,
)
from dualsql.results.view import View, etag_of, snapshot_of
from dualsql.settings import Settings
from dualsql_client.wire import SortKey, TotalCountKind


@dataclass(slots=True)
class StreamEnding:
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

    async def ended(self, ending: StreamEnding) -> None:
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
class RowRange:
    """The rows that a stream is about: all of a statement, or those from a place on, or the first of these."""

    rows: Ordered
    start: KeysetPosition | None
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
class StreamRun:
    """One stream as it runs."""

    writer: Writer
    view: View
    section: RowRange
    written: Format
    columns: Sequence[ResultColumn]
    resumption: Resumption | None
    log: StreamLog
    slots: Slots
    ending: StreamEnding = field(default_factory=StreamEnding)
    is_told: bool = False

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """See `dualsql.results.streams.ResultStream.chunks`."""
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

    def _summary(self) -> StreamEnd:
        return StreamEnd(rows=self._known + self.ending.rows, complete=self.ending.is_complete)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What of a result is streamed, and how.

    Attributes:
        format: one of `dualsql.formats.table.FORMATS`.
        columns: names of the columns wanted, in order; None for all.
        limit: the most rows; None for all of them.
        cursor: of a page (`next_cursor`), from which on there are rows; with the same sort.
        resumption: go on with a stream of the same request that broke.
    """

    format: str = DEFAULT_FORMAT
    columns: tuple[str, ...] | None = None
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None
    cursor: str | None = None
    options: WriterOptions = field(default_factory=WriterOptions)
    resumption: Resumption | None = None


ALL_ROWS = StreamRequest()


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
    ending: StreamEnding


def checked_stream(request: StreamRequest, settings: Settings) -> None:
    """Refuse a stream whose bounds are out of bounds."""
    within("the number of sort keys", len(request.sort), 0, settings.maximum_sort_keys)
    if request.limit is not None:
        within("limit", request.limit, 0, settings.maximum_stream_rows)
    if request.resumption is not None:
        most = settings.maximum_offset if request.limit is None else request.limit
        least = 0 if request.resumption.last is None else 1
        within("after", request.resumption.after, least, most)


class Streams:
    """Opens the streams of one server."""

    def __init__(self, seal: Seal, settings: Settings) -> None:
        self._seal = seal
        self._cursors = Cursors(seal)
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
            BadCursorError, NoTotalOrderError: the cursor or the resumption is not of this, or there can be none.
        """
        written = format_named(request.format)
        columns = chosen_columns(view.columns, request.columns)
        chosen_columns(columns, request.options.text_columns)
        _require_rows_unlike_ends(written, columns)
        rows = view.ordered(request.sort)
        scope = CursorScope(resource_id=resource.id, order=rows.order.fingerprint, principal=principal)
        section = RowRange(rows, self._start(request.cursor, rows, scope), request.limit)
        stretch = ResumeScope(
            scope=scope,
            columns=[column.name for column in columns],
            options=request.options,
            start=request.cursor,
        )
        if request.resumption is not None:
            require_resumable(self._seal, request.resumption, stretch, written)
        no_resume = obstacle_to_resuming(written, is_ordered=rows.order.is_total)
        flow = StreamRun(
            writer=written.writer(columns, view.source.engine.dialect, request.options),
            view=view,
            section=section,
            written=written,
            columns=columns,
            resumption=request.resumption,
            log=log,
            slots=self._slots,
        )
        return ResultStream(
            name=resource.name,
            format=written,
            total_count=resource.total_count,
            total_count_kind=resource.total_count_kind,
            chunks=flow.chunks(),
            resume=None if no_resume else resume_token(self._seal, stretch),
            no_resume=no_resume,
            etag=self._etag(view, section, columns, request),
            ending=flow.ending,
        )

    def _start(self, cursor: str | None, rows: Ordered, scope: CursorScope) -> KeysetPosition | None:
        if cursor is None:
            return None
        plan.require_keyset(rows)
        place = self._cursors.read(cursor, scope).place
        if place.is_backward:
            raise BadParameterError(
                "A stream goes forward.", hint="Begin it at a next_cursor.", details={"name": "cursor"}
            )
        return place

    def _etag(
        self, view: View, section: RowRange, columns: Sequence[ResultColumn], request: StreamRequest
    ) -> str | None:
        snapshot = snapshot_of(self._settings.snapshot_tags, view.source.name)
        if snapshot is None or request.resumption is not None:
            return None
        return etag_of(
            view, snapshot, section.select(), columns, written=request.format, options=request.options
        )


def _require_rows_unlike_ends(written: Format, columns: Sequence[ResultColumn]) -> None:
    """Refuse rows that could look like the last record: a stream that was cut off behind one would look complete."""
    if len(columns) == 1 and columns[0].name in written.end_keys:
        raise BadParameterError(
            f"A row of the column {columns[0].name!r} alone would look like the end of the stream.",
            hint="Take another format, or another column beside it.",
            details={"name": "format"},
        )
