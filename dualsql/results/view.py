"""A stored statement as one principal sees it. Every statement derived from it has the same rules."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Dialect, util

from dualsql import plan, sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.meanings import STANDARD, Meanings
from dualsql.columns.result import ResultColumn, driver_names
from dualsql.databases.driver import WeighedCache
from dualsql.databases.fetch import Fetch, RowCounter, Sample, fetch_sample
from dualsql.databases.source import Source, Sources
from dualsql.databases.streams import StreamJob, stream_rows
from dualsql.errors import Asked, DualResponseError
from dualsql.formats.cells import RecordMaker
from dualsql.formats.writer import Chunk, Format, PlainPage, Rows, Writer, WriterOptions, WrittenRows
from dualsql.freeze.document import AnySelect, Statement
from dualsql.plan import KeyedSelect, Ordered, Shape
from dualsql.resource import UNCOUNTED, CountMethod, KeptRows, Principal, Resource, Total, notes_of
from dualsql.settings import Settings
from dualsql.tenancy import ActiveRules, HookContext, Policy
from dualsql.tenancy.compiler import TableForms
from dualsql_client.wire import SortKey

if TYPE_CHECKING:
    from dualsql.results.kept_rows import KeptReader
    from dualsql.results.row_cache import RowCache

T = TypeVar("T")

NOT_KEPT_ROWS = "The rows are those of the database now, and not the kept ones of the result."
"""The note where the kept rows of a result are not to be read: their file is gone, too old, or of other readers."""

_MOST_BYTES = 512 * 1024
"""Bytes of documents; a thawed statement takes about a hundred times as much memory."""

_MOST_FORMS = 32
"""Orders, counts and writers kept for one document: its own, and those that readers ask for."""


class Derived:
    """What is derived from one statement of one database: its shape, its orders, how its rows are written.

    Attributes:
        shape: as `plan.shape` returns it.
        names: of its columns, as a driver reports them.
        notes: how the statement was read, where it was a text.
    """

    def __init__(
        self,
        statement: Statement,
        meanings: Meanings = STANDARD,
        *,
        number: ColumnElement[int] | None = None,
    ) -> None:
        self.shape: Shape = plan.shape(statement, meanings)._replace(number=number)
        self.names = driver_names(self.shape.columns)
        self.notes = notes_of(statement)
        self._forms: MutableMapping[object, Any] = util.LRUCache(_MOST_FORMS)

    def cached(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` makes, or made before with this key."""
        form: T | None = self._forms.get(key)
        if form is None:
            form = self._forms[key] = make()
        return form

    def ordered(self, capabilities: Capabilities, form: TableForms, sort: Sequence[SortKey]) -> Ordered:
        """The statement in the requested order; see `plan.ordered`. `form` says which columns are masked."""
        # All principals with the same rules share one form. After an outage, the constraints may be others.
        key = (form, capabilities.row_number, *[(part["field"], part.get("order")) for part in sort])
        return self.cached(
            key, lambda: plan.ordered(self.shape, capabilities, sort=sort, is_masked=form.hides)
        )

    def counting(self, cap: int | None = None) -> AnySelect:
        """The count of the rows; see `plan.count`."""
        return self.cached((plan.count, cap), lambda: plan.count(self.shape, cap=cap))

    def writer(
        self, output: Format, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions
    ) -> Writer:
        """The writer of a stream of some of its columns, from the dialect of its database."""
        if not output.is_stateless:
            return output.writer(columns, dialect, options)
        key = (output.name, repr(options), *(column.name for column in columns))
        return self.cached(key, lambda: output.writer(columns, dialect, options))


