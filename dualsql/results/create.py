"""Creates stored results: a Select becomes a resource and a response with a sample."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import ref

from sqlalchemy import util

from dualsql import plan, sqlalchemy_internals as internals
from dualsql.databases.fetch import Sample
from dualsql.databases.source import Source, Sources
from dualsql.errors import (
    Asked,
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    LimitExceededError,
    NotFreezableError,
    ValueNotRepresentableError,
    shown,
)
from dualsql.events import EVENTS, CreationEnded, ResultCreated, step
from dualsql.formats import json
from dualsql.formats.cells import are_heavy, run_heavy, without_collector
from dualsql.formats.samples import most_rows, room_for_rows, shows_all
from dualsql.freeze import UNCOMPILABLE
from dualsql.freeze.document import AnySelect, Statement
from dualsql.log import log_unforeseen
from dualsql.plan import KeysetPosition
from dualsql.resource import (
    NOTES,
    Addresses,
    Count,
    CountMethod,
    KeptRows,
    Principal,
    Resource,
    Total,
    new_resource_id,
    notes_in,
    notes_of,
    parse_count,
    within,
)
from dualsql.response import DualResponse
from dualsql.results.access import AccessControl
from dualsql.results.view import View, Views
from dualsql.settings import KeepOption, Settings, is_keep_option, require_duration
from dualsql_client.wire import Column, Row

if TYPE_CHECKING:
    from dualsql.results.kept_rows import KeptAnswer, Runner, RunProgress

_log = logging.getLogger(__name__)

_LONGEST_NAME = 200
_LARGEST_METADATA = 64 * 1024


def checked_count(count: Any, settings: Settings) -> CountMethod:
    """How to count; a cap may be at most `Settings.maximum_offset`."""
    method = parse_count(count)
    if method.way == "capped":
        within("the cap of a count", method.cap, 1, settings.maximum_offset)
    return method


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Plain JSON values, at most 64 KiB of them."""
    if not metadata:
        return {}
    try:
        encoded = json.dumps(dict(metadata))
    except (ValueNotRepresentableError, TypeError, ValueError) as error:
        raise BadParameterError(
            "metadata contains a value that JSON cannot represent.",
            hint="Use text, numbers, booleans, None, lists and dicts.",
        ) from error
    if len(encoded) > _LARGEST_METADATA:
        raise LimitExceededError(
            f"metadata is larger than {_LARGEST_METADATA} bytes.",
            hint="Store a shorter text, or a reference to the data.",
            details={"bytes": len(encoded)},
        )
    # A copy: the caller may change its object later.
    plain: dict[str, Any] = json.loads(encoded)
    return plain


MAXIMUM_SAMPLE_SIZE = 1_000
"""The most rows that a tool may show."""


def checked_size(size: int | None, settings: Settings) -> int:
    """Rows of a sample, from 0 on."""
    default = min(settings.default_sample_size, MAXIMUM_SAMPLE_SIZE)
    return within("sample_size", default if size is None else size, 0, MAXIMUM_SAMPLE_SIZE)


SampleOption = Literal["head", "tail", "random", "spread"] | str
"""The first, the last or random rows ("random:42" chooses other rows than "random:43"), or rows at even ranks."""

ProfileOption = Literal["none", "sample", "full"]
"""Whether the columns are profiled: not at all, in the first rows (`Profiles(profile_sample=...)`), in all of them."""


