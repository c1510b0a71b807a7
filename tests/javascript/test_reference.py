"""The reference's own client, unchanged, against a server of dualsql."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.client.hosting import listening_socket, origin_of, serving
from tests.javascript.running import node, run
from tests.schools import SCHOOLS, Base, School, fill
from tests.servers import create_server


@pytest.mark.parametrize("text_format", ["json", "markdown"])
async def test_the_reference_client_reads_a_result(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine], text_format: Literal["json", "markdown"]
) -> None:
    """Its parse reads the structure; its demo of OpenAI's Agents SDK reads a text that is one JSON document."""
    engine = make_engine(sqlite_url)
    await fill(engine)
    statement = select(School.id, School.name).order_by(School.id)
    with listening_socket() as port:
        server = create_server(engine, base_url=f"{origin_of(port)}/resources", tables=Base)
        app = Starlette(routes=[Mount("/resources", server.router())], lifespan=server.lifespan)
        async with serving(app, port):
            response = await server.create_response(statement, name="Schools", sample_size=5)
            result = response.to_mcp_tool_result(text_format=text_format)
            text = result["content"][0]["text"]
            # As the SDK has them: the structure or the text, bare or in a content block, one inside the other.
            outputs = [
                result["structuredContent"],
                json.dumps(result["structuredContent"]),
                text,
                {"type": "text", "text": text},
                {"type": "text", "text": json.dumps(result["content"][0])},
            ]
            values = {"toolResult": result, "outputs": outputs}
            answer = json.loads(await run(node(), "reference.test.mjs", given=values))
    expected = {
        "sample": response.to_structured_content()["results"],
        "totalCount": len(SCHOOLS),
        "sampleCount": 5,
        "resourceUri": response.resource_uri,
        "resourceUrl": response.resource_url,
        "executedAt": response.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert answer["parsed"] == expected
    assert answer["ofOutputs"] == [expected] * (5 if text_format == "json" else 2)
    assert [row["id"] for row in answer["rows"]] == [row["id"] for row in SCHOOLS]
