"""Creates stored results: a Select becomes a resource and a response with a sample."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

from sqlalchemy import util
from sqlalchemy.sql import visitors
from sqlalchemy.types import NullType

from dualsql import plan
from dualsql.databases.fetch import Sample
from dualsql.databases.source import Source, chosen_source
from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    LimitExceededError,
    NotFreezableError,
    ValueNotRepresentableError,
    blaming,
)
from dualsql.events import EVENTS, CreationEnded, ResultCreated, step
from dualsql.formats import json
from dualsql.formats.cells import are_heavy
from dualsql.formats.samples import most_rows, shows_all
from dualsql.freeze.document import AnySelect, Statement
from dualsql.freeze.verify import UNCOMPILABLE
from dualsql.log import log_unforeseen
from dualsql.plan import KeysetPosition
from dualsql.resource import (
    NOTES,
    UNCOUNTED,
    Addresses,
    CountMethod,
    KeptRows,
    Resource,
    SampleMethod,
    Total,
    new_resource,
    notes_in,
    notes_of,
)
from dualsql.response import DualResponse, room_for_rows
from dualsql.results.access import AccessControl
from dualsql.results.options import MAXIMUM_SAMPLE_SIZE, CreateOptions, checked_size, storage_missing
from dualsql.results.view import KeptAnswer, View, Views
from dualsql.settings import Settings
from dualsql.threads import run_heavy
from dualsql_client.wire import Column, Profile, ProfileKind, ProfileNotes, Row

_MOST_LIMITED = 100
"""Rows of a query with a LIMIT of its own that are read to know how many there are."""

_MOST_KEPT = 500
"""Statements. Those of one tool differ only in bound values and share one cache key of SQLAlchemy."""

StatementForms = Callable[[View], Iterable[tuple[str, AnySelect]]]
"""Statements that features derive from a view, each with its name."""


class CompileChecks:
    """Compiles every statement that readers may need; nothing is sent to the database.

    If SQLAlchemy cannot compile one of them, creating the response fails, where the developer sees the error, and not
    a later page. Statements that differ only in bound values are compiled once.

    """

    def __init__(self) -> None:
        self._forms: list[StatementForms] = [page_forms]
        self._known: Any = util.LRUCache(_MOST_KEPT)

    def add(self, forms: Iterable[StatementForms]) -> None:
        """Check the statements of a feature, too."""
        self._forms += forms

    def require(self, view: View) -> None:
        """Compile all statements that are derived from the view, under its rules.

        Raises:
            NotFreezableError: SQLAlchemy cannot compile one of them.
            NoTotalOrderError: the statement cannot be paged.
        """
        cache_key = view.derived.cache_key
        window = (view.shape.limit is None, view.shape.offset > 0)
        key = None if cache_key is None else (view.source.name, view.rules.form, window, cache_key.key)
        if key is not None and key in self._known:
            return
        try:
            for _, select in chain.from_iterable(forms(view) for forms in self._forms):
                view.compile(select)
        except UNCOMPILABLE as error:
            raise NotFreezableError(
                f"The statement runs, but pages and queries cannot be derived from it ({type(error).__name__}).",
                hint="Put it into a subquery and name its columns: inner = statement.subquery(); select(inner).",
            ) from error
        if key is not None:
            self._known[key] = True


def page_forms(view: View) -> Iterator[tuple[str, AnySelect]]:
    """Pages by offset and by cursor."""
    rows = view.ordered()
    yield "page", plan.keyed_page(rows, offset=0, limit=1).select
    if not rows.order.obstacle:
        # The values are bound parameters: the numbers do not matter.
        place = KeysetPosition(values=("",) * len(rows.order.keys))
        yield "page after a row", plan.page_beside(rows, place, limit=1).select
        yield "page before a row", plan.page_beside(rows, place.reversed(), limit=1).select


SampleTaker = Callable[[View, int, CountMethod, SampleMethod], Awaitable[Sample]]
"""Reads a sample of so many rows, and the total number of rows."""


SampleReader = Callable[[int, CountMethod], Awaitable[Sample]]
"""Reads so many first rows, and the total number of rows; `View.sample`, or from a run that is over."""


class ProfiledSample(NamedTuple):
    """Statistics of the columns, and notes on columns that the sample misrepresents."""

    profile: Profile
    notes: ProfileNotes


Profiler = Callable[[View, ProfileKind, Sequence[Sequence[Any]]], Awaitable[ProfiledSample]]
"""Profiles the columns of a view; the third argument is the sample, rows as the database gave them."""


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
    plain: list[Row] = json.loads(_written(view, rows))
    return ShownSample(sample, plain, json.describe(view.columns, integer_strings=inexact), view.as_of)


async def _show(view: View, sample: Sample) -> ShownSample:
    is_heavy = are_heavy(view.columns, sample.rows)
    return await run_heavy(shown_sample, view, sample) if is_heavy else shown_sample(view, sample)


def _written(view: View, rows: list[Row]) -> bytes:
    try:
        return json.dumps(rows)
    except ValueNotRepresentableError:
        json.require_writable(view.columns, [list(row.values()) for row in rows])
        raise


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
        answer: the rows of the Select as they are in those of a kept result; None for the database.
    """

    source: Source
    document: bytes
    options: CreateOptions
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


