"""A stored statement as one principal sees it. Every statement derived from it has the same rules."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from sqlalchemy import ColumnElement, Compiled, Dialect, util
from sqlalchemy.exc import CompileError
from sqlalchemy.sql.cache_key import CacheKey
from sqlalchemy.types import NULLTYPE

from dualsql import plan, sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import STANDARD, Meanings, SQLType
from dualsql.columns.result import ResultColumn, driver_names
from dualsql.databases.backends import backend_of
from dualsql.databases.fetch import Fetch, RowCounter, Sample, fetch_sample
from dualsql.databases.source import Source, chosen_source
from dualsql.databases.streams import StreamJob, stream_rows
from dualsql.errors import (
    Asked,
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
from dualsql.formats import json
from dualsql.formats.json import RecordMaker
from dualsql.formats.writer import Chunk, Format, Rows, Writer, WriterOptions
from dualsql.freeze.document import AnySelect, Statement
from dualsql.log import log_failure
from dualsql.plan import KeyedSelect, Ordered, Shape
from dualsql.resource import UNCOUNTED, CountMethod, KeptRows, Principal, Resource, Total, notes_of
from dualsql.settings import Settings, SnapshotTags
from dualsql.tenancy import ActiveRules, HookContext, Policy
from dualsql.tenancy.compiler import TableForms
from dualsql_client.wire import Column, KeptDescription, Row, SortKey

if TYPE_CHECKING:
    from dualsql.results.row_cache import RowCache

T = TypeVar("T")
_log = logging.getLogger(__name__)

ROWS_OF_NOW = (
    "These are the rows of the database now: the kept rows of the result cannot answer this query with the same "
    "meaning."
)
"""The note of an answer that was read from the database although the rows of the result are kept."""

NOT_KEPT_ROWS = "The rows are those of the database now, and not the kept ones of the result."
"""The note where the kept rows of a result are not to be read: their file is gone, too old, or of other readers."""


OF_VALUES = (QueryExecutionError, InvalidSQLError, BadParameterError)
"""Errors of a query over kept rows that its database may answer: a number overflows there, a text is not ASCII."""


def is_of_kept_rows(error: BaseException) -> bool:
    """Whether an error of reading kept rows may be one of their file or of DuckDB. The database is read instead."""
    if isinstance(error, DatabaseBusyError):
        return error.is_full or isinstance(error, DatabaseUnreachableError)
    if isinstance(error, StorageError):
        return not isinstance(error, TamperedError)
    return isinstance(error, OF_VALUES)


async def kept_or_live(view: View, read: Awaitable[T], instead: Callable[[], Awaitable[T]]) -> T:
    """What `read` returns, which reads the view; what `instead` returns, if these are kept rows that cannot be read."""
    try:
        return await read
    except DualResponseError as error:
        if view.kept is None or not is_of_kept_rows(error):
            raise
        log_failure(_log, error, "reading kept rows", level=logging.WARNING)
    return await instead()


def notes_of_now(resource: Resource, view: View) -> list[str]:
    """What an answer about a result says of its rows, if they are read from the database and not from the kept ones."""
    return [NOT_KEPT_ROWS] if resource.kept is not None and view.kept is None else []


_MOST_BYTES = 512 * 1024
"""Bytes of documents; a thawed statement takes about a hundred times as much memory."""

_MOST_ORDERS = 16
"""Orders kept for one document: its own, and those that readers sort by."""


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
        self.shape: Shape = replace(plan.shape(statement, meanings), number=number)
        self.names = driver_names(self.shape.columns)
        self.notes = notes_of(statement)
        self._orders: MutableMapping[object, Ordered] = util.LRUCache(_MOST_ORDERS)
        self._makers: MutableMapping[tuple[str, ...], RecordMaker] = util.LRUCache(_MOST_ORDERS)
        self._described: MutableMapping[tuple[str, ...], Sequence[Column]] = util.LRUCache(_MOST_ORDERS)
        self._compiled: MutableMapping[TableForms, Compiled] = util.LRUCache(_MOST_ORDERS)

    def written(self, dialect: Dialect, rows: Ordered, form: TableForms) -> Compiled:
        """The SQL of the statement in its own order, under the rules of `form`, whose dialect is given."""
        compiled = self._compiled.get(form)
        if compiled is None:
            compiled = self._compiled[form] = rows.arranged.compile(dialect=dialect)
        return compiled

    def ordered(self, capabilities: Capabilities, form: TableForms, sort: Sequence[SortKey]) -> Ordered:
        """The statement in the requested order. `form` says which columns are masked.

        Raises:
            UnknownColumnError: a sort key names no column of the result.
        """
        # All principals with the same rules share one form.
        key = (form, tuple((part["field"], part.get("order")) for part in sort))
        rows = self._orders.get(key)
        if rows is None:
            rows = plan.ordered(self.shape, capabilities, sort=sort, is_masked=form.hides)
            self._orders[key] = rows
        return rows

    @cached_property
    def cache_key(self) -> CacheKey | None:
        """That of SQLAlchemy for the statement in its shape."""
        return internals.cache_key(self.shape.select)

    def described(self, integer_strings: Sequence[str]) -> Sequence[Column]:
        """The columns in the shape of the wire, for answers that are not changed; see `json.describe`."""
        key = tuple(integer_strings)
        columns = self._described.get(key)
        if columns is None:
            columns = self._described[key] = json.describe(self.shape.columns, integer_strings=key)
        return columns

    def record_maker(self, dialect: Dialect, integer_strings: Sequence[str]) -> RecordMaker:
        """The maker of objects of its rows; `dialect` is that of its database."""
        key = tuple(integer_strings)
        maker = self._makers.get(key)
        if maker is None:
            maker = self._makers[key] = RecordMaker(self.shape.columns, dialect, integer_strings=key)
        return maker


class Plans:
    """Caches what was derived from the documents read last, at most `most_bytes` of documents."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._derived: OrderedDict[tuple[str, bytes], Derived] = OrderedDict()

    def __len__(self) -> int:
        return len(self._derived)

    def derived(
        self,
        source: str,
        document: bytes,
        thaw: Callable[[bytes], Statement],
        meanings: Meanings = STANDARD,
    ) -> Derived:
        """What is derived from a document on a source; on a cache miss, `thaw` reads the document."""
        key = (source, document)
        derived = self._derived.get(key)
        if derived is not None:
            self._derived.move_to_end(key)
            return derived
        # The document stands for the memory of what is derived from it; see _MOST_BYTES.
        derived = Derived(thaw(document), meanings)
        self.keep(source, document, derived)
        return derived

    def keep(self, source: str, document: bytes, derived: Derived) -> None:
        """Cache what was derived from a document, unless it is cached."""
        if len(document) <= self._most_bytes and (source, document) not in self._derived:
            self._derived[source, document] = derived
            self._bytes += len(document)
            self._forget()

    def _forget(self) -> None:
        while self._bytes > self._most_bytes:
            (_, document), _ = self._derived.popitem(last=False)
            self._bytes -= len(document)


