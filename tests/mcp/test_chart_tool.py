"""The tool chart_result, on either SDK: the model gets a picture of all rows, the application the chart."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from dualsql import DualResponseServer
from dualsql.charts.mcp import add_chart_tool
from dualsql.freeze.document import AnySelect
from dualsql_client import DualResponseClient
from tests.mcp.conftest import Host, text_of
from tests.schools import SCHOOLS, School


def search() -> AnySelect:
    """All schools."""
    return select(School.id, School.name, School.state, School.enrollment, School.founded)


@pytest.mark.quick(1)
async def test_a_model_gets_a_chart(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    dual.tool(server)(search)
    add_chart_tool(dual, server)
    async with host.connected(server) as connection:
        response = DualResponseClient().parse(await connection.call("search"), strict=True)
        result = await connection.call(
            "chart_result",
            resource=response.resource_uri,
            mark="bar",
            x="state",
            y={"aggregate": "count"},
            sort="-y",
        )
        assert not result.is_error, text_of(result)
        chart = DualResponseClient().parse(result, strict=True)
        assert [block.type for block in result.content if block.type == "image"] == ["image"]
        assert chart.name == "Number of rows by state"
        assert sum(row["y"] for row in chart.sample) == len(SCHOOLS)
        refused = await connection.call("chart_result", resource=response.resource_uri, mark="pie", x="state")
        assert refused.is_error
        assert "mark must be one of bar, line, point, histogram, heatmap" in text_of(refused)
        unknown = await connection.call(
            "chart_result", resource=response.resource_uri, mark="histogram", x="enrolment"
        )
        assert unknown.is_error and "enrollment" in text_of(unknown)
