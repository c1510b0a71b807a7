"""A result as one stream of bytes."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from dualsql import plan
from dualsql.columns.result import ResultColumn, chosen_columns
from dualsql.databases.slots import Shares
from dualsql.errors import (
    BadParameterError,
    DualResponseError,
    LimitExceededError,
    ServerUnavailableError,
)
from dualsql.formats.table import DEFAULT_FORMAT, FORMATS
from dualsql.formats.writer import Chunk, Format, StreamEnd, Writer, WriterOptions
from dualsql.freeze import Seal
from dualsql.freeze.document import AnySelect
from dualsql.plan import KeysetPosition, Ordered
from dualsql.resource import within
from dualsql.results.access import AccessControl
from dualsql.results.pages import Cursors
from dualsql.results.view import CursorScope, ReadTarget
from dualsql.settings import Settings
from dualsql_client.wire import SortKey, TotalCountKind


class Resumption(NamedTuple):
    """A request to resume a stream.

    Attributes:
        token: as the broken stream gave it.
        after: the number of complete rows that the caller has.
        last: `row_digest` of the last of them.
    """

    token: str
    after: int
    last: str | None = None


class StreamRequest(NamedTuple):
    """A request for a stream of a result.

    Attributes:
        format: one of `dualsql.formats.table.FORMATS`.
        columns: the names of the columns, in order; None for all.
        limit: the maximum number of rows; None for all.
        cursor: the `next_cursor` of a page with the same sort; the stream begins there.
        resumption: resume a broken stream of the same request.
    """

    format: str = DEFAULT_FORMAT
    columns: tuple[str, ...] | None = None
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None
    cursor: str | None = None
    options: WriterOptions = WriterOptions()
    resumption: Resumption | None = None

    def checked(self, settings: Settings) -> StreamRequest:
        """The same request; raises BadParameterError if a number is out of range."""
        within("the number of sort keys", len(self.sort), 0, settings.maximum_sort_keys)
        if self.limit is not None:
            within("limit", self.limit, 0, settings.maximum_stream_rows)
        if self.resumption is not None:
            most = settings.maximum_offset if self.limit is None else self.limit
            least = 0 if self.resumption.last is None else 1
            within("after", self.resumption.after, least, most)
        return self


ALL_ROWS = StreamRequest()


@dataclass(slots=True, eq=False, repr=False)
class StreamEnding:
    """How far a stream got.

    Attributes:
        rows: the number of rows sent, without those before a resumption.
        bytes: of these rows, before compression.
        is_complete: all rows were sent.
        notes: see `ReadTarget`; those of the database's rows, once these are read in place of kept ones.
        error: what ended the stream; None if it is complete or its reader disconnected.
    """

    rows: int = 0
    bytes: int = 0
    is_complete: bool = False
    notes: Sequence[str] = ()
    error: DualResponseError | None = None


def _stopping() -> ServerUnavailableError:
    return ServerUnavailableError("The server is stopping.")


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ResultStream:
    """A stream that is about to begin.

    Attributes:
        ending: filled in while the chunks are read.
        chunks: the bytes, in pieces of whole rows. Reading them runs the query; closing them stops it. An error
            before the first row is raised, as is any error if the format has no last record for it.
        resume: the token to resume the stream with; None if it cannot be resumed, for the reason `no_resume`.
        etag: equal for the same rows in the same form; None if the data may change.
    """

    name: str
    request: StreamRequest
    format: Format
    total_count: int | None
    total_count_kind: TotalCountKind
    ending: StreamEnding
    chunks: AsyncGenerator[Chunk, None]
    resume: str | None
    etag: str | None

    @property
    def marks_end(self) -> bool:
        """Whether the last bytes show that the stream is complete; otherwise the end of the HTTP body has to."""
        return self.format.has_end and (self.request.options.summary or not self.format.end_keys)

    @property
    def no_resume(self) -> str | None:
        """Why it cannot be resumed."""
        if self.resume is not None:
            return None
        return "FORMAT" if self.format.resuming is None else "NO_TOTAL_ORDER"


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class StreamRun:
    """One running stream. It must not refer to its `ResultStream`: a stream that its reader drops ends at once.

    Attributes:
        rows: the statement in the requested order.
        start: the position where the rows begin; None for the first row.
        columns: the columns to write.
    """

    target: ReadTarget
    request: StreamRequest
    rows: Ordered
    start: KeysetPosition | None
    columns: Sequence[ResultColumn]
    writer: Writer
    streams: Streams
    ending: StreamEnding
    _is_noted: bool = False
    _stopped_by: DualResponseError | None = None
    _waiting: asyncio.Timeout | None = None

    def stop(self, error: DualResponseError) -> None:
        """End the stream with `error`, now or before its next rows."""
        self._stopped_by = error
        if self._waiting is not None:
            with suppress(RuntimeError):  # it does not wait for the database now
                self._waiting.reschedule(asyncio.get_running_loop().time())

    async def read(self) -> AsyncGenerator[Chunk, None]:
        """See `ResultStream.chunks`. The audit gets an event before the query runs and one at the end."""
        target = self.target
        with self.streams.slot(self):
            # Before the query: a server that dies in the middle leaves a trace of who read.
            await self.streams.access.note("stream", target.principal, resource=target.resource)
            await self.streams.access.note_access(target.resource)
            try:
                async with aclosing(self._limited()) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except DualResponseError as error:
                from dualsql.databases.failures import raise_for_input

                raise_for_input(error, target.input_kind, target.reads_conversions)
                raise
            finally:
                if not self._is_noted:
                    # In a task of its own: the reader may be cancelled several times while this unwinds.
                    target.view.source.finish(self._note_end())

    async def _limited(self) -> AsyncGenerator[Chunk, None]:
        ending, settings = self.ending, self.target.view.settings
        deadline = asyncio.get_running_loop().time() + settings.maximum_stream_duration.total_seconds()
        head = self.writer.head()
        # Who resumes has the head already.
        skipped = self.request.resumption.after if self.request.resumption else 0
        if not skipped:
            yield Chunk(head, 0)
        async with aclosing(self._batches()) as batches:
            try:
                while (chunk := await self._next(batches, deadline)) is not None:
                    ending.bytes += len(chunk.data)
                    # Before the chunk is handed on: what exceeds a limit is not sent.
                    if ending.rows + chunk.rows > settings.maximum_stream_rows:
                        raise _limit("rows")
                    if ending.bytes > settings.maximum_stream_bytes:
                        raise _limit("bytes")
                    ending.rows += chunk.rows
                    yield chunk
                ending.is_complete = True
                last = self.writer.end(StreamEnd(skipped + ending.rows))
            except DualResponseError as error:
                ending.error = error
                end = StreamEnd(skipped + ending.rows, complete=False)
                record = self.writer.failure(error, end) if ending.rows else None
                if record is None:  # a format without one: the connection is closed
                    raise
                last = record
        # Before the last record: a reader that has it may disconnect, and then nothing runs after the yield.
        await self._note_end()
        yield Chunk(last, 0)

    async def _next(self, batches: AsyncGenerator[Chunk, None], deadline: float) -> Chunk | None:
        if self._stopped_by is not None:
            raise self._stopped_by
        try:
            # Never around a `yield`: the timeout would then be raised in the reader's code.
            async with asyncio.timeout_at(deadline) as self._waiting:
                return await anext(batches, None)
        except TimeoutError:
            # mypy takes it for None still, which `stop` changes meanwhile.
            raise self._stopped_by or _limit("seconds") from None  # type: ignore[redundant-expr]

    def _batches(self) -> AsyncGenerator[Chunk, None]:
        resumption, view = self.request.resumption, self.target.view
        if resumption is None or not resumption.after:
            return view.stream(self.writer, self.columns, self.select(), self.target.total.rows)
        from dualsql.results.resuming import rest_of

        # The caller's last row is read again if it is compared.
        skipped = resumption.after - (resumption.last is not None)
        return rest_of(self, resumption, view.stream(self.writer, self.columns, self.select(skip=skipped)))

    def select(self, *, skip: int = 0) -> AnySelect:
        """The Select of the stream's rows after the first `skip`."""
        limit = self.request.limit
        select = self.select_rows(skip, None if limit is None else max(0, limit - skip))
        # Sorted, a million rows take two seconds and half a gigabyte before the first one is sent.
        return select.order_by(None) if self.rows.is_numbered else select

    def select_rows(self, skip: int, limit: int | None) -> AnySelect:
        """At most `limit` rows after the first `skip`, in their order."""
        if self.start is None:
            return plan.page(self.rows, offset=skip, limit=limit)
        return plan.rows_beside(self.rows, self.start, skip=skip, limit=limit)[0]

    async def _note_end(self) -> None:
        self._is_noted = True
        ending = self.ending
        await self.streams.access.note(
            "read",
            self.target.principal,
            resource=self.target.resource,
            rows=ending.rows,
            is_complete=ending.is_complete,
            code=ending.error.code if ending.error else None,
        )


