"""A result as one stream of bytes, and resuming a broken stream with exactly the bytes that are missing."""

from __future__ import annotations

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256

from dualsql import plan
from dualsql.columns.result import ResultColumn, chosen_columns
from dualsql.databases.slots import Shares
from dualsql.errors import (
    BadCursorError,
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    LimitExceededError,
    QueryExecutionError,
    ResultChangedError,
    ServerUnavailableError,
    blaming,
)
from dualsql.formats.table import DEFAULT_FORMAT, FORMATS, format_named
from dualsql.formats.writer import Chunk, FirstRow, Format, StreamEnd, Writer, WriterOptions
from dualsql.freeze import Seal
from dualsql.freeze.document import AnySelect
from dualsql.plan import KeysetPosition, Ordered
from dualsql.resource import within
from dualsql.results.access import AccessControl
from dualsql.results.cursors import Cursors, CursorScope
from dualsql.results.view import OF_VALUES, ReadTarget, is_of_kept_rows
from dualsql.settings import Settings, SnapshotTags
from dualsql_client.wire import SortKey, TotalCountKind, row_digest

TOKEN_LENGTH = 43
"""Characters: 32 bytes in base64."""

_LABEL = "dualsql.resume/1"

_RETRY_STREAM = 5
"""Seconds after which a stream that was refused may be asked for again."""

InsteadOf = Callable[[], Awaitable[ReadTarget]]
"""Opens the rows of the database that are read in place of kept ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A request to resume a stream.

    Attributes:
        token: as the broken stream gave it.
        after: the number of complete rows that the caller has.
        last: `row_digest` of the last of them.
    """

    token: str
    after: int
    last: str | None = None

    @property
    def skipped(self) -> int:
        """The number of rows that are not read again: those the caller has, without the last one if it is compared."""
        return self.after - (self.last is not None)


TokenParts = Sequence[str | bytes | None]
"""What a token is valid for; the format is not part of it."""


def obstacle_to_resuming(written: Format, *, is_ordered: bool) -> str | None:
    """Why a stream cannot be resumed, for `NO_RESUME_HEADER`; None if it can."""
    if written.resuming is None:
        return "FORMAT"
    return None if is_ordered else "NO_TOTAL_ORDER"


def resume_token(seal: Seal, parts: TokenParts) -> str:
    """The token of one stream."""
    return urlsafe_b64encode(seal.sign(_LABEL, *parts)).rstrip(b"=").decode()


def require_resumable(seal: Seal, asked: Resumption, parts: TokenParts, written: Format) -> None:
    """Check that the token belongs to this stream.

    Raises:
        BadCursorError: the token is of another stream.
        BadParameterError: streams of this format cannot be resumed, or its rows have no digest.
    """
    # First: who has no valid token learns nothing about formats either.
    if not _is_token_of(seal, asked.token, parts):
        raise BadCursorError
    if written.resuming is None:
        resumed = [name for name, known in FORMATS.items() if known.resuming is not None]
        raise BadParameterError(
            f"A stream of {written.name} cannot be resumed.",
            hint=f"Start a new stream, or use one of these formats: {', '.join(resumed)}.",
            details={"name": "resume"},
        )
    if asked.last is not None and written.resuming.first_row is None:
        raise BadParameterError(
            f"Rows of {written.name} have no digest.", hint="Leave last out.", details={"name": "last"}
        )


def _is_token_of(seal: Seal, token: str, parts: TokenParts) -> bool:
    try:
        signature = urlsafe_b64decode(token + "=") if len(token) == TOKEN_LENGTH else b""
    except (binascii.Error, ValueError):
        return False
    return seal.verify(signature, _LABEL, *parts)


def token_parts(
    scope: CursorScope, columns: Sequence[str], options: WriterOptions, start: str | None
) -> TokenParts:
    """What a token is valid for: a stream of one resource, order and principal, with these columns, from `start` on.

    Args:
        columns: names, in the order they are written.
        start: the cursor at which the stream began.
    """
    who = scope.principal
    # All that changes the bytes is part of the token: the rest must continue the caller's file byte for byte.
    written = repr(replace(options, summary=True))
    return [
        scope.resource_id,
        None if who is None else who.id,
        None if who is None else who.tenant,
        scope.order,
        start,
        written,
        *columns,
    ]


