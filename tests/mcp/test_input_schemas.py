"""The schemas of arguments as hosts show them to their model: plain types, and nothing that has no use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mcp import Client
from mcp_types import Implementation, Tool
from sqlalchemy import bindparam, select
from typing_extensions import TypedDict

from dualsql import DualResponseServer, SavedQuery
from dualsql.charts.mcp import add_chart_tool
from dualsql.mcp import add_catalogue, add_data_manager, add_execute_query, add_result_tools, plain_tool
from dualsql.mcp.resource_server import low_level_server
from tests.mcp.conftest import Host, MakeDual, text_of
from tests.schools import School

IN_STATE = SavedQuery("in_state", select(School.id).where(School.state == bindparam("state")), source="a")


def ready_made(dual: DualResponseServer, server: Any) -> None:
    add_catalogue(dual, server)
    add_execute_query(dual, server)
    add_result_tools(dual, server)


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and those in it."""
    if isinstance(schema, list):
        for each in schema:
            yield from schemas_in(each)
    elif isinstance(schema, dict):
        yield schema
        for keyword, value in schema.items():
            inner = list(value.values()) if keyword in {"properties", "$defs"} else value
            yield from schemas_in(inner)


def shown(tool: Tool) -> str:
    """What a host tells its model of a tool."""
    return json.dumps(
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema},
        separators=(",", ":"),
    )


async def test_every_parameter_has_a_plain_type_and_no_title(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    ready_made(dual, server)
    add_data_manager(dual, server)
    async with host.connected(server) as connection:
        tools = await connection.tools()
    for tool in tools.values():
        for schema in schemas_in(tool.input_schema):
            assert "title" not in schema
            assert schema.get("type") != "null"
            assert schema.get("default", ...) is not None
        for name, parameter in tool.input_schema["properties"].items():
            assert "type" in parameter, f"{tool.name}: {name}"


async def test_the_list_of_tools_is_short(dual: DualResponseServer, host: Host) -> None:
    """A host sends it with every request: 4,000 characters, and 8,500 with the schemas of results."""
    server = host.server()
    ready_made(dual, server)
    add_chart_tool(dual, server)
    async with host.connected(server) as connection:
        tools = await connection.tools()
    assert len(tools) == 7
    assert sum(len(shown(tool)) for tool in tools.values()) <= 4_000
    whole = [
        # Without what the SDK itself adds.
        tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta": {"fastmcp"}})
        for tool in tools.values()
    ]
    assert len(json.dumps(whole, separators=(",", ":"))) <= 8_500
    for tool in whole:
        assert {"properties", "type"} <= tool["outputSchema"].keys()
        assert not any("title" in schema for schema in schemas_in(tool["outputSchema"]))


async def test_a_parameter_that_has_no_use_is_not_there(make_dual: MakeDual, host: Host) -> None:
    one, several = host.server(), host.server()
    ready_made(make_dual(), one)
    ready_made(make_dual(databases={"a": "sqlite://", "b": "sqlite://"}, saved_queries=[IN_STATE]), several)
    async with host.connected(one) as connection:
        tools = await connection.tools()
        assert list(tools["execute_query"].input_schema["properties"]) == [
            "query",
            "parameters",
            "limit",
            "title",
        ]
        assert tools["execute_query"].input_schema["required"] == ["query"]
        for name in ("list_tables", "describe_table"):
            assert "source_name" not in shown(tools[name])
        assert "query_name" not in shown(tools["execute_query"])
    async with host.connected(several) as connection:
        tools = await connection.tools()
        assert {"query_name", "source_name"} <= tools["execute_query"].input_schema["properties"].keys()
        for name in ("list_tables", "describe_table"):
            assert "source_name" in tools[name].input_schema["properties"]


async def test_a_title_names_the_result(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    ready_made(dual, server)
    titles = {"Schools we visited": "Schools we visited", "": "Schools: id", "a\n\x1b[2Jb" + "c" * 300: None}
    async with host.connected(server) as connection:
        for title, expected in titles.items():
            result = await connection.call("execute_query", query="SELECT id FROM schools", title=title)
            name = result.structured_content["resource"]["name"]
            assert name == expected or (expected is None and name.isprintable() and len(name) <= 120)


async def test_a_null_for_what_may_be_left_out_is_taken(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    ready_made(dual, server)
    async with host.connected(server) as connection:
        result = await connection.call("list_tables", schema_name=None, cursor=None, limit=None)
        assert not result.is_error, text_of(result)
        result = await connection.call(
            "execute_query", query="SELECT id FROM schools", parameters=None, limit=None
        )
        assert not result.is_error, text_of(result)


class Written(TypedDict):
    title: str


async def test_null_stays_a_type_where_it_is_a_value(dual: DualResponseServer, host: Host) -> None:
    server = host.server()

    @plain_tool(dual, server)
    def write(
        title: str | None, kinds: list[str | None] | None = None, size: int | str | None = None
    ) -> Written:
        """Write."""
        return Written(title=f"{title} {kinds} {size}")

    async with host.connected(server) as connection:
        properties = (await connection.tools())["write"].input_schema["properties"]
        assert properties["title"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
        assert properties["kinds"] == {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        }
        assert properties["size"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        result = await connection.call("write", title=None, kinds=[None])
        assert result.structured_content == {"title": "None [None] None"}


async def test_clients_that_may_be_smolagents_are_told_what_may_be_left_out(
    dual: DualResponseServer, host: Host
) -> None:
    """It refuses a call without an argument whose schema does not say nullable (smolagents/tools.py)."""
    server = host.server()
    ready_made(dual, server)
    below = low_level_server(server)
    for mode, client, is_told in (
        ("legacy", None, True),
        ("legacy", "claude-code", False),
        ("auto", None, False),
    ):
        options: Any = {} if client is None else {"client_info": Implementation(name=client, version="1")}
        async with Client(below, mode=mode, **options) as session:
            for tool in (await session.list_tools()).tools:
                required = tool.input_schema.get("required", [])
                nullable = {
                    name for name, each in tool.input_schema["properties"].items() if each.get("nullable")
                }
                optional = set(tool.input_schema["properties"]) - set(required)
                assert nullable == (optional if is_told else set()), tool.name
            assert not (await session.call_tool("list_tables", {"cursor": None})).is_error
