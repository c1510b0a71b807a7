"""The envelopes in MCP's shapes, read by the SDKs themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client as FastClient, Context as FastContext, FastMCP
from hypothesis import given
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult

from dualsql.envelope import (
    DUAL_MODE_SCHEMA,
    RESPONSE_SCHEMA,
    RequestedForm,
    create_dual_mode_error,
    create_dual_mode_response,
    create_error_response,
    create_success_response,
    dual_mode_tool_result,
    from_mcp_content,
    image_item,
    resource_item,
    text_item,
    to_mcp_tool_result,
    validate_response,
    wrap_dual_mode,
    wrap_tool_response,
)
from dualsql.envelope.validation import validate
from tests.envelope.values import anything, envelopes


def read_by_the_sdk(result: Any) -> dict[str, Any]:
    """The result as MCP's own types read it."""
    json.dumps(result, allow_nan=False)
    read = CallToolResult.model_validate(result).model_dump(by_alias=True, mode="json", exclude_none=True)
    read.pop("resultType", None)
    return read


SOUND = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}


def test_success_is_content_and_structure() -> None:
    result = to_mcp_tool_result(create_success_response({"a": 1}, text="One."))
    assert read_by_the_sdk(result) == result
    assert result == {
        "content": [{"type": "text", "text": "One."}],
        "structuredContent": {"a": 1},
        "isError": False,
    }


def test_an_error_is_one_in_both_halves() -> None:
    result = to_mcp_tool_result(create_error_response("Gone.", "GONE"))
    assert read_by_the_sdk(result) == result
    assert result["isError"] is True
    assert result["structuredContent"] == {"error": {"code": "GONE", "message": "Gone."}}
    assert result["content"] == [{"type": "text", "text": "Error: Gone."}]


@pytest.mark.parametrize(
    ("item", "blocks"),
    [
        (text_item("a"), [{"type": "text", "text": "a"}]),
        (
            image_item("https://example.com/a.png", "CPU", caption="A day"),
            [{"type": "text", "text": "Image: CPU: A day (https://example.com/a.png)"}],
        ),
        (
            image_item("data:image/png;base64,AAAA", "CPU"),
            [{"type": "text", "text": "CPU"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}],
        ),
        (
            resource_item("url", "http://localhost", "UI", description="Editor"),
            [{"type": "text", "text": "UI (url): http://localhost\nEditor"}],
        ),
        (SOUND, [SOUND]),
        ({"type": "chart", "title": "CPU"}, [{"type": "text", "text": "type: chart\ntitle: CPU"}]),
    ],
)  # fmt: skip
def test_each_item_has_a_block(item: Any, blocks: list[Any]) -> None:
    result = to_mcp_tool_result({**create_success_response(), "content": [item]})
    assert result["content"] == read_by_the_sdk(result)["content"] == blocks


@pytest.mark.parametrize(
    ("uri", "kind"),
    [("resource://r1", "resource_link"), ("http://x/y", "text"), ("HTTPS://x", "text"), ("file:///etc/passwd", "text"),
     ("javascript:x", "text"), ("r1", "text")],
)  # fmt: skip
def test_a_link_is_a_block_when_asked_for_and_never_one_a_host_would_fetch(uri: str, kind: str) -> None:
    response = create_success_response(content=[resource_item("dual_response", uri, "Schools")])
    assert to_mcp_tool_result(response)["content"][1]["type"] == "text"
    result = to_mcp_tool_result(response, links="resource_link")
    assert read_by_the_sdk(result)["content"][1]["type"] == kind


@pytest.mark.long
@given(anything | envelopes)
def test_whatever_a_tool_returns_its_mcp_result_is_valid(value: Any) -> None:
    for links in ("text", "resource_link"):
        response = wrap_tool_response(lambda: value)()
        read_by_the_sdk(to_mcp_tool_result(response, links=links))
    for question in (RequestedForm(), RequestedForm("json")):
        read_by_the_sdk(dual_mode_tool_result(wrap_dual_mode(lambda: value)(), question))