def _limit(what: str) -> LimitExceededError:
    return LimitExceededError(
        f"The stream reached this server's limit of {what} in one stream.",
        hint="Continue from the last complete row, or ask for fewer columns.",
        details={"limit": what},
    )


class Streams:
    """Opens the streams of one server, limits how many run at once, and ends them when the server stops."""

    def __init__(self, seal: Seal, settings: Settings, access: AccessControl) -> None:
        self._seal = seal
        self._cursors = Cursors(seal)
        self._settings = settings
        self.access = access
        self.renew()

    def renew(self) -> None:
        """Allow streams again, in another event loop."""
        self._shares = Shares(self._settings.maximum_streams)
        self._running: set[StreamRun] = set()
        self._is_closed = False
        self._is_idle = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    @contextmanager
    def slot(self, stream: StreamRun) -> Iterator[None]:
        """A slot for the stream during the block.

        Raises:
            TooManyQueriesError: see `Shares`; ServerUnavailableError: the server is stopping.
        """
        if self._is_closed:
            raise _stopping()
        # A stream of an event loop that was left ends after `renew`.
        shares, running, is_idle = self._shares, self._running, self._is_idle
        # After five seconds, a stream that was refused may be asked for again.
        caller = shares.require_room("streams", 5)
        running.add(stream)
        try:
            yield
        finally:
            shares.give_back(caller)
            running.discard(stream)
            if not running:
                is_idle.set()

    async def drain(self, timeout: timedelta) -> int:
        """Begin no further stream, and end those that still run after `timeout`. Returns how many these were."""
        self._is_closed = True
        self._is_idle.clear()
        try:
            if self._running:
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout.total_seconds()):
                        await self._is_idle.wait()
        finally:
            ended = len(self._running)
            self.end()
        return ended

    def end(self) -> None:
        """End all streams now, each with an error that tells its reader to resume."""
        self._is_closed = True
        for stream in self._running:
            stream.stop(_stopping())

    def open(self, target: ReadTarget, request: StreamRequest) -> ResultStream:
        """Open a stream. Nothing runs before its first chunk is requested.

        Raises:
            RateLimitedError: see `AccessControl.admit`. The others: see `ResultServer.stream`.
        """
        self.access.admit("stream", target.principal)
        return self._opened(target, request, StreamEnding())

    def _opened(self, target: ReadTarget, request: StreamRequest, ending: StreamEnding) -> ResultStream:
        view, output = target.view, FORMATS[request.format]
        ending.notes = target.notes
        columns = view.columns if request.columns is None else chosen_columns(view.columns, request.columns)
        if request.options.text_columns:  # names that are not among the columns are refused
            chosen_columns(columns, request.options.text_columns)
        if request.options.summary and len(columns) == 1 and columns[0].name in output.end_keys:
            # A stream that is cut off after such a row would look complete.
            raise BadParameterError(
                f"The column {columns[0].name!r} cannot be streamed alone: its rows look like a stream's last record.",
                hint="Use another format, summary=false, or add a second column.",
                details={"name": "format"},
            )
        rows = view.ordered(request.sort)
        scope = target.scope(rows)
        run = StreamRun(
            target=target,
            request=request,
            rows=rows,
            start=None if request.cursor is None else self._start(request.cursor, rows, scope),
            columns=columns,
            writer=view.writer(output, columns, request.options),
            streams=self,
            ending=ending,
        )
        resume = etag = None
        parts = token_parts(scope, [column.name for column in columns], request.options, request.cursor)
        if request.resumption is not None:
            from dualsql.results.resuming import require_resumable

            require_resumable(self._seal, request.resumption, parts, output)
        elif view.source.name in self._settings.snapshot_tags:
            from dualsql.results.snapshots import etag_of

            etag = etag_of(run, self._settings.snapshot_tags[view.source.name])
        if output.resuming is not None and rows.order.is_total:
            resume = urlsafe_b64encode(self._seal.sign(*parts)).rstrip(b"=").decode()
        if target.instead is None:
            chunks = run.read()
        else:
            from dualsql.results.kept_rows import chunks_or_live

            chunks = chunks_or_live(
                run, target.instead, lambda live: self._opened(live, request, ending).chunks
            )
        return ResultStream(
            name=target.resource.name,
            request=request,
            format=output,
            total_count=target.total.rows,
            total_count_kind=target.total.kind,
            ending=ending,
            chunks=chunks,
            resume=resume,
            etag=etag,
        )

    def _start(self, cursor: str, rows: Ordered, scope: CursorScope) -> KeysetPosition:
        plan.require_keyset(rows)
        position = self._cursors.read(cursor, scope).position
        if position.is_backward:
            raise BadParameterError(
                "A stream cannot start at a previous_cursor.",
                hint="Use the next_cursor of a page.",
                details={"name": "cursor"},
            )
        return position


def token_parts(
    scope: CursorScope, columns: Sequence[str], options: WriterOptions, start: str | None
) -> Sequence[str | bytes | None]:
    """What a token is valid for: all that changes the bytes, but the format.

    Args:
        columns: names, in the order they are written.
        start: the cursor at which the stream began.
    """
    return ["dualsql.resume/1", *scope, start, repr(replace(options, summary=True)), *columns]
