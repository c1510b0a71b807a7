"""The extension of fastmcp: what tools return becomes a dual response, and other tools stay as they are."""

from __future__ import annotations

import typing
from typing import Any

import fastmcp
import httpx
import jsonschema
import mcp
import pytest
from fastmcp import Context
from fastmcp.dependencies import Depends
from fastmcp.exceptions import ToolError
from fastmcp.tools import FunctionTool
from mcp.server import MCPServer
from sqlalchemy import Select, select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import BadParameterError, ConfigurationError, DualResponse, DualResponseServer, Principal
from dualsql.mcp import Answer, DualResponses
from dualsql.openapi.service import EXTENSION
from dualsql_client import DualResponseClient
from tests.mcp.conftest import BASE_URL, MakeDual
from tests.schools import SCHOOLS, School

STATEMENT = select(School.id, School.name).order_by(School.id)


def declared(limit: int = 100) -> Select[int, str]:
    """Schools."""
    if limit < 0:
        raise BadParameterError("limit is positive.", hint="Give 1.")
    return STATEMENT.where(School.id <= limit)


async def undeclared(kind: str, context: Context):  # type: ignore[no-untyped-def]
    """Anything."""
    await context.report_progress(1, 2)
    match kind:
        case "select":
            return STATEMENT
        case "number":
            return 3
        case "own":
            raise ToolError("mine")
    raise ValueError("not for a model")


def the_name() -> str:
    return "All of them"


def either(is_many: bool, name: str = Depends(the_name)) -> Answer | None:
    """An answer, or nothing."""
    return Answer(STATEMENT, name=name) if is_many else None


def counted(number: int):  # type: ignore[no-untyped-def]
    """Numbers."""
    yield from range(number)


def plain(number: int) -> dict[str, int]:
    """Plain data."""
    return {"number": number}


def of_a_caller(principal: Principal | None) -> Select[int, str]:
    return STATEMENT.where(School.id == (1 if principal is None else 2))


def undeclared_of_a_caller(principal: Principal | None):  # type: ignore[no-untyped-def]
    return of_a_caller(principal)


def server_of(dual: DualResponseServer | None, **options: Any) -> fastmcp.FastMCP[Any]:
    server: fastmcp.FastMCP[Any] = fastmcp.FastMCP("schools")
    server.tool(declared, tags={"a tag"})
    if dual is not None:
        server.add_extension(DualResponses(dual, **options))
    # Those that are registered later change, too.
    for function in (undeclared, either, plain, counted):
        server.tool(function)
    return server


async def called(server: fastmcp.FastMCP[Any], name: str, **arguments: Any) -> Any:
    async with fastmcp.Client(server) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        result = await client.call_tool_mcp(name, arguments)
        if tools[name].output_schema is not None and not result.is_error:
            jsonschema.validate(result.structured_content, tools[name].output_schema)
    return result


@pytest.mark.parametrize(
    ("name", "arguments", "rows"),
    [
        ("declared", {}, len(SCHOOLS)),
        ("declared", {"limit": 4}, 4),
        ("undeclared", {"kind": "select"}, len(SCHOOLS)),
        ("either", {"is_many": True}, len(SCHOOLS)),
    ],
)
async def test_every_row_is_behind_the_link(
    dual: DualResponseServer, name: str, arguments: dict[str, Any], rows: int
) -> None:
    result = await called(server_of(dual, sample_size=2), name, **arguments)
    assert not result.is_error
    assert len(result.structured_content["results"]) == 2
    assert (result.structured_content["resource"]["name"] == the_name()) is (name == "either")
    transport = httpx.ASGITransport(Starlette(routes=[Mount("/resources", dual.router())]))
    async with httpx.AsyncClient(transport=transport) as http:
        parsed = DualResponseClient(BASE_URL, http).parse(result, strict=True)
        assert [row["id"] for row in await parsed.fetch_all()] == list(range(1, rows + 1))