async def rest_of(
    batches: AsyncGenerator[Chunk, None], resumption: Resumption, written: Format
) -> AsyncGenerator[Chunk, None]:
    """The rows after those that the caller has.

    Args:
        batches: from the caller's last row if its digest is known, otherwise from the first missing row.

    Raises:
        ResultChangedError: the caller's last row has changed.
    """
    resuming = written.resuming
    assert resuming is not None, "require_resumable was asked"
    async with aclosing(batches):
        first = await anext(batches, None)
        if resumption.last is not None and resuming.first_row is not None:
            first = _after_known(first, resumption.last, resuming.first_row)
        # Between the caller's last row and the first missing one; the writer puts it between later rows.
        elif first is not None and resuming.separator:
            first = Chunk(resuming.separator + first.data, first.rows)
        if first is not None:
            yield first
        async for chunk in batches:
            yield chunk


def _after_known(first: Chunk | None, digest: str, first_row: FirstRow) -> Chunk:
    row, rest = first_row(b"" if first is None else first.data)
    if first is None or row_digest(row) != digest:
        raise result_changed()
    return Chunk(rest, first.rows - 1)


def result_changed() -> ResultChangedError:
    """The error for a stream whose data have changed since it broke."""
    return ResultChangedError("The rows have changed since the stream broke.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
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
    options: WriterOptions = field(default_factory=WriterOptions)
    resumption: Resumption | None = None

    def checked(self, settings: Settings) -> StreamRequest:
        """The same request.

        Raises:
            BadParameterError: a number is out of range.
        """
        within("the number of sort keys", len(self.sort), 0, settings.maximum_sort_keys)
        if self.limit is not None:
            within("limit", self.limit, 0, settings.maximum_stream_rows)
        if self.resumption is not None:
            most = settings.maximum_offset if self.limit is None else self.limit
            least = 0 if self.resumption.last is None else 1
            within("after", self.resumption.after, least, most)
        return self


ALL_ROWS = StreamRequest()


@dataclass(slots=True)
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


class RunningStreams:
    """Limits the number of streams that run at once, and ends them when the server stops."""

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)
        self._running: set[StreamRun] = set()
        self._is_closed = False
        self._is_idle = asyncio.Event()

    @contextmanager
    def taken(self, run: StreamRun) -> Iterator[None]:
        """A slot for the stream during the block.

        Raises:
            TooManyQueriesError: see `Shares`; ServerUnavailableError: the server is stopping.
        """
        if self._is_closed:
            raise _stopping()
        caller = self._shares.require_room("streams", _RETRY_STREAM)
        self._running.add(run)
        try:
            yield
        finally:
            self._shares.give_back(caller)
            self._running.discard(run)
            if not self._running:
                self._is_idle.set()

    @property
    def running(self) -> int:
        """How many streams run."""
        return len(self._running)

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
        for run in self._running:
            run.stop(_stopping())


def _stopping() -> ServerUnavailableError:
    return ServerUnavailableError("The server is stopping.")


