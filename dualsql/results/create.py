"""Creates stored results: a Select becomes a resource and a response with a sample."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlalchemy import util
from sqlalchemy.types import NULLTYPE, NullType

from dualsql import plan, sqlalchemy_internals as internals
from dualsql.databases.session import Sample, in_session
from dualsql.databases.source import Source, chosen_source
from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    LimitExceededError,
    NotFreezableError,
    ValueNotRepresentableError,
    blaming,
    shown,
)
from dualsql.events import EVENTS, CreationEnded, ResultCreated, step
from dualsql.formats import json
from dualsql.formats.cells import are_heavy
from dualsql.formats.samples import most_rows, shows_all
from dualsql.freeze.document import AnySelect
from dualsql.freeze.verify import UNCOMPILABLE
from dualsql.log import log_unforeseen
from dualsql.plan import KeysetPosition
from dualsql.resource import (
    NOTES,
    Addresses,
    CountMethod,
    KeptRows,
    Resource,
    Total,
    new_resource_id,
    notes_in,
    notes_of,
    parse_count,
)
from dualsql.response import DualResponse, room_for_rows
from dualsql.results.access import AccessControl
from dualsql.results.options import MAXIMUM_SAMPLE_SIZE, CreateOptions, checked_size, storage_missing
from dualsql.results.view import View, Views
from dualsql.settings import Settings
from dualsql.threads import run_heavy
from dualsql_client.wire import Column, Profile, ProfileNotes, Row

if TYPE_CHECKING:
    from dualsql.results.kept_rows import KeptAnswer

_log = logging.getLogger(__name__)

_MOST_LIMITED = 100
"""Rows of a query with a LIMIT of its own that are read to know how many there are."""

_MOST_CHECKED = 500
"""Statements. Those of one tool differ only in bound values and share one cache key of SQLAlchemy."""

NOT_COUNTED = CountMethod("none")

StatementForms = Callable[[View], Iterable[AnySelect]]
"""Statements that features derive from a view."""

SampleReader = Callable[[int, CountMethod], Awaitable[Sample]]
"""Reads so many rows, and the total number of rows; `View.sample`, or from a run that is over."""

SampleTaker = Callable[[View, int, CountMethod], Awaitable[Sample]]
"""Reads so many rows of a view, and the total number of rows."""


class CompileChecks:
    """Compiles every statement that readers may need; nothing is sent to the database.

    If SQLAlchemy cannot compile one of them, creating the response fails, where the developer sees the error, and not
    a later page. Statements that differ only in bound values are compiled once.
    """

    def __init__(self) -> None:
        self._forms: list[StatementForms] = [page_forms]
        self._known: Any = util.LRUCache(_MOST_CHECKED)

    def add(self, forms: Iterable[StatementForms]) -> None:
        """Check the statements of a feature, too."""
        self._forms += forms

    def require(self, view: View) -> None:
        """Compile all statements that are derived from the view, under its rules.

        Raises:
            NotFreezableError: SQLAlchemy cannot compile one of them.
            NoTotalOrderError: the statement cannot be paged.
        """
        cache_key = internals.cache_key(view.shape.select)
        window = (view.shape.limit is None, view.shape.offset > 0)
        key = None if cache_key is None else (view.source.name, view.rules.form, window, cache_key.key)
        if key is not None and key in self._known:
            return
        try:
            for select in chain.from_iterable(forms(view) for forms in self._forms):
                view.compile(select)
        except UNCOMPILABLE as error:
            raise NotFreezableError(
                f"The statement runs, but pages and queries cannot be derived from it ({type(error).__name__}).",
                hint="Put it into a subquery and name its columns: inner = statement.subquery(); select(inner).",
            ) from error
        if key is not None:
            self._known[key] = True


def page_forms(view: View) -> Iterator[AnySelect]:
    """Pages by offset and by cursor."""
    rows = view.ordered()
    yield plan.keyed_page(rows, offset=0, limit=1).select
    if not rows.order.obstacle:
        # The values are bound parameters: the numbers do not matter.
        place = KeysetPosition(values=("",) * len(rows.order.keys))
        yield plan.page_beside(rows, place, limit=1).select
        yield plan.page_beside(rows, place.reversed(), limit=1).select


class ProfiledSample(NamedTuple):
    """Statistics of the columns, and notes on columns that the sample misrepresents, also as a text."""

    profile: Profile
    notes: ProfileNotes
    text: str


Profiler = Callable[[View, Sequence[Sequence[Any]]], Awaitable[ProfiledSample]]
"""Profiles the columns of a view; the second argument is the sample, rows as the database gave them."""


class ShownSample(NamedTuple):
    """A sample, and what a response shows of it: rows as plain JSON values, and their columns.

    Attributes:
        as_of: see `View`.
    """

    sample: Sample
    rows: list[Row]
    columns: list[Column]
    as_of: datetime | None


def shown_sample(view: View, sample: Sample) -> ShownSample:
    """What a response shows of a sample."""
    inexact = json.inexact_columns(view.columns, sample.rows)
    rows = view.records(sample.rows, integer_strings=inexact)
    try:
        plain: list[Row] = json.loads(json.dumps(rows))
    except ValueNotRepresentableError:
        from dualsql.formats.json_fallback import require_writable

        require_writable(view.columns, [list(row.values()) for row in rows], json.encoded)
        raise
    return ShownSample(sample, plain, json.describe(view.columns, integer_strings=inexact), view.as_of)


async def _show(view: View, sample: Sample) -> ShownSample:
    is_heavy = are_heavy(view.columns, sample.rows)
    return await run_heavy(shown_sample, view, sample) if is_heavy else shown_sample(view, sample)


class FinishedQuery(NamedTuple):
    """A resource whose query has run, and its response."""

    resource: Resource
    response: DualResponse


@dataclass(slots=True)
class RunProgress:
    """How many rows were read of a run that is going to be kept."""

    rows: int = 0


class Creation(NamedTuple):
    """A result to create.

    Attributes:
        document: the frozen Select.
        sampler: reads other rows than the first.
        answer: the rows of the Select as they are in those of a kept result; None for the database.
    """

    source: Source
    document: bytes
    options: CreateOptions
    profiler: Profiler | None
    sampler: SampleTaker | None
    answer: KeptAnswer | None


class RunResult(NamedTuple):
    """The run of the statement of a new resource.

    Attributes:
        view: what the sample is read from.
        kept: where the rows are kept, or why they are not; None if nobody asked for that.
        notes: what the response says of the rows.
    """

    shown: ShownSample
    view: View
    kept: KeptRows | None = None
    notes: Sequence[str] = ()


class Runner(Protocol):
    """Runs the statements of new resources, and may keep their rows."""

    async def run(
        self, view: View, resource: Resource, creation: Creation, progress: RunProgress
    ) -> RunResult:
        """Read the sample (`Creator.sampled`); keep the rows if that is asked for. The resource has no rows yet."""

    async def record(self, resource_id: str) -> KeptRows | None:
        """The record of the kept rows of a resource that is going to be deleted."""

    async def forget(self, resource_id: str, kept: KeptRows | None) -> None:
        """Delete the kept rows of a resource that was deleted, or that is not created."""


class Creator:
    """Creates the resources of one server.

    The attributes from `runner` on are None unless a feature sets them.

    Attributes:
        page_in_text: the text of a response ends in the URL of its page.
        id_start: the first characters of ids.
        runner: runs the statements of new resources.
        profiler: returns the profiler for a value of the option `profile`; raises BadParameterError for another value.
        sampler: returns the reader of other rows than the first for a value of the option `sample`; likewise.
        refine: creates the response of a refinement.
        answer_within: answers a creation whose query may outlast its caller.
        open_text: the document and the view of a SQL text that takes long to store and to compile; None for another.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        views: Views,
        access: AccessControl,
        *,
        settings: Settings,
        addresses: Addresses,
    ) -> None:
        self._sources = sources
        self._views = views
        self._access = access
        self._settings = settings
        self._addresses = addresses
        self.compile_checks = CompileChecks()
        self.page_in_text = False
        self.id_start = ""
        self.runner: Runner | None = None
        self.profiler: Callable[[str], Profiler] | None = None
        self.sampler: Callable[[str], SampleTaker] | None = None
        self.refine: Callable[[CreateOptions], Awaitable[DualResponse]] | None = None
        self.answer_within: Callable[[Creation, timedelta], Awaitable[DualResponse]] | None = None
        self.open_text: Callable[[Source, CreateOptions], Awaitable[tuple[bytes, View] | None]] | None = None

    async def create_or_refine(self, options: CreateOptions) -> DualResponse:
        """The response of a Select, or of a refinement of a stored result."""
        if options.select is not None and options.parent is None and options.refinement is None:
            return await self.create(options)
        if self.refine is None:
            raise BadParameterError(
                "A response is made of a Select: this server has no feature that refines results.",
                hint="Give a Select.",
                developer_hint="Add the feature: features=default_features(), or [Queries(), ...].",
            )
        return await self.refine(options)

    async def create(self, options: CreateOptions, answer: KeptAnswer | None = None) -> DualResponse:
        """Freeze, thaw, narrow, compile, sample, count, sign and store the Select of checked options.

        With a `wait`, a feature does the rest when the Select is frozen; see `DualResponseServer.create_response`.

        Args:
            answer: the rows of the Select as they are in those of a result that is kept: they are kept in turn.
        """
        # With a job, its end is counted.
        is_counted = options.wait is None or self.answer_within is None
        with step("create"):
            try:
                with blaming(options.asked, reads_conversions=lambda: options.reads_conversions):
                    response = await self._create(options, answer)
            except DualResponseError as error:
                if is_counted:
                    EVENTS.report(CreationEnded(error.cause))
                raise
            except Exception as error:
                if is_counted:
                    EVENTS.report(CreationEnded(NotFreezableError.cause))
                log_unforeseen(_log, error, "A statement could not be served.")
                # Without the message, which may hold anything.
                raise NotFreezableError(
                    f"The statement cannot be served: it, or a rule or a hook of the server, raised "
                    f"{type(error).__name__}.",
                    hint="The server's log has the cause. If it is the statement, write it in a simpler way.",
                ) from error
        if is_counted:
            EVENTS.report(CreationEnded("none"))
        return response

    async def _create(self, options: CreateOptions, answer: KeptAnswer | None) -> DualResponse:
        profiler, sampler = None, None
        if options.profile != "none":
            if self.profiler is None:
                raise missing_feature("Profiles", "profile")
            profiler = self.profiler(options.profile)
        if options.sample != "head":
            if self.sampler is None:
                raise missing_feature("Samples", f"sample={shown(options.sample, 80)}")
            sampler = self.sampler(options.sample)
        if options.wait is not None and self.answer_within is None:
            raise missing_feature("Pending", "wait")
        if options.keep and self.runner is None:
            raise storage_missing()
        self._access.admit("create", options.principal)
        source = chosen_source(self._sources, options.source)
        document, view = await self._freeze(source, options, is_described=answer is None)
        creation = Creation(source, document, options, profiler, sampler, answer)
        if options.wait is not None and self.answer_within is not None:
            return await self.answer_within(creation, options.wait)
        view = view or self.opened(creation)
        query = await self.completed(view, self.new_resource(view, creation), creation, RunProgress())
        async with self._deleted_on_failure(query.resource.id, query.resource.kept):
            await self._access.keep(query.resource, options.principal, rows=len(query.response.sample))
        return query.response

    async def _freeze(
        self, source: Source, options: CreateOptions, *, is_described: bool
    ) -> tuple[bytes, View | None]:
        """The document of the Select, and its view if that is opened and compiled already.

        Args:
            is_described: with the types that the database describes.
        """
        large = None
        if options.is_text and self.open_text is not None:
            large = await self.open_text(source, options)
        document, view = large or (frozen(source, options), None)
        if is_described and source.backend.described_type is not None:
            typed = await self._typed(view or self._views.open(source, document, options.principal), options)
            if typed is not None:
                return await self._freeze(source, typed, is_described=False)
        return document, view

    async def _typed(self, view: View, options: CreateOptions) -> CreateOptions | None:
        """The options with the types that the database describes; None if it describes none that was unknown.

        A database that does not answer fails the creation, as it would fail the sample: otherwise load would decide the
        types of a result.
        """
        source, columns = view.source, view.shape.columns
        if source.backend.described_type is None or not any(column.is_untyped for column in columns):
            return None
        from dualsql.databases.explain import described_types

        work = partial(described_types, source, view.shape.select.limit(0), view.rules)
        kinds = await in_session(source, view.rules, work, timeout=self._settings.query_timeout)
        unknown = [
            kind if column.is_untyped else NULLTYPE for kind, column in zip(kinds, columns, strict=False)
        ]
        if all(isinstance(kind, NullType) for kind in unknown):
            return None
        return replace(options, select=plan.with_types(options.statement, unknown, source.meanings))

    def opened(self, creation: Creation) -> View:
        """What the principal sees of a result to create; every statement derived from it can be compiled."""
        view = self._views.open(creation.source, creation.document, creation.options.principal)
        self.compile_checks.require(view)
        return view

    async def completed(
        self, view: View, resource: Resource, creation: Creation, progress: RunProgress
    ) -> FinishedQuery:
        """Run the statement of a new resource. The resource with its total is not stored yet.

        Args:
            resource: pending, if its caller has it already.
            progress: counts the rows that are read to be kept.
        """
        options = creation.options
        if self.runner is None:
            run = RunResult(await self.sampled(view, creation), view)
        else:
            run = await self.runner.run(view, resource, creation, progress)
        async with self._deleted_on_failure(resource.id, run.kept):
            profiled = None
            if creation.profiler is not None:
                profiled = await creation.profiler(run.view, run.shown.sample.rows)
            now, total = self._access.clock.now(), run.shown.sample.total
            created_at = now if resource.status == "ready" else resource.created_at
            notes = [*notes_in(resource.metadata), *run.notes]
            ready = replace(
                resource,
                status="ready",
                created_at=created_at,
                # The lifetime begins when the query has run.
                expires_at=created_at
                + min(now - created_at + options.lifetime, self._settings.maximum_lifetime),
                total_count=total.rows,
                total_count_kind=total.kind,
                kept=run.kept,
                metadata={**resource.metadata, NOTES: notes} if run.notes else resource.metadata,
            )
            EVENTS.report(ResultCreated(ready.total_count_kind))
            response = self.respond(ready, run.shown, profiled)
            sample = response.sample if self._settings.keep_sample else None
            return FinishedQuery(ready if sample is None else replace(ready, sample=sample), response)

    @asynccontextmanager
    async def _deleted_on_failure(self, resource_id: str, kept: KeptRows | None) -> AsyncIterator[None]:
        """Delete the file if no resource is made that names it."""
        try:
            yield
        except BaseException:
            if self.runner is not None:
                await asyncio.shield(self.runner.forget(resource_id, kept))
            raise

    async def sampled(self, view: View, creation: Creation, first: SampleReader | None = None) -> ShownSample:
        """The sample of a view; `first` reads first rows, `View.sample` if it is None."""
        asked, count = creation.options.sample_size, parse_count(creation.options.count)
        size = checked_size(asked, self._settings)
        if creation.sampler is not None:
            return await _show(view, await creation.sampler(view, size, count))
        # Only the first rows can be all rows; and who asked for a number of rows gets that number.
        if asked is None and size > 0:
            return await self.whole_or_head(view, size, count, first)
        return await _show(view, await (first or view.sample)(size, count))

    async def whole_or_head(
        self,
        view: View,
        size: int | None = None,
        count: CountMethod = NOT_COUNTED,
        first: SampleReader | None = None,
    ) -> ShownSample:
        """All rows if they fit both budgets, else the first `size`, or as many as the settings say.

        One statement reads as many rows as could fit. It tells the total of a small result, so that no count runs.

        Args:
            first: reads rows; None for `View.sample`.
        """
        settings = self._settings
        size = checked_size(size, settings)
        names = [column.name for column in view.columns]
        most = most_rows(names, text_budget=settings.text_budget, results_budget=settings.results_budget)
        # The author's LIMIT, where it is small: then the total is known even if the count takes too long.
        limit = min(view.shape.limit or 0, _MOST_LIMITED)
        read, sample = first or view.sample, None
        with suppress(LimitExceededError):  # rows of so many bytes would not fit
            sample = await read(max(size, limit, min(most, MAXIMUM_SAMPLE_SIZE)), count)
        if sample is None:
            gc.collect()  # the error and its frames, which refer to each other, hold what was read
            sample = await read(size, count)
        if len(sample.rows) > size and sample.total == Total(len(sample.rows), "exact"):
            shown = await _show(view, sample)
            room = room_for_rows(shown.columns, settings.results_budget)
            if shows_all(names, shown.rows, text_budget=settings.text_budget, results_budget=room):
                return shown
        return await _show(view, sample._replace(rows=sample.rows[:size]))

    def new_resource(self, view: View, creation: Creation) -> Resource:
        """The resource of a result to create, without its rows and its signature."""
        options, now = creation.options, self._access.clock.now()
        who, notes = options.principal, notes_of(options.statement)
        return Resource(
            id=new_resource_id(self.id_start),
            name=options.name,
            source=view.source.name,
            document=creation.document,
            signature=b"",
            columns=json.describe(view.columns),
            total_count=None,
            total_count_kind="none",
            created_at=now,
            expires_at=now + options.lifetime,
            lifetime=options.lifetime,
            owner=who.id if who else None,
            tenant=who.tenant if who else None,
            metadata={**(options.metadata or {}), **({NOTES: list(notes)} if notes else {})},
        )

    def respond(
        self, resource: Resource, shown: ShownSample, profiled: ProfiledSample | None = None
    ) -> DualResponse:
        """The dual response of a resource."""
        return DualResponse(
            resource_id=resource.id,
            resource_uri=self._addresses.uri(resource.id),
            resource_url=self._addresses.url(resource.id),
            name=resource.name,
            sample=shown.rows,
            total_count=resource.total_count,
            total_count_kind=resource.total_count_kind,
            columns=shown.columns,
            created_at=resource.created_at,
            expires_at=resource.expires_at,
            text_budget=self._settings.text_budget,
            results_budget=self._settings.results_budget,
            status="pending" if resource.status == "pending" else "ready",
            sampled=shown.sample.taken,
            as_of=shown.as_of,
            profile=None if profiled is None else profiled.profile,
            profile_notes=None if profiled is None else profiled.notes,
            profile_text="" if profiled is None else profiled.text,
            page_in_text=self.page_in_text,
            notes=notes_in(resource.metadata),
        )


def missing_feature(feature: str, argument: str) -> ConfigurationError:
    """The error for an argument or a setting of a feature that the server does not have."""
    return ConfigurationError(
        f"This server has no feature {feature}, which {argument} needs.",
        hint=f"Add it to the features of the server: features=default_features({feature}()).",
    )


def frozen(source: Source, options: CreateOptions) -> bytes:
    """The document of the Select. If a refinement cannot be stored, the error is in words for the caller."""
    try:
        return source.freeze(options.statement)
    except NotFreezableError as error:
        if options.parent is None:
            raise
        _log.warning("A refinement could not be stored: %s", error)
        raise LimitExceededError(
            "The new result cannot be stored: its statement is too large, or of an unusual form.",
            hint="Use fewer filters and columns, refine an earlier result, or run the query again.",
        ) from error