async def test_other_tools_are_as_without_the_extension(dual: DualResponseServer) -> None:
    with_it, without = server_of(dual), server_of(None)
    for name, arguments in (
        ("plain", {"number": 3}),
        ("counted", {"number": 3}),
        ("undeclared", {"kind": "number"}),
        ("undeclared", {"kind": "own"}),
        ("undeclared", {"kind": "else"}),
        ("undeclared", {}),
        ("plain", {"number": 1, "more": 2}),
    ):
        assert await called(with_it, name, **arguments) == await called(without, name, **arguments), name
    async with fastmcp.Client(with_it) as one, fastmcp.Client(without) as other:
        listed = [{tool.name: tool for tool in await each.list_tools()} for each in (one, other)]
    assert {name for name in listed[0] if listed[0][name] != listed[1][name]} == {"declared", "either"}


async def test_a_tool_says_what_it_answers_and_keeps_what_its_author_said(dual: DualResponseServer) -> None:
    server = server_of(dual, sample_size=2)
    tool = await server.get_tool("declared")
    assert isinstance(tool, FunctionTool)
    assert tool.tags == {"a tag"}
    again = await server.get_tool("declared")
    assert isinstance(again, FunctionTool)
    assert again.fn is tool.fn, "the SDK would make a validator for each call"
    assert (tool.description or "").startswith("Schools.\n\nAnswers with 2 rows, the total, and a link")
    assert {"results", "resource", "metadata", "error"} <= set((tool.output_schema or {})["properties"])


async def test_a_tool_may_be_annotated_with_a_dual_response(dual: DualResponseServer) -> None:
    server = server_of(dual)

    async def annotated() -> DualResponse:
        return await dual.create_response(STATEMENT, name="Schools")

    server.tool(annotated)
    assert "Schools" in (await called(server, "annotated")).content[0].text
    assert "profile" in typing.get_type_hints(DualResponse)


async def test_errors_are_those_of_dualsql(dual: DualResponseServer) -> None:
    result = await called(server_of(dual), "declared", limit=-1)
    assert result.is_error
    assert result.structured_content["error"]["code"] == "BAD_PARAMETER"


@pytest.mark.parametrize("function", [of_a_caller, undeclared_of_a_caller])
async def test_a_client_cannot_say_who_calls(dual: DualResponseServer, function: Any) -> None:
    server: fastmcp.FastMCP[Any] = fastmcp.FastMCP("schools")
    server.tool(function)
    server.add_extension(DualResponses(dual))
    async with fastmcp.Client(server) as client:
        (tool,) = await client.list_tools()
    assert tool.input_schema["properties"] == {}
    forged = await called(server, function.__name__, principal={"id": "ana"})
    assert forged.is_error
    result = await called(server, function.__name__)
    assert [row["id"] for row in result.structured_content["results"]] == [1]


async def test_it_is_announced_and_options_are_checked(dual: DualResponseServer) -> None:
    async with mcp.Client(server_of(dual)._mcp_server) as client:
        extensions = client.server_capabilities.extensions or {}
    assert extensions[EXTENSION]["baseUrl"] == BASE_URL
    assert extensions[EXTENSION]["version"] == 1
    with pytest.raises(ConfigurationError, match="an extension of fastmcp"):
        MCPServer("official", extensions=[DualResponses(dual)])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="links is one of"):
        DualResponses(dual, links="none")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sample_sizes"):
        DualResponses(dual, sample_sizes=2)  # type: ignore[call-arg]


async def test_tools_of_a_mounted_server_are_included_if_it_has_the_extension(make_dual: MakeDual) -> None:
    inner: fastmcp.FastMCP[Any] = fastmcp.FastMCP("inner")
    inner.tool(declared)
    inner.add_extension(DualResponses(make_dual()))
    outer: fastmcp.FastMCP[Any] = fastmcp.FastMCP("outer")
    outer.mount(inner, namespace="inner")
    result = await called(outer, "inner_declared")
    assert result.structured_content["metadata"]["total_count"] == len(SCHOOLS)
