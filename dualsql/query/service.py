"""Runs queries over stored results, and stores their answers as new results.

A query becomes a Select over the resource's own Select, under the same rules as its pages. Pages and streams of an
answer have the same order, cursors, limits, cache and audit as those of any Select. `QueryService` checks neither
rights nor expiry. Get the resource from `AccessControl.open`, which does.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from sqlalchemy import util

from dualsql import plan
from dualsql.databases.text_threads import compute_in_thread
from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    LimitExceededError,
    NotFreezableError,
    NoTotalOrderError,
    UnknownTableError,
)
from dualsql.events import step
from dualsql.freeze import UNCOMPILABLE
from dualsql.freeze.document import AnySelect
from dualsql.kept.cells import sorts_alike
from dualsql.plan.derived import converts_values
from dualsql.query import build_select, read_result_query, read_structured_query
from dualsql.query.model import ResultQuery, SQLQuery, StructuredQuery, in_words, with_names_of
from dualsql.query.parse import id_in
from dualsql.query.select import uses_in
from dualsql.query.settings import QuerySettings
from dualsql.resource import (
    LINEAGE,
    NOTES_OPTION,
    UNCOUNTED,
    Addresses,
    CountMethod,
    Principal,
    Resource,
    notes_of,
)
from dualsql.response import DualResponse
from dualsql.results.access import AccessControl
from dualsql.results.create import CreateOptions, Creator
from dualsql.results.kept_rows import (
    ROWS_OF_NOW,
    KeptAnswer,
    KeptReader,
    KeptView,
    is_of_kept_rows,
    notes_of_now,
    view_of,
)
from dualsql.results.pages import FIRST_PAGE, PageRequest, ResultPage, ResultPages
from dualsql.results.streams import ResultStream, StreamRequest, Streams
from dualsql.results.view import NOT_KEPT_ROWS, Derived, ReadTarget, View, Views
from dualsql.settings import Settings
from dualsql.sql.service import NO_TABLES, NamedSources, ReadableTables, is_short
from dualsql_client.wire import SortKey

_MOST_STATEMENTS = 50
"""Queries whose statements are cached for the next page."""

_MOST_UNANSWERED = 10_000
"""Digests of questions, of 200 bytes each."""


class QueryService:
    """Runs queries over the resources of one server."""

    def __init__(
        self,
        views: Views,
        pages: ResultPages,
        streams: Streams,
        sources: NamedSources,
        *,
        settings: Settings,
        query_settings: QuerySettings,
    ) -> None:
        self._views = views
        self._pages = pages
        self._streams = streams
        self._settings = settings
        self._maximum_groups = query_settings.maximum_groups
        self._sources = sources
        self._statements: MutableMapping[tuple[str, bytes, str, frozenset[str]], Derived] = util.LRUCache(
            _MOST_STATEMENTS
        )
        self._kept_statements: MutableMapping[tuple[Derived, bool, bytes, str], Derived | None] = (
            util.LRUCache(_MOST_STATEMENTS)
        )
        # Queries that failed on a value of the kept rows: the database answers all of their pages.
        self._unanswered: MutableMapping[tuple[str, str], None] = util.LRUCache(_MOST_UNANSWERED)

    async def page_unchecked(
        self,
        resource: Resource,
        query: ResultQuery,
        request: PageRequest = FIRST_PAGE,
        *,
        principal: Principal | None = None,
    ) -> ResultPage:
        """A page of the answer, in the order of the query. Neither rights nor expiry are checked.

        Raises:
            UnknownColumnError, BadParameterError: a column is not in the result, or does not support an operation.
            BadCursorError: the cursor belongs to another query.
            LimitExceededError: there are more groups than `QuerySettings.maximum_groups`.
            InvalidSQLError, ForbiddenSQLError, UnknownTableError: see `dualsql.sql`.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: the database failed or took too long.
        """
        query = _with_result_names(query, resource)
        request_checked = request.checked(self._settings)
        target = await self._target(resource, query, principal, request_checked.sort)
        with step("question"):
            page = await self._pages.read(target, request_checked)
            # A model takes the groups of a page for all of them, unless it reads how many there are.
            if page.has_next and isinstance(query, StructuredQuery) and query.is_grouped:
                if page.as_of is None and target.view.kept is not None:
                    # The page is the database's, in place of kept rows that could not be read.
                    target = await self._live_target(resource, query, principal)
                return await self._with_groups_counted(page, target.view)
            return page

    async def stream_unchecked(
        self,
        resource: Resource,
        query: ResultQuery,
        request: StreamRequest,
        *,
        principal: Principal | None = None,
    ) -> ResultStream:
        """The whole answer as bytes in the format of `request`. Neither rights nor expiry are checked."""
        query = _with_result_names(query, resource)
        checked = request.checked(self._settings)
        target = await self._target(resource, query, principal, checked.sort)
        return self._streams.open(target, checked)

    async def views_unchecked(
        self, resource: Resource, query: ResultQuery, principal: Principal | None
    ) -> tuple[View, View]:
        """The answer as a view to compute from, and that of the database; they differ where the rows are kept.

        Neither rights nor expiry are checked.

        Raises:
            As `page_unchecked` before its query.
        """
        query = _with_result_names(query, resource)
        live = await self._view(resource, self._views.live(resource, principal), query, principal)
        parent = await view_of(self._views, resource, principal)
        view = None if parent.kept is None else await self._kept_view(resource, parent, query, principal)
        return view or live, live

    async def statement(
        self, resource: Resource, query: ResultQuery, principal: Principal | None
    ) -> AnySelect:
        """The answer as a separate Select over the tables of the result.

        Raises:
            ConfigurationError: hooks of this server are plain functions, which expect the statements of its tools.
        """
        query = _with_result_names(query, resource)
        view = self._views.live(resource, principal)
        if self._views.policy.has_functions:
            _refuse_functions()
        tables = self._tables(view, query, principal)
        if _is_quick(query, resource):
            return self._answer(query, view, tables)
        return await compute_in_thread(
            view.source.limits,
            lambda: self._answer(query, self._copy(view, resource.document), tables),
        )

    async def kept_answer(
        self, resource: Resource, query: ResultQuery, principal: Principal | None
    ) -> KeptAnswer | None:
        """The answer from the kept rows of the result; None if the principal reads it from the database."""
        if resource.kept is None:
            return None
        query = _with_result_names(query, resource)
        parent = await view_of(self._views, resource, principal)
        if parent.as_of is None:
            return None
        view = None
        with suppress(DualResponseError):  # what the database may answer, such as a median
            view = await self._kept_view(resource, parent, query, principal)
        return KeptAnswer(view, parent.as_of)

    def parent_of(self, resource: Resource, principal: Principal | None) -> AnySelect:
        """The statement of a resource, for queries over it."""
        return self._views.live(resource, principal).shape.select

    async def _target(
        self, resource: Resource, query: ResultQuery, principal: Principal | None, sort: Sequence[SortKey]
    ) -> ReadTarget:
        parent = await view_of(self._views, resource, principal)
        view = await self._kept_view(resource, parent, query, principal)
        if view is None or not await self._is_sorted_alike(resource, view, sort, principal):
            return await self._live_target(resource, query, principal)
        target = self._target_of(resource, query, principal, view, parent)
        if view.kept is None:
            return target

        async def instead(error: DualResponseError) -> ReadTarget:
            if not is_of_kept_rows(error):
                raise error
            # Such as a number that overflows there and not here, or a text that is not ASCII.
            self._unanswered[view.run, query.digest] = None
            return await self._live_target(resource, query, principal)

        return target._replace(instead=instead)

    async def _is_sorted_alike(
        self, resource: Resource, view: View, sort: Sequence[SortKey], principal: Principal | None
    ) -> bool:
        """Whether an answer has the same order by these of its columns in the database, if its rows are kept ones."""
        if view.kept is None or not sort:
            return True
        source = self._views.live(resource, principal).source
        is_by_code_point = await self._kept_reader.compares_by_code_point(source)
        names = {key["field"] for key in sort}
        return all(
            sorts_alike(column, by_code_point=is_by_code_point)
            for column in view.columns
            if column.name in names
        )

    async def _live_target(
        self, resource: Resource, query: ResultQuery, principal: Principal | None
    ) -> ReadTarget:
        """The answer of the database, also where the rows of the result are kept."""
        parent = self._views.live(resource, principal)
        view = await self._view(resource, parent, query, principal)
        target = self._target_of(resource, query, principal, view, parent)
        return target._replace(notes=[ROWS_OF_NOW])

    def _target_of(
        self,
        resource: Resource,
        query: ResultQuery,
        principal: Principal | None,
        view: View,
        parent: View,
    ) -> ReadTarget:
        return ReadTarget(
            resource=resource,
            principal=principal,
            view=view,
            reads_conversions=partial(converts_values, parent.shape.select),
            # Of kept rows and of the database's, cursors are not the same.
            key=f"{resource.id}{view.run}?{query.digest}",
            total=UNCOUNTED,
            input_kind=query.asked,
            notes=notes_of_now(resource, view),
        )

    async def _kept_view(
        self, resource: Resource, parent: View, query: ResultQuery, principal: Principal | None
    ) -> View | None:
        """The answer of the rows of `parent`; None if only the database gives the right one.

        Raises what the database's answer raises, if the rows are kept.
        """
        if not isinstance(parent, KeptView):
            return await self._view(resource, parent, query, principal)
        live = await self._view(resource, self._views.live(resource, principal), query, principal)
        if (parent.run, query.digest) in self._unanswered:
            return None
        by_code_point = await self._kept_reader.compares_by_code_point(live.source)
        key = (parent.derived, by_code_point, resource.document, query.digest)
        if key in self._kept_statements:
            answer = self._kept_statements[key]
        else:
            rows = self._views.live(resource, principal)
            answer = self._kept_statements[key] = await self._kept_statement(
                resource, rows, parent, query, by_code_point=by_code_point
            )
        return None if answer is None else parent.answering(answer, live)

    async def _kept_statement(
        self, resource: Resource, live: View, parent: KeptView, query: ResultQuery, *, by_code_point: bool
    ) -> Derived | None:
        """DuckDB's statement for a query over the kept rows of `live`; None without one."""
        if isinstance(query, SQLQuery):
            from dualsql.kept.translation import is_translated

            if not is_translated(live.dialect.name):
                return None
            return await self._translation(resource, live, parent, query, by_code_point=by_code_point)
        if not await self._kept_reader.can_use(parent, live, uses_in(query)):
            return None
        with suppress(BadParameterError):  # what the file cannot answer, and the database can
            return Derived(self._answer(query, parent, NO_TABLES), parent.source.meanings)
        return None

    async def _translation(
        self, resource: Resource, live: View, parent: KeptView, query: SQLQuery, *, by_code_point: bool
    ) -> Derived | None:
        """DuckDB's statement for a SQL text; None without one."""
        if _is_quick(query, resource):
            return _translation(live, parent, query, by_code_point=by_code_point)

        def derived() -> Derived | None:
            rows = self._copy(live, resource.document)
            answer = _translation(rows, parent, query, by_code_point=by_code_point)
            if answer is not None:
                _compile(parent.answering(answer, rows))
            return answer

        return await compute_in_thread(live.source.limits, derived)

    async def _view(
        self, resource: Resource, view: View, query: ResultQuery, principal: Principal | None
    ) -> View:
        tables = self._tables(view, query, principal)
        if self._views.policy.has_functions:
            # The statement differs for each principal, so it is not cached.
            return view.over(await self._derive(resource, view, query, tables))
        key = (view.source.name, resource.document, query.digest, tables.names)
        statement = self._statements.get(key)
        if statement is None:
            statement = self._statements[key] = await self._derive(resource, view, query, tables)
        return view.over(statement)

    @property
    def _kept_reader(self) -> KeptReader:
        assert self._views.kept is not None, "it has read the view"
        return self._views.kept

    def _copy(self, view: View, document: bytes) -> View:
        """The view with a statement of its own, for a worker thread; `document` is that of its resource."""
        if self._views.policy.has_functions:
            return view  # made for one request
        return view.over(Derived(view.source.thaw(document), view.source.meanings))

    def _tables(self, view: View, query: ResultQuery, principal: Principal | None) -> ReadableTables:
        """The tables that a query over a live view may read besides the result."""
        if not isinstance(query, SQLQuery) or not query.reads_tables:
            return NO_TABLES
        return self._sources.readable(principal, view.source.name)

    async def _derive(
        self, resource: Resource, view: View, query: ResultQuery, tables: ReadableTables
    ) -> Derived:
        if _is_quick(query, resource):
            return Derived(self._answer(query, view, tables), view.source.meanings)

        def derived() -> Derived:
            parent = self._copy(view, resource.document)
            answer = Derived(self._answer(query, parent, tables), view.source.meanings)
            _compile(view.over(answer))
            return answer

        return await compute_in_thread(view.source.limits, derived)

    def _answer(self, query: ResultQuery, view: View, tables: ReadableTables) -> AnySelect:
        return _answer(query, view, is_fenced=not self._views.policy.shows_all, tables=tables)

    async def _with_groups_counted(self, page: ResultPage, view: View) -> ResultPage:
        """The page with the number of groups, which is counted up to a limit if the page does not show all."""
        most = self._maximum_groups
        total = await view.total(CountMethod("capped", most))
        if total.kind == "capped":
            raise LimitExceededError(
                f"There are more than {most} groups.",
                hint="Group by fewer columns, cut dates to a bucket, or filter the rows.",
                details={"maximum_groups": most},
            )
        return replace(page, total_count=total.rows, total_count_kind=total.kind)