@pytest.mark.parametrize(
    ("block", "item"),
    [
        ({"type": "text", "text": "a"}, {"type": "text", "text": "a"}),
        (
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "url": "data:image/png;base64,AAAA", "altText": "Image"},
        ),
        (
            {"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"},
            {"type": "text", "text": "An image of a kind that is not shown."},
        ),
        (
            {"type": "resource_link", "uri": "resource://r1", "name": "Schools"},
            {
                "type": "resource", "resourceType": "resource_link", "identifier": "resource://r1", "name": "Schools",
                "metadata": {"type": "resource_link", "uri": "resource://r1", "name": "Schools"},
            },
        ),
        (
            {"type": "resource", "resource": {"uri": "r://1", "mimeType": "text/plain", "text": "x"}},
            {
                "type": "resource", "resourceType": "text/plain", "identifier": "r://1", "name": "r://1",
                "metadata": {"uri": "r://1", "mimeType": "text/plain", "text": "x"},
            },
        ),
    ],
)  # fmt: skip
def test_mcp_s_blocks_as_items(block: Any, item: Any) -> None:
    assert from_mcp_content(block) == item
    assert validate_response({**create_success_response(), "content": [item]}) == []


def test_a_dual_mode_answer_for_a_chat_and_for_code() -> None:
    answer = create_dual_mode_response({"a": 1}, operation="x")
    chat, code = (
        dual_mode_tool_result(answer, asked) for asked in (RequestedForm(), RequestedForm("json", "code"))
    )
    assert chat["content"] == [{"type": "text", "text": "- **a:** 1"}]
    assert chat["structuredContent"] == answer
    assert json.loads(code["content"][0]["text"]) == code["structuredContent"]
    assert "display" not in code["structuredContent"]
    assert validate(code["structuredContent"], DUAL_MODE_SCHEMA) == []
    failed = dual_mode_tool_result(create_dual_mode_error("Gone.", operation="x"), RequestedForm())
    assert failed["isError"] is True
    assert read_by_the_sdk(failed) == failed


def find(state: str, limit: int = 2) -> list[str]:
    """Schools of a state."""
    if state == "??":
        raise ValueError("postgresql://admin:hunter2@db")
    return [f"{state} {number}" for number in range(limit)]


async def later(state: str, limit: int = 2) -> list[str]:
    """Schools of a state."""
    return find(state, limit)


def with_context(ctx: Context, state: str) -> str:
    return f"{type(ctx).__name__} {state}"


def with_fast_context(ctx: FastContext, state: str) -> str:
    return f"{type(ctx).__name__} {state}"


def servers() -> list[tuple[Any, Any]]:
    """Both SDKs' servers with the wrapped tools, and the client each comes with."""
    results = []
    kits = ((MCPServer("test"), Client, with_context), (FastMCP("test"), FastClient, with_fast_context))
    for server, client, contextual in kits:
        server.tool(name="contextual")(wrap_tool_response(contextual))
        for tool, name in ((find, "find"), (later, "later")):
            server.tool(name=name)(wrap_tool_response(tool, name=name))
            server.tool(name=f"{name}_dual")(wrap_dual_mode(tool, operation=name))
        results.append((server, client))
    return results


@pytest.mark.parametrize("number", [0, 1], ids=["mcp", "fastmcp"])
async def test_wrapped_tools_in_real_servers(number: int) -> None:
    server, client_of = servers()[number]
    async with client_of(server) as client:
        for tool in ("find", "later"):
            result = await client.call_tool(tool, {"state": "NJ"})
            assert validate_response(result.structured_content) == []
            assert result.structured_content["data"] == {"result": ["NJ 0", "NJ 1"]}
            dual = await client.call_tool(f"{tool}_dual", {"state": "NJ", "limit": 1})
            assert validate(dual.structured_content, DUAL_MODE_SCHEMA) == []
            broken = await client.call_tool(tool, {"state": "??"})
            assert "hunter2" not in str(broken)
            assert broken.structured_content["error"]["code"] == "TOOL_EXECUTION_ERROR"
        contextual = await client.call_tool("contextual", {"state": "NJ"})
        assert contextual.structured_content["data"] == {"result": "Context NJ"}
        listed = await client.list_tools()
        tools = {tool.name: tool for tool in getattr(listed, "tools", listed)}
        assert tools["find"].description == "Schools of a state."
        for name, schema in (("find", RESPONSE_SCHEMA), ("later_dual", DUAL_MODE_SCHEMA)):
            published = tools[name].output_schema  # one SDK leaves titles out
            assert {"title": schema["title"], **published} == schema
        assert set(tools["later"].input_schema["properties"]) == {"state", "limit"}