@dataclass(slots=True, kw_only=True, eq=False)
class StreamRun:
    """One running stream.

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
    format: Format
    writer: Writer
    access: AccessControl
    slots: RunningStreams
    ending: StreamEnding = field(default_factory=StreamEnding)
    is_noted: bool = False
    stopped_by: DualResponseError | None = None
    waiting: asyncio.Timeout | None = None

    def stop(self, error: DualResponseError) -> None:
        """End the stream with `error`, now or before its next rows."""
        self.stopped_by = error
        if self.waiting is not None:
            with suppress(RuntimeError):  # it does not wait for the database now
                self.waiting.reschedule(asyncio.get_running_loop().time())

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        """See `ResultStream.chunks`. The audit gets an event before the query runs and one at the end."""
        target = self.target
        with self.slots.taken(self), blaming(target.asked, reads_conversions=target.reads_conversions):
            # Before the query: a server that dies in the middle leaves a trace of who read.
            await self.access.note("stream", target.principal, resource=target.resource)
            await self.access.note_access(target.resource)
            try:
                async with aclosing(self._chunks()) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                if not self.is_noted:
                    # In a task of its own: the reader may be cancelled several times while this unwinds.
                    self.target.view.source.finish(self._note_end())

    async def _chunks(self) -> AsyncGenerator[Chunk, None]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.target.view.settings.maximum_stream_duration.total_seconds()
        head = self.writer.head()
        # Who resumes has the head already.
        if not self._known:
            yield Chunk(head, 0)
        async with aclosing(self._batches()) as batches:
            try:
                await self._check_known()
                while (chunk := await self._next(batches, deadline)) is not None:
                    self.ending.bytes += len(chunk.data)
                    # Before the chunk is handed on: what exceeds a limit is not sent.
                    _check_bounds(self.ending.rows + chunk.rows, self.ending.bytes, self.target.view.settings)
                    self.ending.rows += chunk.rows
                    yield chunk
                self.ending.is_complete = True
                last = self.writer.end(self._summary())
            except DualResponseError as error:
                last = self._failure(self._of_kept_rows(error))
        # Before the last record: a reader that has it may disconnect, and then nothing runs after the yield.
        await self._note_end()
        yield Chunk(last, 0)

    async def _next(self, batches: AsyncGenerator[Chunk, None], deadline: float) -> Chunk | None:
        if self.stopped_by is not None:
            raise self.stopped_by
        try:
            # Never around a `yield`: the timeout would then be raised in the reader's code.
            async with asyncio.timeout_at(deadline) as self.waiting:
                return await anext(batches, None)
        except TimeoutError:
            raise self._why_late() from None

    def _why_late(self) -> DualResponseError:
        return self.stopped_by or _limit("seconds")

    def _batches(self) -> AsyncGenerator[Chunk, None]:
        resumption = self.request.resumption
        select = self.select(skip=resumption.skipped if resumption else 0)
        batches = self.target.view.stream(self.writer, self.columns, select)
        return rest_of(batches, resumption, self.format) if resumption and self._known else batches

    def select(self, *, skip: int = 0) -> AnySelect:
        """The Select of the stream's rows after the first `skip`."""
        limit = self.request.limit
        cut = self._cut(skip, None if limit is None else max(0, limit - skip))
        # Sorted, a million rows take two seconds and half a gigabyte before the first one is sent.
        return cut.order_by(None) if self.rows.is_numbered else cut

    def _cut(self, skip: int, limit: int | None) -> AnySelect:
        if self.start is None:
            return plan.page(self.rows, offset=skip, limit=limit)
        return plan.rows_beside(self.rows, self.start, skip=skip, limit=limit)

    async def _check_known(self) -> None:
        """Without a digest, check that the caller's last row still exists."""
        if self.request.resumption is None or not self._known or self.request.resumption.last is not None:
            return
        if not await self.target.view.fetch(self._cut(self._known - 1, 1)):
            raise result_changed()

    @property
    def _known(self) -> int:
        """The number of rows that the reader has."""
        return self.request.resumption.after if self.request.resumption else 0

    def _summary(self) -> StreamEnd:
        return StreamEnd(rows=self._known + self.ending.rows, complete=self.ending.is_complete)

    def _of_kept_rows(self, error: DualResponseError) -> DualResponseError:
        """The error; one with a hint, if a value of kept rows cannot be computed after rows were sent."""
        target = self.target
        if not (self.ending.rows and target.asked and target.view.kept and isinstance(error, OF_VALUES)):
            return error
        return QueryExecutionError(
            "A value of a later kept row cannot be computed as its database computes it.",
            hint="Leave that row or that expression out, or read the answer in pages: the database answers those.",
        )

    def _failure(self, error: DualResponseError) -> bytes:
        """The error as the last record. A format without one raises the error, which closes the connection."""
        self.ending.error = error
        record = self.writer.failure(error, self._summary()) if self.ending.rows else None
        if record is None:
            raise error
        return record

    async def _note_end(self) -> None:
        self.is_noted = True
        error = self.ending.error
        await self.access.note(
            "read",
            self.target.principal,
            resource=self.target.resource,
            rows=self.ending.rows,
            is_complete=self.ending.is_complete,
            code=error.code if error else None,
        )