@dataclass(slots=True, kw_only=True, eq=False)  # frozen ones take three times as long to make
class CreateOptions:
    """A request for a new response; `DualResponseServer.create_response` explains each field.

    A field that is None has a default in the settings. `checked` fills it in, but for `sample_size`: without one, a
    result that fits the budgets is shown whole. It is not changed: `dataclasses.replace` makes another one.
    """

    select: Statement | None = field(default=None, kw_only=False)
    name: str
    sample_size: int | None = None
    sample: SampleOption = "head"
    expiration: timedelta | None = None
    count: Count = "auto"
    profile: ProfileOption = "none"
    source: str | None = None
    wait: timedelta | None = None
    keep: KeepOption | None = None
    metadata: Mapping[str, Any] | None = None
    principal: Principal | None = None
    parent: Resource | str | None = None
    refinement: Any = None
    """JSON, or an object of the feature that refines."""
    is_text: bool = False
    reads_conversions: bool = False
    """The statement of the parent converts values; set with the statement of the refinement."""

    def checked(self, settings: Settings) -> CreateOptions:
        """The options with the defaults of the settings; raises what is wrong with one."""
        name: Any = self.name
        lifetime, most = settings.default_expiration, settings.maximum_lifetime
        if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
            raise BadParameterError(f"name must be a string of 1 to {_LONGEST_NAME} characters.")
        checked_count(self.count, settings)
        if self.wait is not None:
            require_duration("wait", self.wait, failure=BadParameterError)
        checked_size(self.sample_size, settings)
        if self.principal is not None and not isinstance(self.principal, Principal):
            raise BadParameterError("principal must be a Principal.", hint='For example Principal(id="ann").')
        if self.keep is not None and not is_keep_option(self.keep):
            raise BadParameterError('keep must be True, "slow" or False.', details={"name": "keep"})
        if self.expiration is not None:
            lifetime = require_duration(
                "expiration", self.expiration, failure=BadParameterError, example=lifetime
            )
        if lifetime > most:
            raise LimitExceededError(
                f"expiration is {lifetime}, and maximum_lifetime {most}.",
                hint="Ask for a shorter one.",
                developer_hint="Ask for a shorter one, or give the server settings=Settings(maximum_lifetime=...).",
            )
        return replace(self, expiration=lifetime, metadata=_checked_metadata(self.metadata))

    @property
    def statement(self) -> Statement:
        """The Select to store; for a refinement, once its parent has been read."""
        assert self.select is not None
        return self.select

    @property
    def lifetime(self) -> timedelta:
        """How long the resource lives, once checked."""
        assert self.expiration is not None
        return self.expiration

    @property
    def input_kind(self) -> Asked | None:
        """What the caller wrote, a question or a SQL text, if anything; see `raise_for_input`."""
        if self.is_text:
            return "text"
        return None if self.refinement is None else "question"


_MOST_LIMITED = 100
"""Rows of a query with a LIMIT of its own that are read to know how many there are."""

NOT_COUNTED = CountMethod("none")

StatementForms = Callable[[View], Iterable[AnySelect]]
"""Statements that features derive from a view."""

SampleReader = Callable[[int, CountMethod], Awaitable[Sample]]
"""Reads so many rows, and the total number of rows; `View.sample`, or from a run that is over."""

SampleTaker = Callable[[View, int, CountMethod], Awaitable[Sample]]
"""Reads so many rows of a view, and the total number of rows."""


def page_forms(view: View) -> Iterator[AnySelect]:
    """The sample, pages by offset and by cursor."""
    rows = view.ordered()
    yield rows.window.select
    yield rows.keyed_window.select
    if not rows.order.obstacle:
        # The values are bound parameters: the numbers do not matter.
        position = KeysetPosition(values=("",) * len(rows.order.keys))
        yield plan.page_beside(rows, position, limit=1).select
        # Backward, it is another form where rows tie or a key may be NULL. Else only ASC and DESC are exchanged.
        if not rows.order.is_unique or any(key.is_nullable for key in rows.order.keys):
            yield plan.page_beside(rows, position.reversed(), limit=1).select


Profiler = Callable[[View, Sequence[Sequence[Any]]], Awaitable[Mapping[str, Any]]]
"""Profiles the columns of a view: the fields `profile`, `profile_notes` and `profile_text` of the response.

The second argument is the sample, rows as the database gave them.
"""


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
    maker = view.record_maker()
    records, has_odd_times = maker.page_records(sample.rows)
    plain = json.read_back(records, has_odd_times=has_odd_times)
    if plain is None:
        from dualsql.formats.json_fallback import inexact_columns, require_writable

        maker = view.record_maker(inexact_columns(view.columns, sample.rows))
        rows = maker.records(sample.rows)
        try:
            plain = json.loads(json.dumps(rows))
        except ValueNotRepresentableError:
            require_writable(view.columns, [list(row.values()) for row in rows], json.encoded)
            raise
    return ShownSample(sample, plain, maker.describe(), view.as_of)


async def _show(view: View, sample: Sample) -> ShownSample:
    is_heavy = are_heavy(view.columns, sample.rows)
    return await run_heavy(shown_sample, view, sample) if is_heavy else shown_sample(view, sample)


class FinishedQuery(NamedTuple):
    """A resource whose query has run, and its response."""

    resource: Resource
    response: DualResponse


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