class Original(NamedTuple):
    """What the rows of a kept result are written as: the columns and the dialect of the statement that ran.

    Attributes:
        copied: see `KeptRows`.
    """

    derived: Derived
    dialect: Dialect
    copied: Sequence[int | None]

    def writer(self, written: Format, columns: Sequence[ResultColumn], options: WriterOptions) -> Writer:
        """The writer of some of the columns, which writes what the database would have written."""
        backend = backend_of(self.dialect)
        copied = None if backend is None else backend.copied_writers.get(written.name)
        kinds = [self.copied[self.columns.index(column)] for column in columns] if self.copied else [None]
        known = [kind for kind in kinds if kind is not None]
        if copied is None or len(known) < len(kinds):
            return written.writer(columns, self.dialect, options)
        return copied(columns, self.dialect, options, known)

    @property
    def columns(self) -> Sequence[ResultColumn]:
        """Of the statement."""
        return self.derived.shape.columns


@dataclass(frozen=True, slots=True)
class View:
    """A statement on its source, in its shape.

    Attributes:
        original: of rows that are kept and not questioned.
        run: tells the rows of one kept run from those of others; empty for rows of the database.
        kept: the record of the rows, if they are kept.
    """

    source: Source
    derived: Derived
    rules: ActiveRules
    settings: Settings
    may_estimate: bool
    results: RowCache | None
    original: Original | None = None
    run: str = ""
    kept: KeptRows | None = None

    @property
    def shape(self) -> Shape:
        """The statement as a plain Select."""
        return self.derived.shape

    @property
    def notes(self) -> Sequence[str]:
        """How the statement was read, where it was a text."""
        return self._shown.notes

    @property
    def as_of(self) -> datetime | None:
        """When the run of kept rows began; None if the rows are those of the database."""
        return None if self.kept is None else datetime.fromisoformat(self.kept["as_of"])

    @property
    def columns(self) -> Sequence[ResultColumn]:
        """The result's columns, in order, as its rows are written. Statements use those of the shape."""
        return self.shape.columns if self.original is None else self.original.columns

    @property
    def dialect(self) -> Dialect:
        """Of the database whose values the rows hold."""
        return self.source.engine.dialect if self.original is None else self.original.dialect

    def writer(self, written: Format, columns: Sequence[ResultColumn], options: WriterOptions) -> Writer:
        """The writer of a stream of these columns."""
        if self.original is None:
            return written.writer(columns, self.dialect, options)
        return self.original.writer(written, columns, options)

    def compile(self, select: AnySelect) -> None:
        """Compile a part of this statement into the cache that pages use."""
        dialect = self.rules.dialect(self.source.engine.dialect)
        names = sorted([*self.rules.values, *plan.page_parameters(select)])
        internals.compiled_with_cache(select, dialect, self.source.compiled, names)

    def in_background(self) -> View:
        """The same with the time of pending queries."""
        settings = replace(self.settings, query_timeout=self.settings.pending_timeout)
        return replace(self, settings=settings)

    def over(self, derived: Derived) -> View:
        """A question over this statement, on the same source."""
        return replace(self, derived=derived, original=None)

    def answering(self, derived: Derived, live: View) -> View:
        """A question over these kept rows, whose answer is written as that of `live` is."""
        return replace(self, derived=derived, original=Original(live.derived, live.dialect, ()))

    def records(self, rows: Rows, *, integer_strings: Sequence[str] = ()) -> list[Row]:
        """Rows of this statement as objects by column name; see `dualsql.formats.json.RecordMaker`."""
        return self._shown.record_maker(self.dialect, integer_strings).records(rows)

    def described(self, integer_strings: Sequence[str] = ()) -> Sequence[Column]:
        """The columns as answers describe them; not to be changed."""
        return self._shown.described(integer_strings)

    @property
    def _shown(self) -> Derived:
        return self.derived if self.original is None else self.original.derived

    async def page(self, keyed: KeyedSelect) -> tuple[Rows, bool]:
        """The rows of a page of this statement, and whether they come from the cache."""
        rules = self.rules.with_values(keyed.values)
        question = None if self.results is None else self.results.question(keyed.select, rules, self.source)
        if self.results is None or question is None:
            return await self._fetched(keyed.select, rules, keyed.added), False
        kept = self.results.get(question)
        if kept is not None:
            return kept, True
        # No lock: of readers who miss at the same time, each asks the database.
        rows = await self._fetched(keyed.select, rules, keyed.added)
        self.results.keep(question, rows)
        return rows, False

    async def described_types(self) -> Sequence[SQLType]:
        """The types of the columns of which nothing else tells it; empty where each has one, or nothing more is known.

        The database describes them. NullType stands for what is known already. A database that does not answer fails
        the creation, as it would fail the sample: otherwise load would decide the types of a result.

        Raises:
            QueryTimeoutError, DatabaseBusyError, QueryExecutionError: see `fetch`.
        """
        unknown = [column.is_untyped for column in self.shape.columns]
        if not any(unknown):
            return ()
        from dualsql.databases.explain import described_types

        kinds = await described_types(
            self.source, self.shape.select.limit(0), self.rules, timeout=self.settings.query_timeout
        )
        return [kind if is_unknown else NULLTYPE for kind, is_unknown in zip(kinds, unknown, strict=False)]

    async def fetch(self, select: AnySelect) -> Rows:
        """The current rows of a part of this statement."""
        return await self._fetched(select, self.rules, 0)

    async def _fetched(self, select: AnySelect, rules: ActiveRules, added: int) -> Rows:
        """The current rows of a part of this statement, with `added` further columns."""
        described = self.derived.names.followed_by(added) if added else self.derived.names
        return await self._fetch(select, rules, described, self.settings.query_timeout).rows()

    def _fetch(
        self, select: AnySelect, rules: ActiveRules, described: Sequence[str], timeout: timedelta
    ) -> Fetch:
        return Fetch(source=self.source, statement=select, rules=rules, described=described, timeout=timeout)

    async def answer(self, select: AnySelect, *, timeout: timedelta) -> Rows:
        """The rows of a query over this statement, which may read all of its rows."""
        # An empty name matches any: `require_described` compares the number of columns only.
        described = ("",) * len(select.selected_columns)
        return await self._fetch(select, self.rules, described, timeout).rows()

    async def sample(self, size: int, method: CountMethod) -> Sample:
        """The first rows, and the total."""
        # If the row beyond the sample is missing, the sample is the result, and no count runs (decision 2).
        first = plan.first_page(self.ordered(), limit=size + 1)
        return await self.sampled(first.select, size, method, values=first.values)

    async def sampled(
        self,
        select: AnySelect,
        size: int,
        asked: CountMethod,
        *,
        values: Mapping[str, int] = MappingProxyType({}),
    ) -> Sample:
        """At most `size` rows of `select` with the values of its parameters, and the total of the statement."""
        rules, timeout = self.rules.with_values(values), self.settings.query_timeout
        sample = self._fetch(select, rules, self.derived.names, timeout)
        return await fetch_sample(sample, self._counter(), asked, size=size)

    async def total(self, asked: CountMethod) -> Total:
        """The number of rows, by the given count method."""
        return await self._counter().total(asked)

    def _counter(self) -> RowCounter:
        return RowCounter(
            source=self.source,
            shape=self.shape,
            rules=self.rules,
            settings=self.settings,
            may_estimate=self.may_estimate,
        )

    def stream(
        self, writer: Writer, columns: Sequence[ResultColumn], select: AnySelect
    ) -> AsyncGenerator[Chunk, None]:
        """The given columns of a part of this statement as the bytes of `writer`, in pieces."""
        return stream_rows(
            StreamJob(
                source=self.source,
                statement=select,
                rules=self.rules,
                columns=self.columns,
                places=None if columns is self.columns else [self.columns.index(c) for c in columns],
                writer=writer,
            )
        )

    def ordered(self, sort: Sequence[SortKey] = ()) -> Ordered:
        """The statement in the requested order."""
        return self.derived.ordered(self.source.capabilities, self.rules.form, sort)


