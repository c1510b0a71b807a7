"""Runs queries over stored results, and stores their answers as new results.

A query becomes a Select over the resource's own Select, under the same rules as its pages. Pages and streams of an
answer have the same order, cursors, limits, cache and audit as those of any Select. `QueryService` checks neither
rights nor expiry. Get the resource from `AccessControl.open`, which does.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn

from dualsql import plan
from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DualResponseError,
    LimitExceededError,
    NotFreezableError,
    NoTotalOrderError,
)
from dualsql.freeze.document import AnySelect
from dualsql.freeze.verify import UNCOMPILABLE
from dualsql.log.telemetry import step
from dualsql.plan import converts_values
from dualsql.query import build_select, read_result_query, read_structured_query
from dualsql.query.model import ResultQuery, SQLQuery, StructuredQuery, in_words
from dualsql.resource import UNCOUNTED, Addresses, CountMethod, Principal, Resource, id_in
from dualsql.response import DualResponse
from dualsql.results.access import AccessControl
from dualsql.results.create import Creator
from dualsql.results.options import CreateOptions
from dualsql.results.pages import FIRST_PAGE, PageRequest, ResultPage, ResultPages
from dualsql.results.streams import ResultStream, StreamRequest, Streams
from dualsql.results.view import Derived, KeptAnswer, ReadTarget, View, Views
from dualsql.settings import Settings
from dualsql.sql.service import is_short

_MOST_KEPT = 50
"""Queries whose statements are cached for the next page."""


class QueryService:
    """Runs queries over the resources of one server."""

    def __init__(self, views: Views, pages: ResultPages, streams: Streams, settings: Settings) -> None:
        self._views = views
        self._pages = pages
        self._streams = streams
        self._settings = settings
        self._kept: OrderedDict[tuple[str, bytes, str], Derived] = OrderedDict()

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
            LimitExceededError: there are more groups than `Settings.maximum_groups`.
            InvalidSQLError, ForbiddenSQLError, UnknownTableError: see `dualsql.sql`.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: the database failed or took too long.
        """
        checked = request.checked(self._settings)
        target = await self._target(resource, query, principal)
        with step("question"):
            page = await self._pages.read(target, checked)
            # A model takes the groups of a page for all of them, unless it reads how many there are.
            if page.has_next and isinstance(query, StructuredQuery) and query.is_grouped:
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
        checked = request.checked(self._settings)
        return self._streams.open(await self._target(resource, query, principal), checked)

    async def statement(
        self, resource: Resource, query: ResultQuery, principal: Principal | None
    ) -> AnySelect:
        """The answer as a separate Select over the tables of the result.

        Raises:
            ConfigurationError: hooks of this server are plain functions, which expect the statements of its tools.
        """
        view = self._views.live(resource, principal)
        if self._views.has_functions:
            _refuse_functions()
        if _is_quick(query, resource):
            return self._answer(query, view)
        return await view.source.limits.computed(
            lambda: self._answer(query, self._views.copied(view, resource.document))
        )

    async def kept_answer(
        self, resource: Resource, query: ResultQuery, principal: Principal | None
    ) -> KeptAnswer | None:
        """The answer from the kept rows of the result; None if the principal reads it from the database."""
        parent = await self._views.of(resource, principal)
        if not parent.run or resource.kept is None:
            return None
        view = None
        with suppress(DualResponseError):  # the database may know a function that DuckDB does not know
            view = await self._view(resource, parent, query)
        return KeptAnswer(view, datetime.fromisoformat(resource.kept["as_of"]))

    def parent_of(self, resource: Resource, principal: Principal | None) -> AnySelect:
        """The statement of a resource, for queries over it."""
        return self._views.live(resource, principal).shape.select

    async def _target(
        self, resource: Resource, query: ResultQuery, principal: Principal | None
    ) -> ReadTarget:
        parent = await self._views.of(resource, principal)
        return ReadTarget(
            resource=resource,
            principal=principal,
            view=await self._view(resource, parent, query),
            parent=parent.shape.select,
            key=f"{resource.id}{parent.run}?{query.digest}",
            total=UNCOUNTED,
            asked=query.asked,
        )

    async def _view(self, resource: Resource, view: View, query: ResultQuery) -> View:
        if self._views.has_functions:
            # The statement differs for each principal, so it is not cached.
            return view.over(await self._derived(resource, view, query))
        key = (f"{view.source.name}{view.run}", resource.document, query.digest)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = await self._derived(resource, view, query)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return view.over(found)

    async def _derived(self, resource: Resource, view: View, query: ResultQuery) -> Derived:
        if _is_quick(query, resource):
            return Derived(self._answer(query, view), view.source.meanings)

        def derived() -> Derived:
            parent = self._views.copied(view, resource.document)
            made = Derived(self._answer(query, parent), view.source.meanings)
            answer = view.over(made)
            # A statement that cannot be compiled is refused when it runs, in words for its caller.
            with suppress(*UNCOMPILABLE, DualResponseError):
                answer.compile(plan.keyed_page(answer.ordered(), offset=0, limit=1).select)
            return made

        return await view.source.limits.computed(derived)

    def _answer(self, query: ResultQuery, view: View) -> AnySelect:
        return _answer(query, view, is_fenced=self._views.hides_rows)

    async def _with_groups_counted(self, page: ResultPage, view: View) -> ResultPage:
        """The page with the number of groups, which is counted up to a limit if the page does not show all."""
        most = self._settings.maximum_groups
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


