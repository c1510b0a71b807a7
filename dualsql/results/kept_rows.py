"""Reads the kept rows of a result in place of its database, where that is possible; loaded with the first of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from sqlalchemy import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.databases.backends import backend_named
from dualsql.databases.source import Source
from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DatabaseBusyError,
    DatabaseUnreachableError,
    DualResponseError,
    InvalidSQLError,
    QueryExecutionError,
    StorageError,
    TamperedError,
)
from dualsql.formats.writer import Chunk, Format, Writer, WriterOptions
from dualsql.freeze.document import AnySelect
from dualsql.log import log_failure
from dualsql.resource import INTERRUPTED, KeptRows, Principal, Resource
from dualsql.results.view import NOT_KEPT_ROWS, Derived, ReadTarget, View, Views
from dualsql_client.wire import KeptDescription, SortKey

if TYPE_CHECKING:
    from dualsql.results.create import Creation, ShownSample
    from dualsql.results.streams import StreamRun

T = TypeVar("T")
_log = logging.getLogger(__name__)

ROWS_OF_NOW = (
    "These are the rows of the database now: the kept rows of the result cannot answer this query with the same "
    "meaning."
)
"""The note of an answer that was read from the database although the rows of the result are kept."""

OF_VALUES = (QueryExecutionError, InvalidSQLError, BadParameterError)
"""Errors of a query over kept rows that its database may answer: a number overflows there, a text is not ASCII."""


def is_of_kept_rows(error: BaseException) -> bool:
    """Whether an error of reading kept rows may be one of their file or of DuckDB. The database is read instead."""
    if isinstance(error, DatabaseBusyError):
        return error.is_full or isinstance(error, DatabaseUnreachableError)
    if isinstance(error, StorageError):
        return not isinstance(error, TamperedError)
    return isinstance(error, OF_VALUES)


class Original(NamedTuple):
    """What the rows of a kept result are written as: the columns and the dialect of the statement that ran.

    Attributes:
        copied: see `KeptRows`.
    """

    derived: Derived
    dialect: Dialect
    copied: Sequence[int | None]

    def writer(self, output: Format, columns: Sequence[ResultColumn], options: WriterOptions) -> Writer:
        """The writer of some of the columns, which writes what the database would have written."""
        backend = backend_named(self.dialect.name)
        copied_writer = None if backend is None else backend.copied_writers.get(output.name)
        all_columns = self.derived.shape.columns
        numbers = [self.copied[all_columns.index(column)] for column in columns] if self.copied else [None]
        if copied_writer is None or None in numbers:
            return output.writer(columns, self.dialect, options)
        return copied_writer(columns, self.dialect, options, numbers)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class KeptView(View):
    """The kept rows of a result, or a question over them.

    Attributes:
        original: of rows that are not questioned, and of answers that are written as those of the database.
        is_answer: it is a question.
    """

    original: Original | None
    is_answer: bool = False

    @property
    def output(self) -> Derived:
        return self.derived if self.original is None else self.original.derived

    @property
    def dialect(self) -> Dialect:
        return self.source.engine.dialect if self.original is None else self.original.dialect

    def writer(self, output: Format, columns: Sequence[ResultColumn], options: WriterOptions) -> Writer:
        if self.original is None:
            return output.writer(columns, self.dialect, options)
        return self.original.writer(output, columns, options)

    def over(self, derived: Derived) -> View:
        return replace(self, derived=derived, original=None, is_answer=True)

    def answering(self, derived: Derived, live: View) -> View:
        """A question over these rows, whose answer is written as that of `live` is."""
        original = Original(live.derived, live.dialect, ())
        return replace(self, derived=derived, original=original, is_answer=True)

    async def stream(
        self,
        writer: Writer,
        columns: Sequence[ResultColumn],
        select: AnySelect,
        expected_rows: int | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """See `View`. After the first rows, the database is not read instead: the error says what to do."""
        rows = 0
        try:
            async with aclosing(View.stream(self, writer, columns, select, expected_rows)) as chunks:
                async for chunk in chunks:
                    rows += chunk.rows
                    yield chunk
        except OF_VALUES as error:
            if not rows or not self.is_answer:
                raise
            raise QueryExecutionError(
                "A value of a later kept row cannot be computed as its database computes it.",
                hint="Leave that row or that expression out, or read the answer in pages: the database answers those.",
            ) from error


class KeptAnswer(NamedTuple):
    """The answer to a question over kept rows.

    Attributes:
        view: None if DuckDB cannot be asked in this way.
        as_of: when the kept rows were read from the database.
    """

    view: View | None
    as_of: datetime


@dataclass(slots=True)
class RunProgress:
    """How many rows were read of a run that is going to be kept."""

    rows: int = 0


class RunResult(NamedTuple):
    """The run of the statement of a new resource.

    Attributes:
        view: what the sample is read from.
        kept: where the rows are kept, or why they are not; None if nobody asked for that.
        notes: what the response says of the rows.
    """

    display: ShownSample
    view: View
    kept: KeptRows | None = None
    notes: Sequence[str] = ()


class Runner(Protocol):
    """Runs the statements of new resources, and may keep their rows."""

    async def run(
        self, view: View, resource: Resource, creation: Creation, progress: RunProgress | None
    ) -> RunResult:
        """Read the sample (`Creator.sampled`); keep the rows if that is asked for. The resource has no rows yet."""

    async def record(self, resource_id: str) -> KeptRows | None:
        """The record of the kept rows of a resource that is going to be deleted."""

    async def forget(self, resource_id: str, kept: KeptRows | None) -> None:
        """Delete the kept rows of a resource that was deleted, or that is not created."""


class KeptReader(Protocol):
    """Reads the rows that a run of a statement left elsewhere than in its database."""

    async def view(self, resource: Resource, live: View) -> KeptView | None:
        """The kept rows of a resource; None if its database has to be read.

        Args:
            live: what the reader sees of it in its database.

        Raises:
            TamperedError: the record of the kept rows or their file was changed.
        """

    async def target(self, live: ReadTarget, sort: Sequence[SortKey]) -> ReadTarget:
        """The kept rows in this order; `live`, which are those of the database, if they have to be read."""

    async def can_use(self, view: View, live: View, uses: Iterable[tuple[str, str]]) -> bool:
        """Whether kept rows can be used so with the meaning that their columns have in the database.

        Args:
            view: the kept rows. live: the rows in the database.
            uses: names of columns, each with what is done with its values ("sorted").
        """

    async def compares_by_code_point(self, source: Source) -> bool:
        """Whether a database is known to compare and sort all of its texts by code point, as kept rows do."""

    async def describe(self, resource: Resource, live: View) -> KeptDescription:
        """Whether the reader reads the kept rows of a resource; raises what `view` raises."""


def storage_missing() -> ConfigurationError:
    """The error for rows that are to be kept where there is no place for them."""
    return ConfigurationError(
        "keep needs a storage.",
        hint='DualResponseServer(features=default_features(Kept("/var/lib/dualsql/kept")), ...).',
    )


async def kept_or_live(view: View, read: Awaitable[T], instead: Callable[[], Awaitable[T]]) -> T:
    """What `read` returns, which reads the view; what `instead` returns, if these are kept rows that cannot be read."""
    try:
        return await read
    except DualResponseError as error:
        if view.kept is None:
            raise
        require_of_kept_rows(error)
    return await instead()


async def view_of(views: Views, resource: Resource, principal: Principal | None) -> View:
    """What `principal` sees of a resource: the kept rows, if they can be read; raises what `Views.live` raises."""
    live = views.live(resource, principal)
    if resource.kept is None or views.kept is None:
        return live
    return await views.kept.view(resource, live) or live


def require_of_kept_rows(error: DualResponseError) -> None:
    """Log an error after which the database is read; raise any other one."""
    if not is_of_kept_rows(error):
        raise error
    log_failure(_log, error, "reading kept rows", level=logging.WARNING)


def notes_of_now(resource: Resource, view: View) -> list[str]:
    """What an answer about a result says of its rows, if they are read from the database and not from the kept ones."""
    return [NOT_KEPT_ROWS] if resource.kept is not None and view.kept is None else []


async def chunks_or_live(
    stream: StreamRun,
    instead: Callable[[DualResponseError], Awaitable[ReadTarget]],
    chunks_of: Callable[[ReadTarget], AsyncGenerator[Chunk, None]],
) -> AsyncGenerator[Chunk, None]:
    """The chunks of kept rows; those of the database, if the first rows cannot be answered from them."""
    waiting: list[Chunk] = []
    try:
        async with aclosing(stream.read()) as chunks:
            async for chunk in chunks:
                waiting.append(chunk)
                if stream.ending.rows or stream.ending.is_complete:
                    for one in waiting:
                        yield one
                    waiting.clear()
            return
    except DualResponseError as error:
        # Cursors and resumptions are of kept rows.
        if stream.ending.rows or stream.request.cursor is not None or stream.request.resumption is not None:
            raise
        target = await instead(error)
    stream.ending.error = None
    async with aclosing(chunks_of(target)) as chunks:
        async for chunk in chunks:
            yield chunk


async def described(
    views: Views, resource: Resource, principal: Principal | None, now: datetime
) -> KeptDescription:
    """What the metadata of a resource say of its kept rows."""
    # A refresh may run in another process, also where this one keeps no rows.
    run = describe_run(resource, now)
    if resource.status == "pending":
        return run
    if views.kept is None:
        return KeptDescription(**{**run, "kept": False, "reason": "This server keeps no results."})
    return KeptDescription(**{**run, **await views.kept.describe(resource, views.live(resource, principal))})


def is_refreshed(resource: Resource, now: datetime) -> bool:
    """Whether a server refreshes the resource, by its record."""
    running = None if resource.kept is None else resource.kept.get("running")
    return running is not None and datetime.fromisoformat(running["until"]) > now


def describe_run(resource: Resource, now: datetime) -> KeptDescription:
    """How far the run is whose rows a resource is going to keep, or why it failed."""
    record, description = resource.kept or {}, KeptDescription(kept=False)
    if "running" in record:
        if resource.status == "pending" or is_refreshed(resource, now):
            description["rows_so_far"] = record["running"]["rows"]
        else:
            description["error"] = INTERRUPTED
    elif "failure" in record:
        description["error"] = record["failure"]
    return description