class KeptAnswer(NamedTuple):
    """The answer to a question over kept rows.

    Attributes:
        view: None if DuckDB cannot be asked in this way.
        as_of: when the kept rows were read from the database.
    """

    view: View | None
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTarget:
    """What is read: the rows of a resource, or of a query over them, as one principal sees them.

    Attributes:
        view: the statement as the principal sees it.
        key: identifies the target; cursors and resume tokens of one target are not valid for another.
        total: the number of rows, if known.
        asked: what the caller wrote, a question or a SQL text, if anything; see `dualsql.errors.blaming`.
        parent: the statement that a question reads; None where the rows are those of the resource.
        notes: what else the answer says.
        late_hint: what to do where a page takes too long; empty for the usual advice.
    """

    resource: Resource
    principal: Principal | None
    view: View
    key: str
    total: Total
    asked: Asked | None = None
    parent: AnySelect | None = None
    notes: Sequence[str] = ()
    late_hint: str = ""

    def reads_conversions(self) -> bool:
        """Whether the statement that a question reads converts values."""
        return self.parent is not None and plan.converts_values(self.parent)


class KeptReader(Protocol):
    """Reads the rows that a run of a statement left elsewhere than in its database."""

    late_hint: str
    """What to do where a page of rows that are not kept takes too long."""

    async def view(self, resource: Resource, live: View) -> View | None:
        """The kept rows of a resource; None if its database has to be read.

        Args:
            live: what the reader sees of it in its database.

        Raises:
            TamperedError: the record of the kept rows or their file was changed.
        """

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


