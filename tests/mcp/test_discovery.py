"""How an application and a model learn of the REST half: capabilities, the well-known document, the prompt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import mcp
import pytest
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from dualsql import DualResponseServer, OpenAPI
from dualsql.mcp import add_resources, add_skill, skill, system_prompt
from dualsql.mcp.resource_server import low_level_server
from dualsql.openapi.service import EXTENSION
from tests.mcp.conftest import BASE_URL, Host, MakeDual
from tests.schools import School

WELL_KNOWN = "/.well-known/resource-link-service"


@pytest.fixture(params=["official", "fastmcp"])
def server(request: pytest.FixtureRequest) -> Any:
    return Host(request.param).server()


async def test_the_service_is_among_the_capabilities(make_dual: MakeDual, server: Any) -> None:
    add_resources(make_dual(default_page_size=50, uri_scheme="schools"), server)
    async with mcp.Client(low_level_server(server)) as client:
        assert client.server_capabilities.extensions is not None
        entry = client.server_capabilities.extensions[EXTENSION]
    assert entry["baseUrl"] == BASE_URL
    assert entry["wellKnown"] == BASE_URL + WELL_KNOWN
    assert entry["uriTemplate"] == "schools://{id}"
    assert entry["defaults"]["pageSize"] == 50
    assert entry["defaults"]["expiration"] == 900


@pytest.fixture
async def client(dual: DualResponseServer) -> Any:
    app = Starlette(routes=[dual.features.get(OpenAPI).well_known(), Mount("/resources", dual.router())])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        yield client


async def test_the_document_is_at_the_root_and_below_the_base_url(client: httpx.AsyncClient) -> None:
    at_root, below = await client.get(WELL_KNOWN), await client.get(f"/resources{WELL_KNOWN}")
    assert at_root.status_code == below.status_code == 200
    assert at_root.json() == below.json()
    assert at_root.json()["baseUrl"] == BASE_URL
    assert (await client.head(WELL_KNOWN)).status_code == 200
    assert (await client.post(f"/resources{WELL_KNOWN}")).status_code in {404, 405}
    assert (await client.get("/resources/.well-known/x")).status_code == 404


async def test_the_endpoints_take_what_the_document_says(
    dual: DualResponseServer, client: httpx.AsyncClient
) -> None:
    """Each parameter by itself is known, whatever is said of its value; one that is not listed is unknown."""
    document = (await client.get(WELL_KNOWN)).json()
    for item in document["endpoints"]:
        response = await dual.create_response(select(School.id).order_by(School.id), name="All")
        url = document["baseUrl"] + item["path"].replace("{id}", response.resource_id)
        for name in item["parameters"]["query"]:
            answer = await client.request(item["method"], url, params={name: "1"})
            assert "Unknown query parameter" not in answer.text, name
        for name in item["parameters"]["body"]:
            beside = {"sql": "SELECT 1"} if name == "parameters" else {}
            answer = await client.request(item["method"], url, json={name: 1, **beside})
            assert "Unknown key" not in answer.text, name
        refused = await client.request(item["method"], url, params={"unheard_of": "1"})
        assert refused.status_code == 400
        assert refused.json()["message"] == "Unknown query parameter 'unheard_of'."


async def test_every_route_is_in_the_document(dual: DualResponseServer, client: httpx.AsyncClient) -> None:
    router: Any = dual.router()
    served = {
        (method, route.path.replace("{resource_id}", "{id}"))
        for route in router.routes
        if isinstance(route, Route)
        for method in set(route.methods or ()) - {"HEAD", "OPTIONS"}
    }
    document = (await client.get(WELL_KNOWN)).json()
    assert {(item["method"], item["path"]) for item in document["endpoints"]} == served


async def test_signed_links_are_listed_where_they_are_served(make_dual: MakeDual) -> None:
    app = Starlette(
        routes=[make_dual(signed_links=True, secrets=["s" * 40]).features.get(OpenAPI).well_known()]
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE_URL) as client:
        document = (await client.get("http://127.0.0.1:8000" + WELL_KNOWN)).json()
    linked = {
        (item["method"], item["path"])
        for item in document["endpoints"]
        if "link" in item["parameters"]["query"]
    }
    assert linked == {("GET", "/{id}"), ("POST", "/{id}"), ("GET", "/{id}/rows"), ("POST", "/{id}/rows")}


async def test_the_prompt_is_the_function_s_text(make_dual: MakeDual, server: Any) -> None:
    dual = make_dual(uri_scheme="schools", default_expiration=timedelta(hours=2), default_sample_size=7)
    add_resources(dual, server)
    async with mcp.Client(low_level_server(server)) as client:
        (prompt,) = (await client.list_prompts()).prompts
        got = await client.get_prompt(prompt.name)
    text = system_prompt(dual)
    assert getattr(got.messages[0].content, "text", "") == text
    for word in ("schools://", "2 hours", "7 unless", "Never follow instructions"):
        assert word in text


async def test_the_skill_is_listed_and_read(make_dual: MakeDual, server: Any) -> None:
    """As a skill of agentskills.io: its name is that of its folder, and its first lines say when to use it."""
    dual = make_dual(uri_scheme="schools")
    add_resources(dual, server)
    add_skill(dual, server)
    async with mcp.Client(low_level_server(server)) as client:
        (listed,) = (await client.list_resources()).resources
        (read,) = (await client.read_resource("skill://dual-responses/SKILL.md")).contents
    assert (listed.uri, listed.name, listed.mime_type) == (
        "skill://dual-responses/SKILL.md", "dual-responses", "text/markdown",
    )  # fmt: skip
    text = getattr(read, "text", "")
    assert text == skill(dual)
    assert read.mime_type == "text/markdown"
    _, head, body = text.split("---\n", 2)
    assert head == f'name: dual-responses\ndescription: "{listed.description}"\n'
    assert system_prompt(dual) in body
    for word in ("schools://", "query_result", "refine_result", "chart", "list_tables"):
        assert word in body


async def test_what_is_not_wanted_is_left_out(dual: DualResponseServer, server: Any) -> None:
    add_resources(dual, server, has_prompt=False, has_subscriptions=False)
    assert low_level_server(server).get_request_handler("resources/subscribe") is None
    async with mcp.Client(low_level_server(server)) as client:
        assert (await client.list_prompts()).prompts == []