class RunRequest(NamedTuple):
    """A statement to run for a new resource.

    Attributes:
        resource: as far as it is known; it has no rows yet.
        progress: counts the rows that are read to be kept.
        answer: the rows of the statement as they are in those of a kept result.
        sample: reads the sample, and the total, from a view. First rows are read by the second argument, unless it is
            None.
    """

    view: View
    resource: Resource
    options: CreateOptions
    progress: RunProgress
    answer: KeptAnswer | None
    sample: Callable[[View, SampleReader | None], Awaitable[ShownSample]]


class Runner(Protocol):
    """Runs the statements of new resources, and may keep their rows."""

    async def run(self, request: RunRequest) -> RunResult:
        """Read the sample; keep the rows if that is asked for."""

    async def record(self, resource_id: str) -> KeptRows | None:
        """The record of the kept rows of a resource that is going to be deleted."""

    async def forget(self, resource_id: str, kept: KeptRows | None) -> None:
        """Delete the kept rows of a resource that was deleted, or that is not created."""


class SampleRunner:
    """The runner of a server that keeps no rows."""

    async def run(self, request: RunRequest) -> RunResult:
        """See `Runner`."""
        if request.options.keep:
            raise storage_missing()
        return RunResult(await request.sample(request.view, None), request.view)

    async def record(self, resource_id: str) -> None:
        """See `Runner`."""

    async def forget(self, resource_id: str, kept: KeptRows | None) -> None:
        """See `Runner`."""


NOT_COUNTED = CountMethod("none")
_log = logging.getLogger(__name__)