_MOST_COMPILED = 16
"""Columns that the statements of `query_forms` filter and sort by."""


def query_forms(view: View) -> Iterator[AnySelect]:
    """Typical statements of queries over a view, to be compiled as a test: filtered and sorted rows, and groups."""
    columns = view.shape.columns[:_MOST_COMPILED]
    missing = [{"column": column.name, "op": "is_null"} for column in columns if column.meaning.keeps_null]
    sorted_by = [column.name for column in columns if column.meaning.keeps_order]
    filters = [{"or": missing}] if missing else []
    for question in (
        {"filters": filters, "order_by": sorted_by},
        {"filters": filters, "aggregates": ["count"]},
    ):
        yield _answer(read_structured_query(question), view)


_MOST_COLUMNS = 20
_MOST_BYTES = 1_000
"""Of a document: that of a join of 40 tables has 670, with a column of each 1,150."""


def _with_result_names(query: ResultQuery, resource: Resource) -> ResultQuery:
    """The query with the columns' names as the result has them."""
    return with_names_of(query, [column["name"] for column in resource.columns])


def _is_quick(query: ResultQuery, resource: Resource) -> bool:
    """Whether the statement of a query takes so little time that the event loop makes it."""
    if not isinstance(query, SQLQuery):
        return True
    is_small = len(resource.columns) <= _MOST_COLUMNS and len(resource.document) <= _MOST_BYTES
    return is_small and is_short(query.sql)


