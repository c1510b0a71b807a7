"""X-Response-Format and X-Execution-Context on calls over HTTP, and the dual-mode answer, with real clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import fastmcp
import httpx2
import pytest
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from sqlalchemy import select

from dualsql import BadParameterError, ConfigurationError, DualResponseServer
from dualsql.envelope import validate_dual_mode
from dualsql.mcp import add_data_manager
from dualsql_client import CodeMode, DualResponseClient, NotConfiguredError
from tests.client.hosting import listening_socket, origin_of, serving
from tests.mcp.conftest import AnyServer, Connection, Host, MakeDual, application_of, text_of
from tests.schools import SCHOOLS, School

FORMAT, CONTEXT = "X-Response-Format", "X-Execution-Context"
ROWS = select(School.id, School.name).order_by(School.id)


def tools_of(dual: DualResponseServer, server: AnyServer) -> None:
    """One tool of each envelope."""

    @dual.tool(server, sample_size=2)
    def plainly() -> Any:
        return ROWS

    @dual.tool(server, sample_size=2, envelope="dual_mode")
    def both(fail: bool = False) -> Any:
        if fail:
            raise BadParameterError("No such *school*.", hint="Ask for another one.", details={"known": [1]})
        return ROWS


@asynccontextmanager
async def calling(dual: DualResponseServer, host: Host, headers: dict[str, str]) -> AsyncIterator[Connection]:
    """A client whose every request has these headers."""
    server = host.server()
    tools_of(dual, server)
    with listening_socket() as listening:
        async with serving(application_of(dual, server), listening):
            url = f"{origin_of(listening)}/mcp"
            if host.is_fast:
                transport = StreamableHttpTransport(url, headers=headers)
                async with fastmcp.Client(transport) as session:
                    yield Connection(session)
                return
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                host.connected(streamable_http_client(url, http_client=http)) as connection,
            ):
                yield connection


def structure_of(result: CallToolResult) -> dict[str, Any]:
    content: dict[str, Any] | None = result.structured_content
    assert content is not None
    return content


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("headers", "is_for_code"),
    [
        ({}, False),
        ({FORMAT: "markdown"}, False),
        ({FORMAT: "json"}, True),
        ({CONTEXT: "code"}, True),
        ({FORMAT: "markdown", CONTEXT: "code"}, True),
        ({FORMAT: "yaml\t; DROP", CONTEXT: "CHAT"}, False),
    ],
    ids=str,
)
async def test_code_reads_json_and_people_read_markdown(
    make_dual: MakeDual, host: Host, headers: dict[str, str], is_for_code: bool
) -> None:
    async with calling(make_dual(), host, headers) as model:
        plain, both = await model.call("plainly"), await model.call("both")
        refused = await model.call("both", fail=True)
    for result in (plain, both, refused):
        if is_for_code:
            assert json.loads(text_of(result)) == structure_of(result)
            assert len(result.content) == 1
        else:
            assert not text_of(result).startswith("{")
    for result in (both, refused):
        answer = structure_of(result)
        assert validate_dual_mode(answer) == []
        assert ("display" in answer) is not is_for_code
        if not is_for_code:
            assert text_of(result) == answer["display"]["content"]


@pytest.mark.parametrize(
    ("meta", "is_for_code"),
    [
        ({FORMAT: "json"}, True),
        ({"x-execution-context": "Code"}, True),
        ({FORMAT: "markdown", CONTEXT: "chat"}, False),
        ({FORMAT: 7, CONTEXT: ["code"], "x": {"X-Response-Format": "json"}}, False),
    ],
    ids=str,
)
async def test_a_call_asks_in_its_meta_over_any_transport(
    make_dual: MakeDual, host: Host, meta: dict[str, Any], is_for_code: bool
) -> None:
    """Without HTTP there are no headers."""
    dual, server = make_dual(), host.server()
    tools_of(dual, server)
    async with host.connected(server) as model:
        call = getattr(model.session, "call_tool_mcp", model.session.call_tool)
        results = [await call(name, {}, meta=meta) for name in ("plainly", "both")]
    for result in results:
        assert text_of(result).startswith("{") is is_for_code
        if is_for_code:
            assert json.loads(text_of(result)) == structure_of(result)


async def test_the_meta_of_a_call_comes_before_the_headers_of_its_connection(
    make_dual: MakeDual, host: Host
) -> None:
    async with calling(make_dual(), host, {FORMAT: "json", CONTEXT: "code"}) as model:
        call = getattr(model.session, "call_tool_mcp", model.session.call_tool)
        both = {FORMAT: "markdown", CONTEXT: "chat"}
        assert not text_of(await call("plainly", {}, meta=both)).startswith("{")
        assert text_of(await call("plainly", {}, meta={FORMAT: "markdown"})).startswith("{")


async def test_code_mode_reads_all_that_a_dual_mode_tool_says(make_dual: MakeDual, host: Host) -> None:
    dual, server = make_dual(), host.server()
    tools_of(dual, server)
    wanted = ["dataAccessId", "entities", "query_access", "total_count", "rowCount"]
    async with host.connected(server) as model:
        code = CodeMode(model.session)
        staged = await code.invoke("both", expected_fields=wanted)
        plain = await code.invoke("plainly", expected_fields=["totalCount", "results", "entities"])
        with pytest.raises(
            NotConfiguredError
        ):  # over REST: it is known where, and only the address is missing
            await staged.query(f"SELECT * FROM {staged.table} LIMIT 10")
    assert (staged.source, staged.success, staged.rows) == ("dual response", True, staged.response.sample)
    assert staged.response.resource_uri == f"resource://{staged.data_access_id}"
    assert (staged.table, staged.operation) == ("data", "both")
    assert (staged.metadata["status"], staged.metadata["operation"]) == ("staged", "both")
    assert json.loads(staged.text)["data"]["dataAccessId"] == staged.data_access_id
    assert (staged.fields["entities"], staged.fields["total_count"]) == (len(SCHOOLS), len(SCHOOLS))
    assert staged.fields["query_access"]["example"] == f"SELECT * FROM {staged.table} LIMIT 10"
    assert (list(staged.fields), staged.missing) == (wanted[:-1], ("rowCount",))
    assert (plain.data_access_id, plain.table, plain.missing) == (None, None, ("entities",))
    assert plain.fields == {"totalCount": len(SCHOOLS), "results": plain.response.sample}
    assert plain.metadata["sample_count"] == 2


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("both", {"fial": True}, {"fail": "boolean"}),
        ("both", {"fail": "sometimes"}, {"fail": "boolean"}),
        ("plainly", {"state": "x" * 1_000}, {}),
        ("data_manager", {"operation": "query", "limit": 0}, None),
    ],
)
async def test_a_program_is_told_what_came_and_what_was_expected(
    make_dual: MakeDual, host: Host, tool: str, arguments: dict[str, Any], expected: Any
) -> None:
    dual, server = make_dual(), host.server()
    tools_of(dual, server)
    add_data_manager(dual, server)
    async with host.connected(server) as model:
        answer = await CodeMode(model.session).invoke(tool, arguments)
        for_people = await getattr(model.session, "call_tool_mcp", model.session.call_tool)(tool, arguments)
    assert (answer.success, answer.error.code) == (False, "INVALID_PARAMETERS")
    cut = {name: v if len(str(v)) < 200 else f"{v[:200]}…" for name, v in arguments.items()}
    assert answer.error.details["received"] == cut
    if expected is not None:
        assert answer.error.details["expected"] == expected
    assert "pydantic" not in answer.text and answer.source in {"dual mode", "structure"}
    assert for_people.is_error and for_people.structured_content is None


async def test_the_dual_mode_answer(make_dual: MakeDual, host: Host) -> None:
    dual, server = make_dual(), host.server()
    tools_of(dual, server)
    async with host.connected(server) as model:
        answer = structure_of(await model.call("both"))
        plain = structure_of(await model.call("plainly"))
    data, metadata = answer["data"], answer["metadata"]
    assert answer["success"] is True
    assert (data["operation"], metadata["operation"], metadata["status"]) == ("both", "both", "staged")
    assert (data["entities"], data["table"]) == (len(SCHOOLS), "data")
    assert data["queryAccess"]["endpoint"] == "/sql"
    assert data["dataAccessId"] == data["resource"]["uri"].rpartition("/")[2]
    assert metadata["cached"] is False
    assert metadata["executionTime"] > 0
    # What it holds of the rows is what the other envelope holds, and about as many bytes as there are in all.
    assert data["results"] == plain["results"]
    whole = len(json.dumps([{"id": row["id"], "name": row["name"]} for row in SCHOOLS]))
    assert whole / 3 < data["payloadSize"] < whole * 3
    assert "showing 2 of" in answer["display"]["content"]
    parsed = DualResponseClient().parse({"structuredContent": answer}, strict=True)
    assert (parsed.total_count, parsed.sample) == (len(SCHOOLS), plain["results"])


async def test_a_refusal_says_what_to_do(make_dual: MakeDual, host: Host) -> None:
    dual, server = make_dual(), host.server()
    tools_of(dual, server)
    async with host.connected(server) as model:
        result = await model.call("both", fail=True)
    answer = structure_of(result)
    assert result.is_error and answer["success"] is False
    assert answer["error"]["code"] == "BAD_PARAMETER"
    assert answer["error"]["details"] == {"known": [1], "suggestion": "Ask for another one."}
    assert r"\*school\*" in answer["display"]["content"]


async def test_what_is_pending_is_staged(make_dual: MakeDual, host: Host) -> None:
    from tests.results.pending.conftest import FOREVER

    dual, server = make_dual(), host.server()
    dual.tool(server, name="slowly", wait=timedelta(), envelope="dual_mode")(lambda: FOREVER)
    async with host.connected(server) as model:
        answer = structure_of(await model.call("slowly"))
    assert (answer["metadata"]["status"], answer["data"]["metadata"]["status"]) == ("staged", "pending")
    assert "entities" not in answer["data"]
    assert "payloadSize" not in answer["data"]


def test_an_envelope_that_is_none(make_dual: MakeDual, host: Host) -> None:
    with pytest.raises(ConfigurationError, match="envelope is one of"):
        make_dual().tool(host.server(), envelope="paper")(lambda: ROWS)  # type: ignore[arg-type]
