"""A result as one stream of bytes; the rule: what its headers will say is known before its query runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from dualsql import plan
from dualsql.columns import ResultColumn, chosen_columns
from dualsql.errors import BadParameterError
from dualsql.formats.formats import format_named
from dualsql.formats.writer import Chunk, Format, Options
from dualsql.freeze import Seal
from dualsql.parameters import within
from dualsql.plan import Ordered, Place
from dualsql.reading.cursors import Cursors, Scope
from dualsql.reading.flow import Ending, Flow, Section, Slots, StreamLog
from dualsql.reading.resuming import (
    Resumption,
    Stretch,
    obstacle_to_resuming,
    require_resumable,
    resume_token,
)
from dualsql.reading.snapshots import etag_of, snapshot_of
from dualsql.reading.view import View
from dualsql.resource import Principal, Resource
from dualsql.settings import Settings
from dualsql_client.wire import PROBLEM_KEY, SUMMARY_KEY, SortKey, TotalCountKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What of a result is streamed, and how.

    Attributes:
        format: one of `dualsql.formats.formats.FORMATS`.
        columns: names of the columns wanted, in order; None for all.
        limit: the most rows; None for all of them.
        cursor: of a page (`next_cursor`), from which on there are rows; with the same sort.
        resumption: go on with a stream of the same request that broke.
    """

    format: str = "ndjson"
    columns: tuple[str, ...] | None = None
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None
    cursor: str | None = None
    options: Options = field(default_factory=Options)
    resumption: Resumption | None = None


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
        scope = Scope(resource_id=resource.id, order=rows.order.fingerprint, principal=principal)
        section = Section(rows, self._start(request.cursor, rows, scope), request.limit)
        stretch = Stretch(
            scope=scope,
            columns=[column.name for column in columns],
            options=request.options,
            start=request.cursor,
        )
        if request.resumption is not None:
            require_resumable(self._seal, request.resumption, stretch, written.name)
        no_resume = obstacle_to_resuming(written.name, is_ordered=rows.order.is_total)
        flow = Flow(
            writer=written.writer(columns, view.source.engine.dialect, request.options),
            view=view,
            section=section,
            written=written.name,
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

    def _start(self, cursor: str | None, rows: Ordered, scope: Scope) -> Place | None:
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
        self, view: View, section: Section, columns: Sequence[ResultColumn], request: StreamRequest
    ) -> str | None:
        snapshot = snapshot_of(self._settings.snapshot_tags, view.source.name)
        if snapshot is None or request.resumption is not None:
            return None
        return etag_of(
            view, snapshot, section.select(), columns, written=request.format, options=request.options
        )


def _require_rows_unlike_ends(written: Format, columns: Sequence[ResultColumn]) -> None:
    """Refuse NDJSON whose rows could look like its last record: cut off behind one, it would look whole."""
    names = [column.name for column in columns]
    if written.name == "ndjson" and names in ([SUMMARY_KEY], [PROBLEM_KEY]):
        raise BadParameterError(
            f"A row of the column {names[0]!r} alone would look like the end of the stream.",
            hint="Take another format, or another column beside it.",
            details={"name": "format"},
        )