def _compile(answer: View) -> None:
    """Compile a page for the cache. What cannot be compiled is refused when it runs, in words for its caller."""
    with suppress(*UNCOMPILABLE, DualResponseError):
        answer.compile(answer.ordered().keyed_window.select)


def _with_note(statement: AnySelect, note: str) -> AnySelect:
    return statement.execution_options(**{NOTES_OPTION: (*notes_of(statement), note)})


def _translation(live: View, parent: KeptView, query: SQLQuery, *, by_code_point: bool) -> Derived | None:
    from dualsql.kept.translation import KeptColumns, UntranslatableError, table_of_rows, translate_statement

    assert parent.kept is not None
    number: Any = parent.shape.number
    columns = KeptColumns(live.shape, parent.kept["cells"], number.table, number)
    relation, dialect = table_of_rows(columns), live.dialect
    try:
        statement = build_select(query, relation, live.source.capabilities, dialect)
        rows = plan.ordered(plan.shape(statement, live.source.meanings), live.source.capabilities)
        translation = translate_statement(rows, relation, columns, dialect.name, by_code_point=by_code_point)
        return Derived(translation, parent.source.meanings)
    except (UntranslatableError, UnknownTableError) as error:  # the file holds no tables
        logger.debug("A question over kept rows is asked of the database: %s", error)
        return None