class NothingKept:
    """The reader of a server that keeps no rows."""

    late_hint = ""

    async def view(self, resource: Resource, live: View) -> None:
        """See `KeptReader`."""

    async def can_use(self, view: View, live: View, uses: Iterable[tuple[str, str]]) -> bool:
        """See `KeptReader`."""
        return True

    async def compares_by_code_point(self, source: Source) -> bool:
        """See `KeptReader`."""
        return False

    async def describe(self, resource: Resource, live: View) -> KeptDescription:
        """See `KeptReader`."""
        return KeptDescription(kept=False, reason="This server keeps no results.")


class Views:
    """Opens the stored statements of one server for those who may read them."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        policy: Policy,
        settings: Settings,
    ) -> None:
        _require_sources(settings.snapshot_tags, sources)
        self.kept: KeptReader = NothingKept()
        self._sources = sources
        self._policy = policy
        self._settings = settings
        self._plans = Plans()
        self._results: RowCache | None = None
        if settings.result_cache is not None:
            from dualsql.results.row_cache import RowCache

            self._results = RowCache(settings.result_cache)

    @property
    def cached_bytes(self) -> int:
        """Bytes of the pages that are cached."""
        return 0 if self._results is None else self._results.bytes

    @property
    def has_functions(self) -> bool:
        """Whether there are hooks that are functions."""
        return self._policy.has_functions

    @property
    def hides_rows(self) -> bool:
        """Whether the policy hides rows or values from anyone."""
        return not self._policy.shows_all

    def open(self, source: Source, document: bytes, principal: Principal | None) -> View:
        """Thaw a document and apply the rules of a principal.

        Raises:
            TamperedError, NotFreezableError: see `freeze.thaw`.
            ForbiddenError: a rule requires a value that this principal does not have.
            NoTotalOrderError: the narrowed statement cannot be paged.
        """
        rules = self._policy.rules_for(principal)
        if self.has_functions:
            derived = self._derived(source, document, principal)
        else:
            derived = self._plans.derived(source.name, document, source.thaw, source.meanings)
        return self._view(source, derived, rules)

    async def open_in_thread(
        self, source: Source, document: bytes, principal: Principal | None, check: Callable[[View], None]
    ) -> View:
        """As `open`, for a large document of a caller's text: a worker thread thaws it and calls `check` with the view.

        The thread has a statement of its own, which is cached when it is finished: no other thread has it before.

        Raises:
            TooManyQueriesError: see `dualsql.databases.text_threads.computed`.
        """
        rules = self._policy.rules_for(principal)

        def opened() -> View:
            view = self._view(source, self._derived(source, document, principal), rules)
            check(view)
            return view

        from dualsql.databases.text_threads import computed

        view = await computed(source.limits, opened)
        if not self.has_functions:
            self._plans.keep(source.name, document, view.derived)
        return view

    def copied(self, view: View, document: bytes) -> View:
        """The view with a statement of its own, for a worker thread; `document` is that of its resource."""
        if view.kept is not None or self.has_functions:
            return view  # of one table, or made for one request
        return view.over(Derived(view.source.thaw(document), view.source.meanings))

    def _view(self, source: Source, derived: Derived, rules: ActiveRules) -> View:
        may_estimate = self._policy.shows_all or self._settings.allow_estimates_under_hooks
        return View(source, derived, rules, self._settings, may_estimate, self._results)

    def _derived(self, source: Source, document: bytes, principal: Principal | None) -> Derived:
        statement = source.thaw(document)
        if self.has_functions:
            # Hooks that are functions make another statement for each principal, so their statements are not shared.
            context = HookContext(principal=principal, source=source.name)
            statement = self._policy.apply_functions(statement, context)
        return Derived(statement, source.meanings)

    def live(self, resource: Resource, principal: Principal | None) -> View:
        """What `principal` sees of a resource, read from its database.

        Raises:
            ResourcePendingError, ResourceFailedError: it has no rows.
        """
        resource.require_ready()
        return self.open(chosen_source(self._sources, resource.source), resource.document, principal)

    async def of(self, resource: Resource, principal: Principal | None) -> View:
        """What `principal` sees of a resource: the kept rows, if they can be read.

        Raises:
            ResourcePendingError, ResourceFailedError: it has no rows.
            TamperedError: the record of the kept rows or their file was changed.
        """
        live = self.live(resource, principal)
        if resource.kept is None:
            return live
        return await self.kept.view(resource, live) or live

    def sql(self, resource: Resource, *, has_values: bool = False) -> str:
        """The SQL of a stored statement for its database, without rules.

        Args:
            has_values: with its values, where each of them can be written as SQL; else with placeholders for them.
        """
        source = chosen_source(self._sources, resource.source)
        statement = source.thaw(resource.document)
        if has_values:
            with suppress(CompileError, NotImplementedError):
                return _compiled(statement, source.engine.dialect, literal_binds=True)
        # The values of an IN are placeholders of the compiler until then.
        return _compiled(statement, source.engine.dialect, render_postcompile=True)

    async def target(
        self, resource: Resource, principal: Principal | None, sort: Sequence[SortKey] = ()
    ) -> ReadTarget:
        """The rows of a resource, to be read in this order, as `principal` sees them; raises what `of` raises."""
        view = await self.of(resource, principal)
        notes, was_kept = notes_of_now(resource, view), "rows" in (resource.kept or {})
        if view.kept is not None and sort:
            live = self.live(resource, principal)
            if not await self.kept.can_use(view, live, ((key["field"], "sorted") for key in sort)):
                view, notes = live, [ROWS_OF_NOW]
        total = Total(resource.total_count, resource.total_count_kind)
        if view.kept is not None:
            total = Total(view.kept["rows"], "exact")
        elif was_kept:
            total = UNCOUNTED  # what is known is the number of the kept ones
        return ReadTarget(
            resource=resource,
            principal=principal,
            view=view,
            key=f"{resource.id}{view.run}",
            total=total,
            notes=notes,
            late_hint=self.kept.late_hint if view.kept is None else "",
        )

    def live_target(self, resource: Resource, principal: Principal | None) -> ReadTarget:
        """The rows of a resource in its database, in place of kept ones that cannot be read."""
        return ReadTarget(
            resource=resource,
            principal=principal,
            view=self.live(resource, principal),
            key=resource.id,
            total=UNCOUNTED,
            notes=[NOT_KEPT_ROWS],
        )


def _compiled(statement: Statement, dialect: Dialect, **options: bool) -> str:
    return str(statement.compile(dialect=dialect, compile_kwargs=options))


def _require_sources(tags: SnapshotTags, known: Collection[str]) -> None:
    """Raise ConfigurationError if `snapshots` names an unknown source."""
    unknown = sorted(set(tags) - set(known))
    if unknown:
        raise ConfigurationError(
            f"snapshot_tags names the unknown source {unknown[0]!r}.", hint=f"Use one of: {', '.join(known)}."
        )