def query_forms(view: View) -> Iterator[tuple[str, AnySelect]]:
    """Typical statements of queries over a view, to be compiled as a test: filtered and sorted rows, and groups."""
    columns = view.shape.columns[:_MOST_COMPILED]
    missing = [{"column": column.name, "op": "is_null"} for column in columns]
    sorted_by = [column.name for column in columns if column.meaning.keeps_order]
    for name, question in {
        "rows": {"filters": [{"or": missing}], "order_by": sorted_by},
        "groups": {"filters": [{"or": missing}], "aggregates": ["count"]},
    }.items():
        yield name, _answer(read_structured_query(question), view)


_MOST_COLUMNS = 20
_MOST_BYTES = 1_000
"""Of a document: that of a join of 40 tables has 670, with a column of each 1,150."""


def _is_quick(query: ResultQuery, resource: Resource) -> bool:
    """Whether the statement of a query takes so little time that the event loop makes it."""
    if not isinstance(query, SQLQuery):
        return True
    is_small = len(resource.columns) <= _MOST_COLUMNS and len(resource.document) <= _MOST_BYTES
    return is_small and is_short(query.sql)


def _answer(query: ResultQuery, view: View, *, is_fenced: bool = False) -> AnySelect:
    source = view.source
    return build_select(query, view.shape, source.capabilities, source.engine.dialect, is_fenced=is_fenced)


def _refuse_functions() -> NoReturn:
    raise ConfigurationError(
        "Results cannot be refined where plain functions narrow statements.",
        hint="Narrow with rules such as TenantFilter, or ask the result itself.",
    )


logger = logging.getLogger(__name__)

LINEAGE = "lineage"
"""The key of a resource's metadata that names its parent."""

_MOST_PARENTS = 10_000


class RefineService:
    """Stores the answer of a query over a result (the parent) as a new result."""

    def __init__(
        self,
        access: AccessControl,
        query: QueryService,
        creator: Creator,
        *,
        settings: Settings,
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
            resolved, answer = await self._resolve(options)
            return await self._creator.create(resolved, answer)
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
        refinement = read_result_query(options.refinement)
        parent_id = options.parent.id if isinstance(options.parent, Resource) else id_in(options.parent)
        parent = await self._access.open(parent_id, options.principal, "read")
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
        resolved = replace(
            options,
            select=statement,
            source=parent.source,
            metadata={**(options.metadata or {}), LINEAGE: lineage},
            refinement=refinement,
            is_text=isinstance(refinement, SQLQuery),
            reads_conversions=converts_values(self._query.parent_of(parent, options.principal)),
        )
        return resolved, answer

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
