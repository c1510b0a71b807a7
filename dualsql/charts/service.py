"""Charts of stored results: stored as resources, drawn at every request.

A chart stores the Select of its marks over the tables of the result. Each reader gets the rows that the rules allow. A
reader cannot see which result the chart was made of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from dualsql.charts import render
from dualsql.charts.axes import VegaLite
from dualsql.charts.bins import bin_marks
from dualsql.charts.chart import (
    METADATA_KEY,
    Chart,
    chart_of,
    chart_query,
    columns_of,
    read_chart,
    with_exact_names,
)
from dualsql.charts.render import MEDIA_TYPE, PictureFormat
from dualsql.charts.rows import limits_of, marks_of
from dualsql.errors import BadParameterError
from dualsql.kept.cells import Use
from dualsql.query import StructuredQuery
from dualsql.query.parse import id_in
from dualsql.query.service import QueryService
from dualsql.resource import Principal, Resource
from dualsql.response import DualResponse, Picture
from dualsql.results.access import AccessControl
from dualsql.results.create import CreateOptions, Creator
from dualsql.results.kept_rows import kept_or_live, view_of
from dualsql.results.view import View, Views
from dualsql.settings import Settings

_BINNED: tuple[Use, ...] = ("compared", "grouped")
"""What a histogram uses the cells of its column for."""

_AT_ONCE = 2
"""Pictures that are drawn at the same time. Each uses one core."""


@dataclass(frozen=True, slots=True)
class ChartRequest:
    """A chart of some rows of a result.

    Attributes:
        filters: a question of which only the condition is used; without one, all rows are drawn.
    """

    chart: Chart
    filters: StructuredQuery

    def question_of(self, chart: Chart) -> StructuredQuery:
        """The query over the result that returns the marks of the chart, checked for it."""
        return replace(chart_query(chart), condition=self.filters.condition)


class ChartService:
    """Makes and draws the charts of one server."""

    def __init__(
        self,
        creator: Creator,
        views: Views,
        access: AccessControl,
        query: QueryService,
        *,
        settings: Settings,
        start: Callable[[], Awaitable[None]],
    ) -> None:
        self._creator = creator
        self._views = views
        self._access = access
        self._query = query
        self._settings = settings
        self._start = start
        self._drawing = asyncio.Semaphore(_AT_ONCE)

    def renew(self) -> None:
        """Release objects of the event loop of the last run."""
        self._drawing = asyncio.Semaphore(_AT_ONCE)

    async def create(
        self,
        result: Resource | DualResponse | str,
        specification: Mapping[str, Any],
        *,
        name: str | None = None,
        principal: Principal | None = None,
        expiration: timedelta | None = None,
        image: PictureFormat | None = None,
    ) -> DualResponse:
        """Store a chart of a result as a resource; see docs/charts.md.

        Args:
            result: a resource, a `DualResponse`, an id or a URI.
            specification: mark, x, y, color, sort and title.
            principal: the caller, who has to be allowed to read the result and becomes the owner of the chart.
            image: the format of a picture for the tool's result, drawn from all rows.

        Raises:
            BadParameterError, UnknownColumnError: the specification is invalid for this result.
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: `principal` cannot read the result.
            ConfigurationError: `image` is set, and the extra `charts` is not installed.
        """
        await self._start()
        requested_chart = read_chart(specification)
        parent = await self._access.open(_id_of(result), principal, "read")
        chart = _check(requested_chart, parent)
        question = chart_query(chart)
        select = await self._query.statement(parent, question, principal)
        options = CreateOptions(
            select,
            name=name or chart.title or chart.title_words[:200],
            expiration=expiration,
            metadata={METADATA_KEY: dict(specification)},
            principal=principal,
            source=parent.source,
            parent=parent,
            refinement=question,
        )
        answer = await self._query.kept_answer(parent, question, principal)
        response = await self._creator.create(options.checked(self._settings), answer)
        picture = None
        if image is not None:
            resource = await self._access.open(response.resource_id, principal, "read")
            picture = await self.picture_unchecked(resource, image, principal=principal)
        return replace(
            response,
            description=f"{chart.words}, computed from all rows; {limits_of(chart, response)}",
            mime_type=MEDIA_TYPE,
            image=picture,
        )

    async def draw_unchecked(self, resource: Resource, *, principal: Principal | None = None) -> VegaLite:
        """The chart as Vega-Lite, of the current rows that `principal` may see.

        This method checks neither rights nor expiry. Get the resource from `open_resource`, which does.

        Raises:
            BadParameterError: the resource is not a chart.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: see `read_page`.
        """
        view, live = await view_of(self._views, resource, principal), self._views.live(resource, principal)
        chart = _chart_of(resource, view)
        if chart.mark == "histogram" and view is not live and not await self._can_bin(chart, view, live):
            view = live
        self._access.admit("ask", principal)
        return await self._drawn(resource, chart, view, live, principal)

    async def draw_of_unchecked(
        self, resource: Resource, request: ChartRequest, *, principal: Principal | None = None
    ) -> VegaLite:
        """A chart of a result, which is not stored: of the current rows that `principal` may see.

        Raises:
            BadParameterError, UnknownColumnError: the chart is not possible for this result.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: see `read_page`.
        """
        chart = _check(request.chart, resource)
        self._access.admit("ask", principal)
        view, live = await self._query.views_unchecked(resource, request.question_of(chart), principal)
        if chart.mark == "histogram" and view is not live:
            rows, rows_live = (
                await view_of(self._views, resource, principal),
                self._views.live(resource, principal),
            )
            if not await self._can_bin(chart, rows, rows_live):
                view = live
        return await self._drawn(resource, chart, view, live, principal)

    async def _can_bin(self, chart: Chart, rows: View, live: View) -> bool:
        """Whether kept rows can be put into the bins of a histogram with the meaning that they have in the database."""
        reader = self._views.kept
        return reader is None or await reader.can_use(rows, live, ((chart.x, use) for use in _BINNED))

    async def _drawn(
        self, resource: Resource, chart: Chart, view: View, live: View, principal: Principal | None
    ) -> VegaLite:
        mark = bin_marks if chart.mark == "histogram" else marks_of
        marks = await kept_or_live(view, mark(chart, view), lambda: mark(chart, live))
        await self._access.note("read", principal, resource=resource, rows=len(marks.rows))
        await self._access.note_access(resource)
        return render.draw(chart, view.record_maker().describe(), marks.rows, notes=marks.notes)

    async def check_of(
        self,
        resource: Resource,
        request: ChartRequest,
        kind: PictureFormat | None,
        *,
        principal: Principal | None = None,
    ) -> None:
        """Raise what `draw_of_unchecked` raises before its first query; with a kind, `paint`."""
        chart = _check(request.chart, resource)
        await self._query.views_unchecked(resource, request.question_of(chart), principal)
        if kind is not None:
            render.require_pictures()

    async def paint(self, chart: VegaLite, kind: PictureFormat) -> Picture:
        """The picture of a chart.

        Raises:
            ConfigurationError: the extra `charts` is not installed.
        """
        # Drawing is computing: more threads than cores would only slow down what else runs in the process.
        async with self._drawing:
            return await asyncio.to_thread(render.picture, chart, kind)

    async def check(
        self, resource: Resource, kind: PictureFormat | None, *, principal: Principal | None = None
    ) -> None:
        """Raise what `draw_unchecked` raises before its first query; with a kind, `picture_unchecked`."""
        _chart_of(resource, await view_of(self._views, resource, principal))
        if kind is not None:
            render.require_pictures()

    async def picture_unchecked(
        self, resource: Resource, kind: PictureFormat, *, principal: Principal | None = None
    ) -> Picture:
        """The chart as PNG or SVG; see `draw_unchecked`.

        Raises:
            ConfigurationError: the extra `charts` is not installed.
        """
        return await self.paint(await self.draw_unchecked(resource, principal=principal), kind)


def _id_of(result: Resource | DualResponse | str) -> str:
    if isinstance(result, Resource):
        return result.id
    if isinstance(result, DualResponse):
        return result.resource_id
    return id_in(result)


def _check(chart: Chart, parent: Resource) -> Chart:
    """The chart with the names of the result's columns.

    Raises:
        BadParameterError: the column of x has no such range.
    """
    chart = with_exact_names(chart, [column["name"] for column in parent.columns])
    kinds = {column["name"]: column["type"] for column in parent.columns}
    kind = kinds.get(chart.x)
    if chart.scale == "log" and kind == "date":
        raise BadParameterError(
            f"{chart.x[:80]!r} holds dates, which have no logarithms.",
            hint="Leave scale out.",
            details={"name": "x"},
        )
    if chart.mark == "histogram" and kind not in (None, "number", "date"):
        raise BadParameterError(
            f"A histogram of {chart.x[:80]!r} is not possible: the column holds neither numbers nor dates.",
            hint='Use a bar chart with {"aggregate": "count"} to count each value.',
            details={"name": "x"},
        )
    return chart


def _chart_of(resource: Resource, view: View) -> Chart:
    chart = chart_of(resource.metadata)
    if chart is not None and chart.mark == "histogram":
        chart = with_exact_names(chart, [column.name for column in view.columns])
    if chart is None or [column.name for column in view.columns] != list(columns_of(chart)):
        raise BadParameterError(
            "This resource is not a chart.",
            hint="Say what to draw, as ?mark=bar&x=state&aggregate=count, or use GET without /chart to read its rows.",
        )
    return chart