@dataclass(eq=False, repr=False)
class Creator:
    """Creates the resources of one server.

    The attributes from `runner` on are None unless a feature sets them.

    Attributes:
        forms: what gives the statements that have to be compilable: those of pages, and of features.
        page_in_text: the text of a response ends in the URL of its page.
        id_start: the first characters of ids.
        runner: runs the statements of new resources.
        profiler: returns the profiler for a value of the option `profile`; raises BadParameterError for another value.
        sampler: returns the reader of other rows than the first for a value of the option `sample`; likewise.
        refine: creates the response of a refinement.
        answer_within: answers a creation whose query may outlast its caller.
        open_text: the document and the view of a SQL text that takes long to store and to compile; None for another.
    """

    sources: Sources
    views: Views
    access: AccessControl
    settings: Settings
    addresses: Addresses
    forms: list[StatementForms] = field(default_factory=lambda: [page_forms])
    page_in_text: bool = False
    id_start: str = ""
    runner: Runner | None = None
    profiler: Callable[[str], Profiler] | None = None
    sampler: Callable[[str], SampleTaker] | None = None
    refine: Callable[[CreateOptions], Awaitable[DualResponse]] | None = None
    answer_within: Callable[[Creation, timedelta], Awaitable[DualResponse]] | None = None
    open_text: Callable[[Source, CreateOptions], Awaitable[tuple[bytes, View] | None]] | None = None
    # Statements of one tool differ only in bound values, and share one cache key of SQLAlchemy.
    _compiled: Any = field(default_factory=lambda: util.LRUCache(500))

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
                try:
                    response = await self._create(options, answer)
                except DualResponseError as error:
                    from dualsql.databases.failures import raise_for_input

                    raise_for_input(error, options.input_kind, lambda: options.reads_conversions)
                    raise
                except Exception as error:
                    log_unforeseen(_log, error, "A statement could not be served.")
                    # Without the message, which may hold anything.
                    raise NotFreezableError(
                        f"The statement cannot be served: it, or a rule or a hook of the server, raised "
                        f"{type(error).__name__}.",
                        hint="The server's log has the cause. If it is the statement, write it in a simpler way.",
                    ) from error
            except DualResponseError as error:
                if is_counted:
                    EVENTS.report(CreationEnded(error.cause))
                raise
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
            from dualsql.results.kept_rows import storage_missing

            raise storage_missing()
        self.access.admit("create", options.principal)
        source = self.sources.chosen(options.source)
        document, view = await self._freeze(source, options, is_described=not (answer and answer.view))
        creation = Creation(source, document, options, profiler, sampler, answer)
        if options.wait is not None and self.answer_within is not None:
            return await self.answer_within(creation, options.wait)
        view = self.open_view(creation, view)
        query = await self.completed(view, self.new_resource(view, creation), creation)
        async with self._file_of(query.resource.id, query.resource.kept):
            await self.access.keep(query.resource, options.principal, rows=len(query.response.sample))
        return query.response

    async def _freeze(
        self, source: Source, options: CreateOptions, *, is_described: bool
    ) -> tuple[bytes, View | None]:
        """The document of the Select, and its view if that is opened already.

        Args:
            is_described: with the types that the database describes.
        """
        large = await self.open_text(source, options) if options.is_text and self.open_text else None
        document, view = large or (frozen(source, options), None)
        if is_described and source.backend.described_type is not None:
            from dualsql.results.described import with_described_types

            view = view or self.views.open(source, document, options.principal)
            typed = await with_described_types(view, options.statement)
            if typed is not None:
                return await self._freeze(source, replace(options, select=typed), is_described=False)
        return document, view

    def open_view(self, creation: Creation, view: View | None = None) -> View:
        """What the principal sees of a result to create; every statement derived from it can be compiled."""
        with without_collector():
            view = view or self.views.open(creation.source, creation.document, creation.options.principal)
            self.require_compilable(view)
        return view

    def require_compilable(self, view: View) -> None:
        """Compile the statements that readers may need; nothing is sent to the database.

        If SQLAlchemy cannot compile one of them, creating the response fails, and not a later page. Statements that
        differ only in bound values are compiled once. SQLAlchemy alone writes alike everywhere: the first is enough.

        Raises:
            NotFreezableError: SQLAlchemy cannot compile one of them.
            NoTotalOrderError: the statement cannot be paged.
        """
        cache_key = internals.cache_key(view.shape.select)
        statement = ref(view.derived) if cache_key is None else cache_key.key
        key = (view.source.name, view.rules.form, view.shape.limit is None, view.shape.offset > 0, statement)
        if key in self._compiled:
            return
        is_plain = view.source.registry.writes_alike(view.dialect, [each.type for each in view.shape.columns])
        most = 1 if is_plain and not self.views.policy.has_functions else None
        try:
            for select in islice(chain.from_iterable(forms(view) for forms in self.forms), most):
                view.compile(select)
        except UNCOMPILABLE as error:
            raise NotFreezableError(
                f"The statement runs, but pages and queries cannot be derived from it ({type(error).__name__}).",
                hint="Put it into a subquery and name its columns: inner = statement.subquery(); select(inner).",
            ) from error
        self._compiled[key] = True

    async def completed(
        self, view: View, resource: Resource, creation: Creation, progress: RunProgress | None = None
    ) -> FinishedQuery:
        """Run the statement of a new resource. The resource with its total is not stored yet.

        Args:
            resource: pending, if its caller has it already.
            progress: counts the rows that are read to be kept.
        """
        options = creation.options
        kept: KeptRows | None = None
        notes = notes_in(resource.metadata)
        if self.runner is None:
            display = await self.sampled(view, creation)
        else:
            display, view, kept, more = await self.runner.run(view, resource, creation, progress)
            notes = (*notes, *more)
        async with self._file_of(resource.id, kept):
            profile = await creation.profiler(view, display.sample.rows) if creation.profiler else {}
            now, total = self.access.clock.now(), display.sample.total
            created_at = now if resource.status == "ready" else resource.created_at
            ready = replace(
                resource,
                status="ready",
                created_at=created_at,
                # The lifetime begins when the query has run.
                expires_at=created_at
                + min(now - created_at + options.lifetime, self.settings.maximum_lifetime),
                total_count=total.rows,
                total_count_kind=total.kind,
                sample=display.rows if self.settings.keep_sample else None,
                kept=kept,
                metadata={**resource.metadata, NOTES: list(notes)} if notes else resource.metadata,
            )
            EVENTS.report(ResultCreated(ready.total_count_kind))
            return FinishedQuery(ready, self.respond(ready, display, profile))

    @asynccontextmanager
    async def _file_of(self, resource_id: str, kept: KeptRows | None) -> AsyncIterator[None]:
        """If the block fails, delete the file of the new resource, if it has one."""
        try:
            yield
        except BaseException:
            if self.runner is not None:
                await asyncio.shield(self.runner.forget(resource_id, kept))
            raise

    async def sampled(self, view: View, creation: Creation, first: SampleReader | None = None) -> ShownSample:
        """The sample of a view; `first` reads first rows, `View.sample` if it is None."""
        sample_size, count = creation.options.sample_size, parse_count(creation.options.count)
        size = checked_size(sample_size, self.settings)
        if creation.sampler is not None:
            return await _show(view, await creation.sampler(view, size, count))
        # Only the first rows can be all rows; and who asked for a number of rows gets that number.
        if sample_size is None and size > 0:
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
        settings = self.settings
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
            display = await _show(view, sample)
            room = room_for_rows(display.columns, settings.results_budget)
            if shows_all(names, display.rows, text_budget=settings.text_budget, results_budget=room):
                return display
        return await _show(view, sample._replace(rows=sample.rows[:size]))

    def new_resource(self, view: View, creation: Creation) -> Resource:
        """The resource of a result to create, without its rows and its signature."""
        options, now = creation.options, self.access.clock.now()
        who, notes = options.principal, notes_of(options.statement)
        return Resource(
            id=new_resource_id(self.id_start),
            name=options.name,
            source=view.source.name,
            document=creation.document,
            signature=b"",
            columns=view.record_maker().describe(),
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
        self, resource: Resource, display: ShownSample, profile: Mapping[str, Any] = MappingProxyType({})
    ) -> DualResponse:
        """The dual response of a resource."""
        return DualResponse(
            resource_id=resource.id,
            resource_uri=self.addresses.uri(resource.id),
            resource_url=self.addresses.url(resource.id),
            name=resource.name,
            sample=display.rows,
            total_count=resource.total_count,
            total_count_kind=resource.total_count_kind,
            columns=display.columns,
            created_at=resource.created_at,
            expires_at=resource.expires_at,
            text_budget=self.settings.text_budget,
            results_budget=self.settings.results_budget,
            status="pending" if resource.status == "pending" else "ready",
            sampled=display.sample.method,
            as_of=display.as_of,
            page_in_text=self.page_in_text,
            notes=notes_in(resource.metadata),
            **profile,
        )


def missing_feature(feature: str, argument: str = "") -> ConfigurationError:
    """The error for a feature that the server does not have, and that an argument or a setting needs."""
    which = f", which {argument} needs" if argument else ""
    return ConfigurationError(
        f"This server has no feature {feature}{which}.",
        hint=f"Add it to the features of the server: features=default_features({feature}()).",
    )


def frozen(source: Source, options: CreateOptions) -> bytes:
    """The document of the Select. If a refinement cannot be stored, the error is in words for the caller."""
    try:
        with without_collector():  # a statement of a new form makes thousands of objects, most for a moment
            return source.freeze(options.statement)
    except NotFreezableError as error:
        if options.parent is None:
            raise
        from dualsql.databases.failures import refinement_not_stored

        raise refinement_not_stored(error) from error
