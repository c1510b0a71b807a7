"""A tool of either SDK answers with a picture, and tells its model of the columns what its sample does not show."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from sqlalchemy import select

from dualsql import DualResponse, DualResponseServer
from dualsql.charts import MEDIA_TYPE
from tests.mcp.conftest import Host, text_of
from tests.schools import SCHOOLS, School


@pytest.mark.quick(1)
async def test_a_picture(dual: DualResponseServer, host: Host) -> None:
    server = host.server()

    @dual.tool(server)
    async def draw(mark: str) -> DualResponse:
        result = await dual.create_response(select(School), name="Schools")
        chart = {"mark": mark, "x": "state", "y": {"aggregate": "count"}, "title": "By state"}
        return await dual.charts.create(result, chart, image="png")

    async with host.connected(server) as connection:
        answer = await connection.call("draw", mark="bar")
        refused = await connection.call("draw", mark="image")
    image: Any = answer.content[1]
    assert (image.type, b64decode(image.data)[:4]) == ("image", b"\x89PNG")
    content: Any = answer.structured_content
    assert content["resource"]["mimeType"] == MEDIA_TYPE
    assert sum(row["y"] for row in content["results"]) == len(SCHOOLS)
    assert refused.is_error
    assert "mark must be one of bar, line, point, histogram" in text_of(refused)


async def test_notes_on_columns(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    shown = select(School.id, School.endowment).order_by(School.id)
    dual.tool(server, name="search", profile="full", sample="tail", sample_size=2)(lambda: shown)
    async with host.connected(server) as connection:
        answer = await connection.call("search")
    text = text_of(answer)
    assert "showing 2 of 23 rows, the last ones." in text
    assert "In all 23 rows: id 1 to 23; endowment " in text