@dataclass(slots=True, eq=False, repr=False)  # frozen ones take three times as long to make
class View:
    """A statement on its source, in its shape.

    Attributes:
        may_estimate: the principal may see what the planner's statistics reveal.
        cache: the cache of pages, if there is one.
        run: tells the rows of one kept run from those of others; empty for rows of the database.
        as_of: when the run of kept rows began; None if the rows are those of the database.
        kept: the record of the rows, if they are kept; then this is a `dualsql.results.kept_rows.KeptView`.
    """

    source: Source
    derived: Derived
    rules: ActiveRules
    settings: Settings
    may_estimate: bool
    cache: RowCache | None
    run: str = ""
    as_of: datetime | None = None
    kept: KeptRows | None = None

    @property
    def shape(self) -> Shape:
        """The statement as a plain Select."""
        return self.derived.shape

    @property
    def output(self) -> Derived:
        """The statement whose columns answers have."""
        return self.derived

    @property
    def columns(self) -> Sequence[ResultColumn]:
        """The result's columns, in order, as its rows are written. Statements use those of the shape."""
        return self.output.shape.columns

    @property
    def dialect(self) -> Dialect:
        """Of the database whose values the rows hold."""
        return self.source.engine.sync_engine.dialect

    def writer(self, output: Format, columns: Sequence[ResultColumn], options: WriterOptions) -> Writer:
        """The writer of a stream of these columns."""
        return self.derived.writer(output, columns, self.dialect, options)

    def compile(self, select: AnySelect) -> None:
        """Compile a part of this statement into the cache that pages use."""
        dialect = self.rules.dialect(self.source.engine.dialect)
        names = sorted([*self.rules.values, *plan.page_parameters(select)])
        internals.compiled_with_cache(select, dialect, self.source.compiled, names)

    def over(self, derived: Derived) -> View:
        """A question over this statement, on the same source."""
        return replace(self, derived=derived)

    def record_maker(self, integer_strings: Sequence[str] = ()) -> RecordMaker:
        """What makes objects of rows of this statement."""
        return self.source.record_maker(self.columns, self.dialect, integer_strings=tuple(integer_strings))

    async def page(
        self, keyed: KeyedSelect, page: PlainPage | None = None
    ) -> tuple[Rows | WrittenRows, bool]:
        """The rows of a page of this statement, which may be written if a `page` is given; whether they were cached."""
        rules, names = self.rules.with_values(keyed.values), self.derived.names
        described = names.followed_by(keyed.added) if keyed.added else names
        fetch = self._fetch(keyed.select, rules, described)
        fetch.drafts = keyed.drafts
        if self.cache is None:
            return await fetch.page(page), False
        return await self.cache.page(keyed.select, rules, self.source, fetch.rows)

    async def answer(self, select: AnySelect, *, timeout: timedelta | None = None) -> Rows:
        """The rows of a query over this statement, which may read all of its rows; in `query_timeout` by default."""
        # An empty name matches any: `require_described` compares the number of columns only.
        fetch = self._fetch(select, self.rules, ("",) * len(select.selected_columns))
        timeout = fetch.timeout if timeout is None else timeout
        return await replace(fetch, timeout=timeout, may_be_fast=False).rows()

    async def sample(self, size: int, method: CountMethod) -> Sample:
        """The first rows, and the total."""
        # If the row beyond the sample is missing, the sample is the result, and no count runs (decision 2).
        first = plan.windowed((rows := self.ordered()).window, rows, 0, size + 1)
        return await self.sampled(first.select, size, method, values=first.values, ordered=rows)

    async def sampled(
        self,
        select: AnySelect,
        size: int,
        method: CountMethod,
        *,
        values: Mapping[str, int] = MappingProxyType({}),
        ordered: Ordered | None = None,
    ) -> Sample:
        """At most `size` rows of `select` with the values of its parameters, in this order, and the total."""
        sample = self._fetch(select, self.rules.with_values(values), self.derived.names)
        sample.ordered = ordered
        return await fetch_sample(sample, self._counter(), method, size=size)

    async def total(self, method: CountMethod) -> Total:
        """The number of rows, by the given count method."""
        return await self._counter().total(method)

    def _fetch(self, select: AnySelect, rules: ActiveRules, described: Sequence[str]) -> Fetch:
        timeout = self.settings.query_timeout
        return Fetch(
            source=self.source, select=lambda: select, rules=rules, described=described, timeout=timeout
        )

    def _counter(self) -> RowCounter:
        shape, counting = self.shape, self.derived.counting
        return RowCounter(self.source, shape, counting, self.rules, self.settings, self.may_estimate)

    def stream(
        self,
        writer: Writer,
        columns: Sequence[ResultColumn],
        select: AnySelect,
        expected_rows: int | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """The given columns of a part of this statement as the bytes of `writer`, in pieces; see `StreamJob`."""
        return stream_rows(
            StreamJob(
                source=self.source,
                statement=select,
                rules=self.rules,
                columns=self.columns,
                described=self.output.names,
                subset=None if columns is self.columns else [self.columns.index(c) for c in columns],
                writer=writer,
                expected_rows=expected_rows,
            )
        )

    def ordered(self, sort: Sequence[SortKey] = ()) -> Ordered:
        """The statement in the requested order."""
        return self.derived.ordered(self.source.capabilities, self.rules.form, sort)


class CursorScope(NamedTuple):
    """What cursors and resume tokens are valid for.

    Attributes:
        key: see `ReadTarget`.
        reader, tenant: of the principal who reads; None for an anonymous caller.
        order: a fingerprint of the sort keys.
    """

    key: str
    reader: str | None
    tenant: str | None
    order: bytes


class ReadTarget(NamedTuple):
    """What is read: the rows of a resource, or of a query over them, as one principal sees them.

    Attributes:
        view: the statement as the principal sees it.
        key: identifies the target; cursors and resume tokens of one target are not valid for another.
        total: the number of rows, if known.
        input_kind: what the caller wrote, a question or a SQL text, if anything; see `raise_for_input`.
        reads_conversions: whether the statement that a question reads converts values.
        notes: what else the answer says.
        late_hint: what to do where a page takes too long; empty for the usual advice.
        instead: opens what is read after an error, or raises it; None where nothing else can be read.
    """

    resource: Resource
    principal: Principal | None
    view: View
    key: str
    total: Total
    input_kind: Asked | None = None
    reads_conversions: Callable[[], bool] = lambda: False
    notes: Sequence[str] = ()
    late_hint: str = ""
    instead: Callable[[DualResponseError], Awaitable[ReadTarget]] | None = None

    def scope(self, rows: Ordered) -> CursorScope:
        """What cursors and resume tokens of these rows are valid for."""
        who = self.principal
        reader, tenant = (None, None) if who is None else (who.id, who.tenant)
        return CursorScope(self.key, reader, tenant, rows.order.fingerprint)


class Views:
    """Opens the stored statements of one server for those who may read them.

    Attributes:
        cache: the cache of pages, if there is one.
        kept: reads kept rows; None without such a feature.
        late_hint: see `ReadTarget`.
    """

    def __init__(self, sources: Sources, policy: Policy, settings: Settings) -> None:
        if settings.snapshot_tags:
            from dualsql.results.snapshots import require_sources

            require_sources(settings.snapshot_tags, sources)
        self.policy = policy
        self.kept: KeptReader | None = None
        self.late_hint = ""
        self.cache: RowCache | None = None
        if settings.result_cache is not None:
            from dualsql.results.row_cache import RowCache

            self.cache = RowCache(settings.result_cache)
        self._sources = sources
        self._settings = settings
        self._plans: WeighedCache[tuple[str, bytes], Derived] = WeighedCache(_MOST_BYTES)

    def open(self, source: Source, document: bytes, principal: Principal | None) -> View:
        """Thaw a document and apply the rules of a principal.

        Raises:
            TamperedError, NotFreezableError: see `freeze.thaw`.
            ForbiddenError: a rule requires a value that this principal does not have.
            NoTotalOrderError: the narrowed statement cannot be paged.
        """
        derived = self._plans.get((source.name, document))
        view = self.open_anew(source, document, principal, derived)
        if derived is None:
            self.keep(view, document)
        return view

    def open_anew(
        self, source: Source, document: bytes, principal: Principal | None, derived: Derived | None = None
    ) -> View:
        """As `open`, with `derived`, or else with a new statement, which no other caller has before it is kept."""
        rules = self.policy.rules_for(principal)
        if derived is None:
            statement = source.thaw(document)
            if self.policy.has_functions:
                context = HookContext(principal=principal, source=source.name)
                statement = self.policy.apply_functions(statement, context)
            derived = Derived(statement, source.meanings)
        may_estimate = self.policy.shows_all or self._settings.allow_estimates_under_hooks
        return View(source, derived, rules, self._settings, may_estimate, self.cache)

    def keep(self, view: View, document: bytes) -> None:
        """Cache what was derived from a document for its next reader."""
        # Hooks that are functions make another statement for each principal, so their statements are not shared.
        key, weight = (view.source.name, document), len(document)
        if not self.policy.has_functions and weight <= self._plans.most and self._plans.get(key) is None:
            self._plans.put(key, view.derived, weight)

    def live(self, resource: Resource, principal: Principal | None) -> View:
        """What `principal` sees of a resource, read from its database; raises what `require_ready` and `open` raise."""
        resource.require_ready()
        return self.open(self._sources[resource.source], resource.document, principal)

    async def target(
        self, resource: Resource, principal: Principal | None, sort: Sequence[SortKey] = ()
    ) -> ReadTarget:
        """The rows of a resource, to be read in this order, as `principal` sees them; raises what `live` raises."""
        target = ReadTarget(
            resource=resource,
            principal=principal,
            view=self.live(resource, principal),
            key=resource.id,
            total=resource.total,
            late_hint=self.late_hint,
        )
        if resource.kept is None:
            return target
        # What is known may be the number of the kept rows.
        total = UNCOUNTED if "rows" in resource.kept else target.total
        target = target._replace(total=total, notes=[NOT_KEPT_ROWS])
        return target if self.kept is None else await self.kept.target(target, sort)
