"""The tool chart_result, which draws a chart of an earlier result for a model and its application."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_args

from pydantic import Field, SkipValidation

from dualsql.charts.chart import Mark, Sort, charted_aggregates
from dualsql.charts.feature import Charts
from dualsql.mcp.decorators import make_tool, tool
from dualsql.mcp.options import ToolOptions
from dualsql.query.comparisons import BUCKETS
from dualsql.resource import Principal
from dualsql.response import DualResponse
from dualsql_client.errors import checked_keywords

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_CHART = """Draw a chart of an earlier result, computed from all of its rows.

Example: resource="resource://...", mark="bar", x="state", y={"aggregate": "avg", "field": "debt"}, sort="-y"."""

_AXIS = f'dates also as {{"field", "bucket"}} with bucket {", ".join(BUCKETS)}'
# What is read by `read_chart` is not validated before, so that errors are in its words.
_Resource = Annotated[str, Field(description="The URI of the earlier result, such as resource://abc.")]
_MarkName = Annotated[str, Field(description=f"One of {', '.join(get_args(Mark))}.")]
_X = Annotated[str | dict[str, Any], SkipValidation, Field(description=f"A column; {_AXIS}.")]
_Y = Annotated[
    str | dict[str, Any] | None,
    SkipValidation,
    Field(
        description='{"aggregate": "count"}, or {"aggregate", "field"} with aggregate '
        f"{', '.join(charted_aggregates())}. For points a column; for a heatmap the other axis, as x; "
        "for a histogram nothing."
    ),
]
_Color = Annotated[
    str | dict[str, Any] | None,
    SkipValidation,
    Field(description="A column that parts bars and lines; for a heatmap the aggregate, as y."),
]
_SortName = Annotated[str | None, Field(description=f"One of {', '.join(get_args(Sort))}.")]
_Title = Annotated[str | None, Field(description="The title; by default it says what is shown.")]


@checked_keywords(make_tool)
def add_chart_tool(dual: ResultServer, server: Any, **options: Unpack[ToolOptions]) -> None:
    """Register the tool `chart_result`, which takes the URI of an earlier result and answers with a chart of it.

    The answer has the picture where the extra `charts` is installed, and the link of the chart, whose page shows it.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        options: see `ToolOptions`, without a name and a description.

    Raises:
        ConfigurationError: as `DualResponseServer.tool`.
    """
    charts = dual.features.get(Charts)
    has_pictures = find_spec("vl_convert") is not None

    async def chart_result(
        resource: _Resource,
        mark: _MarkName,
        x: _X,
        *,
        y: _Y = None,
        color: _Color = None,
        sort: _SortName = None,
        title: _Title = None,
        caller: Principal | None,
    ) -> DualResponse:
        specification = {"mark": mark, "x": x, "y": y, "color": color, "sort": sort, "title": title}
        given = {name: value for name, value in specification.items() if value is not None}
        return await charts.service.create(
            resource, given, principal=caller, image="png" if has_pictures else None
        )

    tool_options: ToolOptions = {**options, "description": _CHART}
    tool(dual, server, **tool_options)(chart_result)