def _check_bounds(rows: int, size: int, settings: Settings) -> None:
    if rows > settings.maximum_stream_rows:
        raise _limit("rows")
    if size > settings.maximum_stream_bytes:
        raise _limit("bytes")


def _limit(what: str) -> LimitExceededError:
    return LimitExceededError(
        f"The stream reached this server's limit of {what} in one stream.",
        hint="Continue from the last complete row, or ask for fewer columns.",
        details={"limit": what},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultStream:
    """A stream that is about to begin.

    Attributes:
        chunks: the bytes, in pieces of whole rows. Reading them runs the query; closing them stops it. An error
            before the first row is raised, as is any error if the format has no last record for it.
        resume: the token to resume the stream with; None if it cannot be resumed, for the reason `no_resume`.
        etag: equal for the same rows in the same form; None if the data may change.
        marks_end: whether the last bytes show that the stream is complete; otherwise the end of the HTTP body has to.
        ending: filled in while the chunks are read.
    """

    name: str
    format: Format
    marks_end: bool
    total_count: int | None
    total_count_kind: TotalCountKind
    chunks: AsyncGenerator[Chunk, None]
    resume: str | None
    no_resume: str | None
    etag: str | None
    ending: StreamEnding


class Streams:
    """Opens the streams of one server."""

    def __init__(self, seal: Seal, settings: Settings, access: AccessControl) -> None:
        self._seal = seal
        self._cursors = Cursors(seal)
        self._settings = settings
        self._access = access
        self._slots = RunningStreams(settings.maximum_streams)

    def renew(self) -> None:
        """Allow streams again, in another event loop."""
        self._slots = RunningStreams(self._settings.maximum_streams)

    async def drain(self, timeout: timedelta) -> int:
        """See `RunningStreams.drain`."""
        return await self._slots.drain(timeout)

    @property
    def running(self) -> int:
        """How many run."""
        return self._slots.running

    def end(self) -> None:
        """End all streams now."""
        self._slots.end()

    def open(
        self, target: ReadTarget, request: StreamRequest, *, instead: InsteadOf | None = None
    ) -> ResultStream:
        """Open a stream. Nothing runs before its first chunk is requested.

        Args:
            instead: what is read where the kept rows cannot be read, or hold a value that only the database has the
                right answer for.

        Raises:
            RateLimitedError: see `AccessControl.admit`.
            BadParameterError, UnknownColumnError: the format or a column is unknown.
            BadCursorError, NoTotalOrderError: the cursor or the resumption is not valid, or the result has none.
        """
        self._access.admit("stream", target.principal)
        return self._opened(target, request, instead, StreamEnding())

    def _opened(
        self, target: ReadTarget, request: StreamRequest, instead: InsteadOf | None, ending: StreamEnding
    ) -> ResultStream:
        view, written = target.view, format_named(request.format)
        ending.notes = target.notes
        columns = chosen_columns(view.columns, request.columns)
        # Raises for names that are not among the columns.
        chosen_columns(columns, request.options.text_columns)
        if request.options.summary:
            _require_rows_unlike_ends(written, columns)
        rows = view.ordered(request.sort)
        scope = CursorScope(resource_id=target.key, order=rows.order.fingerprint, principal=target.principal)
        run = StreamRun(
            target=target,
            request=request,
            rows=rows,
            start=self._start(request.cursor, rows, scope),
            columns=columns,
            format=written,
            writer=view.writer(written, columns, request.options),
            access=self._access,
            slots=self._slots,
            ending=ending,
        )
        parts = token_parts(scope, [column.name for column in columns], request.options, request.cursor)
        if request.resumption is not None:
            require_resumable(self._seal, request.resumption, parts, written)
        no_resume = obstacle_to_resuming(written, is_ordered=rows.order.is_total)
        return ResultStream(
            name=target.resource.name,
            format=written,
            marks_end=written.has_end and (request.options.summary or not written.end_keys),
            total_count=target.total.rows,
            total_count_kind=target.total.kind,
            chunks=run.chunks() if instead is None else self._chunks_or_live(run, instead),
            resume=None if no_resume else resume_token(self._seal, parts),
            no_resume=no_resume,
            etag=self._etag(run),
            ending=run.ending,
        )

    async def _chunks_or_live(self, run: StreamRun, instead: InsteadOf) -> AsyncGenerator[Chunk, None]:
        """The chunks of kept rows; those of the database, if the first rows cannot be answered from them."""
        waiting: list[Chunk] = []
        try:
            async with aclosing(run.chunks()) as chunks:
                async for chunk in chunks:
                    waiting.append(chunk)
                    if run.ending.rows or run.ending.is_complete:
                        for one in waiting:
                            yield one
                        waiting.clear()
                return
        except DualResponseError as error:
            # Cursors and resumptions are of kept rows.
            is_begun = run.ending.rows or run.request.cursor is not None or run.request.resumption is not None
            if is_begun or not is_of_kept_rows(error):
                raise
        run.ending.error = None
        live = self._opened(await instead(), run.request, None, run.ending)
        async with aclosing(live.chunks) as chunks:
            async for chunk in chunks:
                yield chunk

    def _start(self, cursor: str | None, rows: Ordered, scope: CursorScope) -> KeysetPosition | None:
        if cursor is None:
            return None
        plan.require_keyset(rows)
        place = self._cursors.read(cursor, scope).place
        if place.is_backward:
            raise BadParameterError(
                "A stream cannot start at a previous_cursor.",
                hint="Use the next_cursor of a page.",
                details={"name": "cursor"},
            )
        return place

    def _etag(self, run: StreamRun) -> str | None:
        snapshot = snapshot_of(self._settings.snapshot_tags, run.target.view.source.name)
        return None if snapshot is None or run.request.resumption is not None else etag_of(run, snapshot)


def _require_rows_unlike_ends(written: Format, columns: Sequence[ResultColumn]) -> None:
    """Refuse rows that could look like the last record: a stream cut off after such a row would look complete."""
    if len(columns) == 1 and columns[0].name in written.end_keys:
        raise BadParameterError(
            f"The column {columns[0].name!r} cannot be streamed alone: its rows look like a stream's last record.",
            hint="Use another format, summary=false, or add a second column.",
            details={"name": "format"},
        )


def snapshot_of(tags: SnapshotTags, source: str) -> str | None:
    """The tag of the present state of a source's data, from `Settings.snapshot_tags`; None if the data may change.

    Raises:
        ConfigurationError: the operator's function returned something else.
    """
    tag = tags.get(source)
    value = tag() if callable(tag) else tag
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(
            f"The snapshot tag of {source!r} must be a string or None, and is a {type(value).__name__}."
        )
    return value


def etag_of(run: StreamRun, snapshot: str) -> str:
    """A weak ETag (RFC 9110, section 8.8.1). Callers who see other rows or other values get another one.

    It covers everything that decides the bytes: the SQL, its bound values, the settings that the database's own
    policies read, and the format.
    """
    view = run.target.view
    compiled = run.select().compile(dialect=view.rules.dialect(view.source.engine.dialect))
    values = compiled.construct_params(dict(view.rules.values))
    parts = (
        snapshot,
        view.source.name,
        str(compiled),
        sorted(values.items()),
        list(view.rules.settings),
        [column.describe() for column in run.columns],
        run.request.format,
        run.request.options,
        *([view.run] if view.run else ()),
    )
    return f'W/"{sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]}"'
