"""Tools refuse arguments that they do not have, on either SDK, and have those that models reach for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from mcp_types import CallToolResult
from pydantic import Field
from sqlalchemy import select
from typing_extensions import TypedDict

from dualsql import DualResponseServer, Principal
from dualsql.freeze.document import AnySelect
from dualsql.mcp import (
    add_catalogue,
    add_data_manager,
    add_execute_query,
    add_query,
    add_result_tools,
    plain_tool,
)
from tests.mcp.conftest import Connection, Host, text_of
from tests.schools import SCHOOLS, School

IDS = sorted((row["id"] for row in SCHOOLS), reverse=True)


class Pong(TypedDict):
    """An answer."""

    said: str


def search(state: Literal["NJ", "NY"] = "NJ", smallest: Annotated[int, Field(ge=0)] = 0) -> AnySelect:
    """Schools."""
    return select(School.id).where(School.state == state, School.enrollment >= smallest)


def latest() -> AnySelect:
    """All schools, the last one first."""
    return select(School.id, School.name, School.state).order_by(School.id.desc())


def ping(word: str, caller: Principal | None) -> Pong:
    """Answer."""
    return Pong(said=word)


def server_of(dual: DualResponseServer, host: Host) -> Any:
    """A server with every tool there is."""
    server = host.server()
    dual.tool(server)(search)
    dual.tool(server, sample_size=3)(latest)
    plain_tool(dual, server)(ping)
    add_catalogue(dual, server)
    add_execute_query(dual, server)
    add_query(dual, server)
    add_result_tools(dual, server, sample_size=3)
    add_data_manager(dual, server)
    return server


async def call(connection: Connection, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """The result, whatever it is."""
    session = connection.session
    actual = await getattr(session, "call_tool_mcp", session.call_tool)(name, arguments)
    assert isinstance(actual, CallToolResult)
    return actual


def assert_malformed(result: CallToolResult, *words: str) -> None:
    """It is refused in our words, without a structure (docs/decisions/0017)."""
    assert result.is_error and result.structured_content is None
    text = text_of(result)
    assert text.startswith("Error executing tool ")
    assert all(word in text for word in words), text
    assert "pydantic" not in text and "http" not in text and "input_value" not in text


async def test_every_tool_refuses_what_it_does_not_have(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(server_of(dual, host)) as connection:
        tools = await connection.tools()
        assert len(tools) == 11
        for name, tool in tools.items():
            assert tool.input_schema["additionalProperties"] is False, name
            hint = "Allowed here: " if tool.input_schema["properties"] else "None is allowed here."
            assert_malformed(await call(connection, name, {"zzz": 1}), "Unknown argument 'zzz'.", hint)
            for known in tool.input_schema["properties"]:
                misspelt = known[:1] + known[2:]
                assert_malformed(
                    await call(connection, name, {misspelt: 1}),
                    f"Unknown argument {misspelt!r}.",
                    "Did you mean '",
                )


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("tool", "argument", "hint"),
    [
        ("query_result", "where", "Use filters, or write the condition in sql: SELECT * FROM data WHERE"),
        ("refine_result", "filter", "Use filters, or write the condition in sql"),
        ("query_result", "sort", "Did you mean 'order_by'?"),
        ("query_result", "skip", "Did you mean 'offset'?"),
        ("query_result", "query", "Did you mean 'sql'?"),
        ("query_result", "uri", "Did you mean 'resource'?"),
        ("refine_result", "fields", "Did you mean 'columns'?"),
        ("execute_query", "sql", "Did you mean 'query'?"),
        ("execute_query", "database", "Allowed here: query, parameters, limit, title."),
        ("query", "query", "Did you mean 'sql'?"),
        ("search_catalog", "query", "Did you mean 'terms'?"),
    ],
)
async def test_a_name_that_means_the_same_is_led_to_the_right_one(
    dual: DualResponseServer, host: Host, tool: str, argument: str, hint: str
) -> None:
    async with host.connected(server_of(dual, host)) as connection:
        result = await call(connection, tool, {argument: "carrier = 'UA'"})
    assert_malformed(result, f"Unknown argument {argument!r}.", hint)


async def test_values_that_do_not_fit_are_refused_in_our_words(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(server_of(dual, host)) as connection:
        wrong = await call(connection, "search", {"state": "XX", "smallest": -1})
        missing = await call(connection, "query_result", {"sql": "SELECT 1"})
        text = await call(connection, "query_result", {"resource": "resource://x", "filters": "state = 'NJ'"})
    assert_malformed(wrong, "state must be 'NJ' or 'NY'.", "smallest must be at least 0.")
    assert_malformed(missing, "resource is required.")
    assert text_of(text).startswith("BAD_PARAMETER: A condition of filters is an object. Such as ")


@pytest.mark.quick(1)
async def test_the_next_rows_of_a_result_by_offset_and_by_sql(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(server_of(dual, host)) as connection:
        uri = _uri(await call(connection, "latest", {}))
        for tool in ("query_result", "refine_result"):
            for arguments in (
                {"offset": 3, "columns": ["id"]},
                {"sql": "SELECT id FROM data LIMIT 3 OFFSET 3"},
                {"sql": "SELECT * FROM data", "offset": 3, "columns": ["id"]},
                {"sql": "SELECT id FROM data", "offset": 3, "limit": 3},
            ):
                result = await call(connection, tool, {"resource": uri, **arguments})
                assert _rows(result) == [{"id": number} for number in IDS[3:6]], (tool, arguments)
            limited = await call(connection, tool, {"resource": uri, "limit": 2, "offset": 1})
            assert [row["id"] for row in _rows(limited)] == IDS[1:3]


async def test_sql_stands_instead_of_filters(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(server_of(dual, host)) as connection:
        uri = _uri(await call(connection, "latest", {}))
        for tool in ("query_result", "refine_result"):
            beside = {"filters": [{"column": "state", "value": "NJ"}]}
            both = await call(connection, tool, {"resource": uri, "sql": "SELECT id FROM data", **beside})
            assert both.structured_content is not None
            assert both.structured_content["error"]["message"] == "filters cannot be given beside sql."


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("query", "limit", "wanted"),
    [
        ("SELECT id FROM schools ORDER BY id DESC", 5, IDS[:5]),
        ("SELECT id FROM schools ORDER BY id DESC LIMIT 3", 5, IDS[:3]),
        ("SELECT id FROM schools ORDER BY id DESC LIMIT 8 OFFSET 1", 5, IDS[1:6]),
        ("SELECT id FROM schools UNION SELECT id FROM schools ORDER BY id DESC", 2, IDS[:2]),
    ],
)
async def test_execute_query_keeps_to_a_limit(
    dual: DualResponseServer, host: Host, query: str, limit: int, wanted: list[int]
) -> None:
    async with host.connected(server_of(dual, host)) as connection:
        result = await call(connection, "execute_query", {"query": query, "limit": limit})
    assert [row["id"] for row in _rows(result)] == wanted
    assert result.structured_content is not None
    assert result.structured_content["metadata"]["total_count"] == len(wanted)


@pytest.mark.quick(1)
async def test_what_models_write_is_understood(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(server_of(dual, host)) as connection:
        uri = _uri(await call(connection, "latest", {}))
        counted = await call(
            connection,
            "query_result",
            {"resource": uri, "group_by": ["state"], "aggregates": ["count"], "order_by": ["count", "state"]},
        )
        assert not counted.is_error, text_of(counted)
        assert [row["count"] for row in _rows(counted)] == sorted(row["count"] for row in _rows(counted))
        for operator, other in (
            ("=", "eq"),
            ("!=", "ne"),
            ("<>", "ne"),
            (">", "gt"),
            (">=", "ge"),
            ("<", "lt"),
        ):
            said, meant = [
                await call(
                    connection,
                    "query_result",
                    {"resource": uri, "filters": [{"column": "id", "op": written, "value": 3}]},
                )
                for written in (operator, other)
            ]
            assert _rows(said) == _rows(meant)
        for terms in ("school", ["school"]):
            matched = await call(connection, "search_catalog", {"terms": terms})
            assert matched.structured_content is not None and matched.structured_content["matches"]
        for operator in ("not_null", "is_not_null"):
            for value in ({}, {"value": True}, {"value": None}):
                filters = [{"column": "name", "op": operator, **value}]
                result = await call(connection, "query_result", {"resource": uri, "filters": filters})
                assert not result.is_error and len(_rows(result)) == 3


def _uri(result: CallToolResult) -> str:
    assert result.structured_content is not None, text_of(result)
    return str(result.structured_content["resource"]["uri"])


def _rows(result: CallToolResult) -> list[dict[str, Any]]:
    assert result.structured_content is not None and not result.is_error, text_of(result)
    rows: list[dict[str, Any]] = result.structured_content["results"]
    return rows
