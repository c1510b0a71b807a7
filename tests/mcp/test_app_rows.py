"""The tool by which the MCP App reads rows: what REST answers the same caller, and no more."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.extension import advertise
from sqlalchemy import select

from dualsql import Principal
from dualsql.demo.app import INSTRUCTIONS as DEMO
from dualsql.identity import BearerTokens
from dualsql.mcp import add_app, system_prompt
from dualsql.mcp.listing import UI_EXTENSION
from dualsql.mcp.resource_server import low_level_server
from dualsql.serve.stdio import INSTRUCTIONS as SERVED
from dualsql.tenancy import Mask, RowFilter, Shared
from dualsql.web.mcp import APP_URI
from tests.client.hosting import listening_socket, origin_of
from tests.mcp.conftest import Host, MakeDual
from tests.mcp.test_identity import Verifier, calling, guarded, running
from tests.schools import Base, School

TOOL = "dualsql_app_rows"
TOKENS = ("token-of-ana", "token-of-bob")
STATES = {"acme": "NJ", "globex": "NY"}
OTHERS = [table for table in Base.metadata.tables.values() if table.name != "schools"]


def of_tenant(principal: Principal) -> Any:
    return School.state == STATES[principal.tenant or ""]


HOOKS = (
    RowFilter(School, of_tenant),
    Mask(School.tuition, "null", unless=lambda principal: principal.tenant == "acme"),
    Shared(*OTHERS),
)
REQUESTS: list[dict[str, Any]] = [
    {"limit": 3, "big_integers": "string"},
    {"limit": 3, "cell_limit": 2},
    {"sort": [{"field": "tuition", "order": "desc"}, {"field": "id"}], "limit": 500},
    {"filters": [{"column": "tuition", "op": "gt", "value": 0}], "limit": 500},
    {"group_by": ["state"], "aggregates": ["count", {"function": "max", "column": "tuition"}], "limit": 500},
    {"limit": 501},
    {"limit": 3, "format": "csv"},
    {"filters": [{"column": "code", "op": "eq", "value": "x' OR 1=1 --"}], "limit": 3},
    {"sort": [{"field": "crest; DROP TABLE schools"}], "limit": 3},
    {"cursor": "nonsense", "limit": 3},
]


@pytest.mark.quick(1)
async def test_it_answers_what_rest_answers_the_caller(make_dual: MakeDual, host: Host) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(
            base_url=f"{origin}/resources",
            authenticate=BearerTokens(Verifier()),
            hooks=HOOKS,
            maximum_page_size=500,
        )
        server = guarded(host, origin)
        add_app(dual, server)
        dual.tool(server, name="search")(lambda: select(School.id, School.state, School.tuition, School.code))
        async with running(dual, server, listening), httpx.AsyncClient() as http:
            results: dict[str, Any] = {}
            for token in TOKENS:
                async with calling(host, origin, token) as connection:
                    actual = (await connection.call("search")).structured_content or {}
                    results[token] = actual["resource"]
                    for request in REQUESTS:
                        path = "/query" if {"filters", "group_by"} & set(request) else ""
                        answer = await http.post(
                            actual["resource"]["url"] + path,
                            json=request,
                            headers={"Authorization": f"Bearer {token}"},
                        )
                        called = await connection.call(
                            TOOL, resource=actual["resource"]["uri"], request=request
                        )
                        structured = called.structured_content or {}
                        assert called.is_error == (answer.status_code != 200), (
                            request,
                            answer.text,
                            structured,
                        )
                        if called.is_error:
                            assert structured["error"]["code"] == answer.json()["code"]
                        else:
                            assert structured["data"] == answer.json()["data"]
                            assert {row["state"] for row in structured["data"] if "state" in row} <= {
                                STATES["acme" if token == TOKENS[0] else "globex"]
                            }
                            assert len(structured["data"]) <= 500
            async with calling(host, origin, TOKENS[1]) as connection:
                foreign, unknown = [
                    await connection.call(TOOL, resource=uri, request={})
                    for uri in (results[TOKENS[0]]["uri"], "resource://AAAAAAAAAAAAAAAAAAAAAAAAAAA")
                ]
                assert foreign.is_error
                assert foreign.structured_content == unknown.structured_content


async def test_a_model_that_is_shown_it_is_told_not_to_call_it(make_dual: MakeDual, host: Host) -> None:
    server = host.server()
    dual = make_dual()
    add_app(dual, server)
    dual.tool(server, name="search")(lambda: select(School.id))
    async with Client(low_level_server(server), extensions=[advertise(UI_EXTENSION)]) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    described = tools[TOOL].description or ""
    assert "Do not call it" in described
    assert (tools[TOOL].meta or {})["ui"]["visibility"] == ["app"]
    assert "rows" not in described.lower()
    text = json.dumps([tools["search"].description, tools["search"].input_schema])
    assert TOOL not in text


CLAIMS = (
    "is shown to",
    "displayed",
    "rendered",
    "can see",
    "the person sees",
    "shows the person",
    "on the screen",
)


async def test_the_answer_is_the_same_with_and_without_the_app(make_dual: MakeDual, host: Host) -> None:
    """No host says whether it shows the App, so no text claims that anything is shown."""
    texts = []
    for has_app in (True, False):
        server, dual = host.server(), make_dual()
        if has_app:
            add_app(dual, server)
        dual.tool(server, name="search")(lambda: select(School.id, School.name))
        async with host.connected(server) as connection:
            result = await connection.call("search")
        structured = result.structured_content or {}
        own = structured["resource"]["uri"].partition("://")[2]
        times = [structured["metadata"][name] for name in ("executed_at", "expires_at")]
        whole = json.dumps([block.model_dump(mode="json") for block in result.content])
        whole += json.dumps(structured)
        for name in (own, *times, *(each[:16].replace("T", " ") for each in times)):
            whole = whole.replace(name, "")
        texts.append(whole)
    assert texts[0] == texts[1]
    for text in (texts[0], SERVED, DEMO, system_prompt(make_dual())):
        assert not [claim for claim in CLAIMS if claim in text.lower()]


async def test_a_server_with_small_pages_has_an_app_with_small_pages(make_dual: MakeDual, host: Host) -> None:
    server, dual = host.server(), make_dual(maximum_page_size=5, default_page_size=5)
    add_app(dual, server)
    dual.tool(server, name="search")(lambda: select(School.id))
    async with host.connected(server) as connection:
        actual = await connection.session.read_resource(APP_URI)
        document = getattr(actual, "contents", actual)[0].text
        assert 'data-limit="5"' in document
        uri = ((await connection.call("search")).structured_content or {})["resource"]["uri"]
        page = await connection.call(TOOL, resource=uri, request={})
        assert len((page.structured_content or {})["data"]) == 5
