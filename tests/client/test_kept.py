"""Raw tool results are kept unchanged and bounded, and the SDK receives the same as without keeping."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mcp
import pytest
from mcp.server import MCPServer
from mcp_types import CallToolResult

from dualsql_client import DualResponseClient, KeptResults
from dualsql_client.detect import keep_structured_content
from tests.client.hosting import RESOURCE_ID, structured

LINK = {
    "type": "resource_link",
    "uri": f"resource://{RESOURCE_ID}",
    "name": "x",
    "mimeType": "application/json",
}
RESULT = CallToolResult.model_validate(
    {"content": [{"type": "text", "text": "one"}, LINK], "structuredContent": structured()}
)


@pytest.fixture
def server() -> MCPServer[Any]:
    server = MCPServer[Any]("schools")

    @server.tool()
    def search() -> CallToolResult:
        return RESULT

    return server


async def test_what_tools_returned_is_kept_and_the_caller_gets_the_same(server: MCPServer[Any]) -> None:
    kept = KeptResults()
    async with mcp.Client(server) as session:
        assert kept.watch(session) is session
        result = await session.call_tool("search", {})
        assert kept.results == [result] and kept.results[0] is result
        [parsed] = DualResponseClient().find(kept.take())
        assert parsed.sample == [{"id": 0}]
        assert kept.results == []


async def test_links_are_dropped_from_what_the_caller_gets_alone(server: MCPServer[Any]) -> None:
    kept = KeptResults()
    async with mcp.Client(server) as session:
        kept.watch(session, drop_links=True)
        result = await session.call_tool("search", {})
    assert [block.type for block in result.content] == ["text"]
    assert result.structured_content == RESULT.structured_content
    [raw] = kept.results
    assert [block.type for block in raw.content] == ["text", "resource_link"]


async def test_the_oldest_go_first(server: MCPServer[Any]) -> None:
    kept = KeptResults(maximum=2)

    class Session:
        count = 0

        async def call_tool(self, name: str) -> int:
            self.count += 1
            return self.count

    session = kept.watch(Session())
    for _ in range(3):
        await session.call_tool("x")
    assert kept.results == [2, 3]


async def test_a_call_that_raises_keeps_nothing() -> None:
    kept = KeptResults()

    class Session:
        async def call_tool(self) -> None:
            raise LookupError

    with pytest.raises(LookupError):
        await kept.watch(Session()).call_tool()
    assert kept.results == []


def test_the_extractor_gives_structure_of_what_succeeded() -> None:
    context = SimpleNamespace(structured_content=structured(), is_error=False)
    actual = keep_structured_content(context)
    assert DualResponseClient().parse(actual, strict=True).sample == [{"id": 0}]
    assert keep_structured_content(SimpleNamespace(structured_content=structured(), is_error=True)) is None
    assert keep_structured_content(SimpleNamespace(structured_content=None, is_error=False)) is None