class Creator:
    """Creates the resources of one server.

    Attributes:
        runner: runs the statements of new resources.
        profiler: profiles their columns; None without such a feature.
        take_sample: reads a sample of other rows than the first; None without such a feature.
        refine: creates the response of a refinement; None without such a feature.
        answer_within: answers a creation whose query may outlast its caller; None without such a feature.
        page_in_text: the text of a response ends in the URL of its page.
        id_start: the first characters of ids.
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
        self.runner: Runner = SampleRunner()
        self.profiler: Profiler | None = None
        self.take_sample: SampleTaker | None = None
        self.page_in_text = False
        self.id_start = ""
        self.refine: Callable[[CreateOptions], Awaitable[DualResponse]] | None = None
        self.answer_within: Callable[[Creation, timedelta], Awaitable[DualResponse]] | None = None

    async def create_or_refine(self, options: CreateOptions) -> DualResponse:
        """The response of a Select, or of a refinement of a stored result.

        Raises:
            BadParameterError: there is no Select, and refinements are not among the features.
        """
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
        with (
            step("create"),
            counted_creation() if is_counted else nullcontext(),
            _refusals(),
            blaming(options.asked, reads_conversions=lambda: options.reads_conversions),
        ):
            return await self._create(options, answer)

    async def _create(self, options: CreateOptions, answer: KeptAnswer | None) -> DualResponse:
        if options.profile_kind is not None and self.profiler is None:
            raise missing_feature("Profiles", "profile")
        if options.wait is not None and self.answer_within is None:
            raise missing_feature("Pending", "wait")
        self._access.admit("create", options.principal)
        source = chosen_source(self._sources, options.source)
        notes = notes_of(options.statement)
        if notes:
            options = replace(options, metadata={**(options.metadata or {}), NOTES: list(notes)})
        view = None
        if options.is_text and _is_large(options.statement):
            from dualsql.databases.text_threads import computed

            document = await computed(source.limits, partial(_frozen, source, options))
            view = await self._views.open_in_thread(source, document, options.principal, self._checked)
        else:
            document = _frozen(source, options)
        if answer is None and source.backend.described_type is not None:
            described = await self._described(source, document, view, options)
            if described is not None:
                document, view = described, None
        creation = Creation(source, document, options, answer)
        if options.wait is not None and self.answer_within is not None:
            return await self.answer_within(creation, options.wait)
        view = self.opened(creation) if view is None else view
        query = await self.completed(view, self.new_resource(view, creation), creation, RunProgress())
        async with self._deleted_on_failure(query.resource.id, query.resource.kept):
            await self._access.keep(query.resource, options.principal, rows=len(query.response.sample))
        return query.response

    async def _described(
        self, source: Source, document: bytes, view: View | None, options: CreateOptions
    ) -> bytes | None:
        """The document with the types that the database describes; None if nothing is added to it."""
        view = view or self._views.open(source, document, options.principal)
        kinds = await view.described_types()
        if all(isinstance(kind, NullType) for kind in kinds):
            return None
        typed = plan.with_types(options.statement, kinds, source.meanings)
        return _frozen(source, replace(options, select=typed))

    def opened(self, creation: Creation) -> View:
        """What the principal sees of a result to create; every statement derived from it can be compiled."""
        view = self._views.open(creation.source, creation.document, creation.options.principal)
        self.compile_checks.require(view)
        return view

    def _checked(self, view: View) -> None:
        """Compile what a large text needs, also its first page and its count."""
        self.compile_checks.require(view)
        view.compile(plan.first_page(view.ordered(), limit=1).select)
        view.compile(plan.count(view.shape, cap=None))

    async def completed(
        self, view: View, resource: Resource, creation: Creation, progress: RunProgress
    ) -> FinishedQuery:
        """Run the statement of a new resource. The resource with its total is not stored yet.

        Args:
            resource: pending, if its caller has it already.
            progress: counts the rows that are read to be kept.
        """
        options = creation.options
        run = await self.runner.run(
            RunRequest(
                view,
                resource,
                options,
                progress,
                creation.answer,
                sample=lambda read, first: self._sampled(read, options, first),
            )
        )
        async with self._deleted_on_failure(resource.id, run.kept):
            profiled = await self._profiled(run.view, options, run.shown.sample)
            now, total = self._access.clock.now(), run.shown.sample.total
            if resource.status == "ready":
                resource = replace(resource, created_at=now)
            ready = replace(
                resource,
                status="ready",
                # The lifetime begins when the query has run.
                expires_at=self.expiry(resource, now - resource.created_at + options.lifetime),
                total_count=total.rows,
                total_count_kind=total.kind,
                kept=run.kept,
                metadata=_noted(resource.metadata, run.notes),
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
            await asyncio.shield(self.runner.forget(resource_id, kept))
            raise

    async def _sampled(
        self, view: View, options: CreateOptions, first: SampleReader | None = None
    ) -> ShownSample:
        size = checked_size(options.sample_size, self._settings)
        count, method = options.count_method, options.sample_method
        # Only the first rows can be all rows; and who asked for a number of rows gets that number.
        if options.sample_size is None and size > 0 and method.way == "head":
            return await self.whole_or_head(view, size, count, first)
        if method.way == "head":
            return await _show(view, await (first or view.sample)(size, count))
        if self.take_sample is None:
            raise missing_feature("Samples", f'sample="{method.way}"')
        return await _show(view, await self.take_sample(view, size, count, method))

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
        size = checked_size(size, self._settings)
        read, sample = first or view.sample, None
        with suppress(LimitExceededError):  # rows of so many bytes would not fit
            sample = await read(self._most_whole(view, size), count)
        if sample is None:
            gc.collect()  # the error and its frames, which refer to each other, hold what was read
            sample = await read(size, count)
        is_small = len(sample.rows) <= size
        if is_small or sample.total == Total(len(sample.rows), "exact"):
            shown = await _show(view, sample)
            if is_small or self._shows_all(shown):
                return shown
        return await _show(view, sample._replace(rows=sample.rows[:size]))

    def _shows_all(self, shown: ShownSample) -> bool:
        return shows_all(
            [column["name"] for column in shown.columns],
            shown.rows,
            text_budget=self._settings.text_budget,
            results_budget=room_for_rows(shown.columns, self._settings.results_budget),
        )

    def _most_whole(self, view: View, size: int) -> int:
        settings = self._settings
        names = [column.name for column in view.columns]
        most = most_rows(names, text_budget=settings.text_budget, results_budget=settings.results_budget)
        # The author's LIMIT, where it is small: then the total is known even if the count takes too long.
        limit = min(view.shape.limit or 0, _MOST_LIMITED)
        return max(size, limit, min(most, MAXIMUM_SAMPLE_SIZE))

    async def _profiled(self, view: View, options: CreateOptions, sample: Sample) -> ProfiledSample | None:
        kind = options.profile_kind
        if kind is None:
            return None
        assert self.profiler is not None, "create was asked"
        return await self.profiler(view, kind, sample.rows)

    def expiry(self, resource: Resource, lifetime: timedelta) -> datetime:
        """When a resource with this lifetime expires."""
        return resource.created_at + min(lifetime, self._settings.maximum_lifetime)

    def new_resource(self, view: View, creation: Creation) -> Resource:
        """The resource of a result to create, without its rows."""
        options = creation.options
        return new_resource(
            now=self._access.clock.now(),
            name=options.name,
            source=view.source.name,
            document=creation.document,
            columns=json.describe(view.columns),
            total_count=UNCOUNTED.rows,
            total_count_kind=UNCOUNTED.kind,
            lifetime=options.lifetime,
            principal=options.principal,
            metadata=options.metadata or {},
            id_start=self.id_start,
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
            page_in_text=self.page_in_text,
            notes=notes_in(resource.metadata),
        )


_MOST_ELEMENTS = 100
_MOST_COLUMNS = 10
"""18 columns took 47 ms on DuckDB, because every one is sorted and filtered by as a check."""


def missing_feature(feature: str, argument: str) -> ConfigurationError:
    """The error for an argument or a setting of a feature that the server does not have."""
    return ConfigurationError(
        f"This server has no feature {feature}, which {argument} needs.",
        hint=f"Add it to the features of the server: features=default_features({feature}()).",
    )


def _noted(metadata: Mapping[str, Any], notes: Sequence[str]) -> Mapping[str, Any]:
    return {**metadata, NOTES: [*notes_in(metadata), *notes]} if notes else metadata


def _is_large(statement: Statement) -> bool:
    """Whether to store and to compile a caller's text takes more than a few milliseconds."""
    if len(statement.selected_columns) > _MOST_COLUMNS:
        return True
    elements = islice(visitors.iterate(statement), _MOST_ELEMENTS)
    return sum(1 for _ in elements) == _MOST_ELEMENTS


def _frozen(source: Source, options: CreateOptions) -> bytes:
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


@contextmanager
def counted_creation() -> Iterator[None]:
    """Report how the creation of a result in the block ends."""
    try:
        yield
    except Exception as error:
        EVENTS.report(CreationEnded(error.cause if isinstance(error, DualResponseError) else "server"))
        raise
    EVENTS.report(CreationEnded("none"))


@contextmanager
def _refusals() -> Iterator[None]:
    """Log any error that is not dualsql's own, and raise NotFreezableError without its message."""
    try:
        yield
    except DualResponseError:
        raise
    except Exception as error:
        log_unforeseen(_log, error, "A statement could not be served.")
        raise NotFreezableError(
            f"The statement cannot be served: it, or a rule or a hook of the server, raised {type(error).__name__}.",
            hint="The server's log has the cause. If it is the statement, write it in a simpler way.",
        ) from error
