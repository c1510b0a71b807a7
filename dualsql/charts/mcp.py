"""The tool chart_result, which draws a chart of an earlier result for a model and its application."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_args

from pydantic import Field, SkipValidation

from dualsql.charts.chart import Mark, Sort
from dualsql.charts.feature import Charts
from dualsql.mcp.decorators import make_tool, tool_over_result
from dualsql.mcp.options import ToolOptions
from dualsql.resource import Principal
from dualsql.response import DualResponse
from dualsql_client.keywords import checked_keywords

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_CHART = "Chart an earlier result."

# What is read by `read_chart` is not validated before, so that errors are in its words.
_MarkName = Annotated[str, Field(description="|".join(get_args(Mark)))]
_X = Annotated[str | dict[str, Any], SkipValidation, Field(description="A column; dates as {field, bucket}.")]
_Y = Annotated[
    str | dict[str, Any] | None,
    SkipValidation,
    Field(description="{aggregate: avg, field}; of points a column; of a heatmap as x."),
]
_Color = Annotated[str | dict[str, Any] | None, SkipValidation]
_SortName = Annotated[str | None, Field(description="|".join(get_args(Sort)))]


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
        resource: str,
        mark: _MarkName,
        x: _X,
        *,
        y: _Y = None,
        color: _Color = None,
        sort: _SortName = None,
        title: str | None = None,
        caller: Principal | None,
    ) -> DualResponse:
        arguments = {"mark": mark, "x": x, "y": y, "color": color, "sort": sort, "title": title}
        specification = {name: value for name, value in arguments.items() if value is not None}
        return await charts.service.create(
            resource, specification, principal=caller, image="png" if has_pictures else None
        )

    tool_over_result(dual, server, _CHART, options)(chart_result)