def _answer(
    query: ResultQuery, view: View, *, is_fenced: bool = False, tables: ReadableTables = NO_TABLES
) -> AnySelect:
    source, capabilities = view.source, view.source.capabilities
    if isinstance(view, KeptView):
        from dualsql.kept.translation import computing_as

        assert view.original is not None  # the rows of the result, not an answer over them
        computation = view.original.derived.shape.meanings.computation
        capabilities = computing_as(capabilities, view.dialect.name, compensates=computation.compensates)
    parts = (view.shape, capabilities, source.engine.dialect)
    return build_select(query, *parts, is_fenced=is_fenced, tables=tables)


def _refuse_functions() -> NoReturn:
    raise ConfigurationError(
        "Results cannot be refined where plain functions narrow statements.",
        hint="Narrow with rules such as TenantFilter, or ask the result itself.",
    )


logger = logging.getLogger(__name__)

_MOST_PARENTS = 10_000


class RefineService:
    """Stores the answer of a query over a result (the parent) as a new result."""

    def __init__(
        self,
        access: AccessControl,
        query: QueryService,
        creator: Creator,
        *,
        settings: QuerySettings,
        addresses: Addresses,
    ) -> None:
        self._access = access
        self._query = query
        self._creator = creator
        self._settings = settings
        self._addresses = addresses
        self._children: Counter[str] = Counter()

    async def create(self, options: CreateOptions) -> DualResponse:
        """The response of a refinement. If it cannot be stored, the error is the caller's, who wrote it.

        Raises:
            BadParameterError: a Select is given as well, or the parent or the refinement is missing, or the statement
                of the refinement cannot be stored.
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: the principal may not read the parent.
            LimitExceededError: there are too many levels of refinements, or too many refinements of the parent.
            UnknownColumnError, InvalidSQLError, ...: see `QueryService.page`.
        """
        try:
            resolution, answer = await self._resolve(options)
            return await self._creator.create(resolution, answer)
        except (NotFreezableError, NoTotalOrderError) as error:
            if options.refinement is None:
                raise
            logger.warning("A refinement of %s could not be stored: %s", options.parent, error)
            raise BadParameterError(
                "This result cannot be refined in this way: what it is asked for cannot be stored.",
                hint="Ask it without making a result (query), or refine it by other columns.",
            ) from error

    async def _resolve(self, options: CreateOptions) -> tuple[CreateOptions, KeptAnswer | None]:
        """The options with the statement of the refinement, the parent's database, and the origin of the result.

        With them comes the answer from the parent's kept rows, if there are any.
        """
        if options.select is not None or options.parent is None or options.refinement is None:
            raise BadParameterError(
                "A response is made of a Select, or of a parent and a refinement.",
                hint="Give the result's URI and what to ask of it.",
                developer_hint='create_response(name=..., parent="resource://...", refinement={"filters": [...]})',
            )
        parent_id = options.parent.id if isinstance(options.parent, Resource) else id_in(options.parent)
        parent = await self._access.open(parent_id, options.principal, "read")
        refinement = _with_result_names(read_result_query(options.refinement), parent)
        depth = depth_of(parent) + 1
        self._require_room(parent, depth)
        statement = await self._query.statement(parent, refinement, options.principal)
        lineage = {
            "parent": self._addresses.uri(parent.id),
            "depth": depth,
            "refinement": in_words(refinement),
        }
        # Counted only now: a refinement that is refused stores nothing. Others may have been counted meanwhile.
        self._require_room(parent, depth)
        self._count(parent)
        answer = await self._query.kept_answer(parent, refinement, options.principal)
        if answer is None and parent.kept is not None:
            statement = _with_note(statement, NOT_KEPT_ROWS)
        elif answer is not None and answer.view is None:
            statement = _with_note(statement, ROWS_OF_NOW)
        resolution = replace(
            options,
            select=statement,
            source=parent.source,
            metadata={**(options.metadata or {}), LINEAGE: lineage},
            refinement=refinement,
            is_text=isinstance(refinement, SQLQuery),
            reads_conversions=converts_values(self._query.parent_of(parent, options.principal)),
        )
        return resolution, answer

    def _require_room(self, parent: Resource, depth: int) -> None:
        if depth > self._settings.maximum_refinement_depth:
            raise LimitExceededError(
                f"This result was refined {depth - 1} times already.",
                hint="Refine an earlier one, or run the query anew.",
                details={"maximum_refinement_depth": self._settings.maximum_refinement_depth},
            )
        if self._children[parent.id] >= self._settings.maximum_refinements:
            raise LimitExceededError(
                "This result was refined too often.",
                hint="Use what was made of it, or ask it without making a result.",
                details={"maximum_refinements": self._settings.maximum_refinements},
            )

    def _count(self, parent: Resource) -> None:
        self._children[parent.id] += 1
        if len(self._children) > _MOST_PARENTS:
            # The parent that was first refined the longest ago has most likely expired.
            del self._children[next(iter(self._children))]


def depth_of(resource: Resource) -> int:
    """The number of refinements between the resource and the Select of a tool."""
    lineage = resource.metadata.get(LINEAGE)
    depth: Any = lineage.get("depth") if isinstance(lineage, Mapping) else None
    return depth if isinstance(depth, int) and depth > 0 else 0
