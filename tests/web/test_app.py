"""A result as an MCP App: its document, its tool, and the grid in a host's frame."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote_plus as unquote

import pytest
from fastmcp import Client as FastClient, FastMCP
from fastmcp_tasks import TasksExtension
from fastmcp_tasks.client import call_tool_task
from mcp import Client
from mcp.client.extension import advertise
from mcp.server import MCPServer
from playwright.async_api import Browser, Page, expect
from sqlalchemy import Select, select

from dualsql import ConfigurationError, DualResponseServer, web
from dualsql.mcp import add_app, add_result_tools
from dualsql.mcp.listing import UI_EXTENSION
from dualsql.mcp.resource_server import low_level_server
from dualsql.serve import serve_app
from dualsql.web.mcp import APP_URI, MOST_CHARACTERS, MOST_ROWS, PAGE_TOOL, app_html
from dualsql_client.wire import IMPLIED_ENCODINGS
from tests.client.hosting import listening_socket, origin_of, serving
from tests.http.application import BASE_URL, INSTITUTIONS, METADATA
from tests.servers import create_server
from tests.web.browser import needs_chromium, tab

APPS = advertise(UI_EXTENSION)
SERVERS = [MCPServer, FastMCP]
APP_TYPE = "text/html;profile=mcp-app"
STATIC = Path(web.__file__).with_name("static")
HOST = Path(__file__).with_name("host.html")


@pytest.fixture
async def dual(institutions_url: str) -> AsyncIterator[DualResponseServer]:
    async with create_server(institutions_url, base_url=BASE_URL, tables=METADATA, pages=True) as server:
        yield server


def test_the_app_fills_in_the_encodings_that_an_answer_leaves_out() -> None:
    script = (STATIC / "answers.js").read_text(encoding="utf-8")
    match = re.search(r"const IMPLIED = \{(.*?)\};", script)
    assert match
    assert dict(re.findall(r'(\w+): "(\w+)"', match[1])) == dict(IMPLIED_ENCODINGS)


def with_tool(dual: DualResponseServer, server: Any, **options: Any) -> Any:
    add_app(dual, server, **options)

    @dual.tool(server)
    def institutions() -> Select[Any]:
        """All institutions."""
        return select(INSTITUTIONS).order_by(INSTITUTIONS.c.id)

    return server


@pytest.mark.parametrize("make", SERVERS)
async def test_tools_name_the_document_and_hosts_can_read_it(dual: DualResponseServer, make: Any) -> None:
    async with Client(low_level_server(with_tool(dual, make("shop"))), extensions=[APPS]) as client:
        metas = {tool.name: (tool.meta or {})["ui"] for tool in (await client.list_tools()).tools}
        assert metas["institutions"] == {"resourceUri": APP_URI}
        assert metas["dualsql_app_rows"]["visibility"] == ["app"]
        assert APP_URI in {each.uri for each in (await client.list_resources()).resources}
        [document] = (await client.read_resource(APP_URI)).contents
        assert document.mime_type == "text/html;profile=mcp-app"


@pytest.mark.parametrize("make", SERVERS)
async def test_the_app_s_tool_reads_pages_and_answers_questions(dual: DualResponseServer, make: Any) -> None:
    async with Client(low_level_server(with_tool(dual, make("shop")))) as client:
        result = await client.call_tool("institutions", {})
        uri = result.structured_content["resource"]["uri"]

        async def page(**request: Any) -> Any:
            result = await client.call_tool("dualsql_app_rows", {"resource": uri, "request": request})
            return result.structured_content if not result.is_error else result

        first = await page(limit=2, sort=[{"field": "id", "order": "desc"}], big_integers="string")
        assert [row["id"] for row in first["data"]] == ["60", "59"]
        assert (await page(limit=2, cursor=first["next_cursor"], sort={"field": "id", "order": "desc"}))[
            "data"
        ]
        groups = await page(group_by=["state"], aggregates=["count"])
        assert [row["count"] for row in groups["data"]] == [20, 20, 20]
        assert (await page(limit=MOST_ROWS + 1)).is_error
        assert (await page(nothing=1)).is_error
        assert (await client.call_tool("dualsql_app_rows", {"resource": f"{uri}x", "request": {}})).is_error


async def test_a_client_of_fastmcp_sees_it_and_a_tool_may_be_a_task(dual: DualResponseServer) -> None:
    server: FastMCP[Any] = FastMCP("shop")
    server.add_extension(TasksExtension())
    add_app(dual, server)

    @dual.tool(server, registration={"task": True, "meta": {"own": 1}})
    async def institutions() -> Select[Any]:
        return select(INSTITUTIONS).order_by(INSTITUTIONS.c.id)

    async with FastClient(server) as client:
        [tool] = [tool for tool in await client.list_tools() if tool.name == "institutions"]
        assert (tool.meta or {})["ui"] == {"resourceUri": APP_URI}
        assert (tool.meta or {})["own"] == 1
        [document] = await client.read_resource(APP_URI)
        assert document.mime_type == APP_TYPE
        result: Any = await (await call_tool_task(client, "institutions", {})).result()
        uri = result.structured_content["resource"]["uri"]
        page: Any = await client.call_tool("dualsql_app_rows", {"resource": uri, "request": {"limit": 2}})
        assert [row["id"] for row in page.structured_content["data"]] == [1, 2]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("make", SERVERS)
async def test_its_tool_is_listed_for_clients_that_declare_apps(
    dual: DualResponseServer, make: Any, mode: Literal["auto", "legacy"]
) -> None:
    server = low_level_server(with_tool(dual, make("shop")))
    for extensions, names in (([], ["institutions"]), ([APPS], [PAGE_TOOL, "institutions"])):
        async with Client(server, extensions=extensions, mode=mode) as client:
            assert sorted(tool.name for tool in (await client.list_tools()).tools) == names


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_stateless_server_knows_who_declared_apps(
    institutions_url: str, mode: Literal["auto", "legacy"]
) -> None:
    with listening_socket() as listening:
        base_url = f"{origin_of(listening)}/resources"
        dual = create_server(institutions_url, base_url=base_url, tables=METADATA, pages=True)
        async with serving(serve_app(dual, with_tool(dual, MCPServer("shop"))), listening):
            for extensions, is_listed in (([], False), ([APPS], True), ([], False)):
                async with Client(f"{origin_of(listening)}/mcp", extensions=extensions, mode=mode) as client:
                    tools = (await client.list_tools()).tools
                    assert (PAGE_TOOL in {tool.name for tool in tools}) == is_listed
                    assert not (await client.call_tool("institutions", {})).is_error


async def test_a_page_of_too_many_characters_is_refused(
    dual: DualResponseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dualsql.web.mcp.MOST_CHARACTERS", 2_000)
    async with Client(with_tool(dual, MCPServer("shop"))) as client:
        uri = (await client.call_tool("institutions", {})).structured_content["resource"]["uri"]
        pages = [
            await client.call_tool(PAGE_TOOL, {"resource": uri, "request": {"limit": limit}})
            for limit in (60, 2)
        ]
    assert pages[0].structured_content["error"]["code"] == "LIMIT_EXCEEDED"
    assert "smaller limit" in pages[0].structured_content["error"]["hint"]
    assert len(pages[1].structured_content["data"]) == 2


async def test_it_can_be_left_without_rows(dual: DualResponseServer) -> None:
    async with Client(with_tool(dual, MCPServer("shop"), reads_rows=False)) as client:
        assert "dualsql_app_rows" not in {tool.name for tool in (await client.list_tools()).tools}


async def test_it_comes_before_the_tools(dual: DualResponseServer) -> None:
    server = with_tool(dual, MCPServer("shop"))
    with pytest.raises(ConfigurationError, match="registered already"):
        add_app(dual, server)


def test_the_document_loads_nothing() -> None:
    document = app_html(has_pages=True, page_size=200)
    assert "import " not in document.partition("<script")[2].split("//", 1)[0]
    assert " src=" not in document
    assert "<link" not in document


@pytest.mark.long
@needs_chromium
@pytest.mark.parametrize("most", [MOST_CHARACTERS, 3_000], ids=["pages that fit", "pages that do not"])
async def test_the_grid_in_a_host(
    dual: DualResponseServer, browser: Browser, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("dualsql.web.mcp.MOST_CHARACTERS", most)
    async with Client(with_tool(dual, MCPServer("shop"))) as client, tab(browser) as page:
        result = await client.call_tool("institutions", {})
        messages = await open_host(page, client, result.model_dump(by_alias=True, mode="json"))
        frame = page.frame_locator("iframe")
        await expect(frame.locator("#total")).to_have_text("60 rows")
        await expect(frame.locator("tbody td").first).to_have_text("1")
        for _ in range(2):  # ascending, descending
            await frame.locator("button.sort", has_text="name").click()
        await expect(frame.locator("tbody tr").first).to_contain_text("Institution 060")
        await frame.get_by_role("button", name="Open in the browser").click()
        await frame.get_by_role("button", name="Tell the model").click()
        await expect(frame.locator("#message")).to_contain_text("next message")
        methods = [message["method"] for message in messages if "method" in message]
        assert methods.count("ui/update-model-context") == 1
        assert methods.count("ui/open-link") == 1


@pytest.mark.long
@needs_chromium
async def test_what_the_person_sees_goes_to_the_browser_and_to_the_model(
    dual: DualResponseServer, browser: Browser
) -> None:
    server = with_tool(dual, MCPServer("shop"))
    add_result_tools(dual, server)
    async with Client(server) as client, tab(browser) as page:
        result = await client.call_tool("institutions", {})
        messages = await open_host(page, client, result.model_dump(by_alias=True, mode="json"))
        frame = page.frame_locator("iframe")
        await expect(frame.locator("#total")).to_have_text("60 rows")
        await expect(frame.locator("body")).to_have_css("background-color", "rgb(1, 2, 3)")
        heights = [
            each["params"]["height"] for each in messages if each.get("method", "").endswith("size-changed")
        ]
        assert 12 * 29 < max(heights) <= 600
        assert await frame.locator("tbody tr").count() >= 12
        await frame.get_by_role("searchbox").fill("INSTITUTION 00")
        await page.keyboard.press("Enter")
        await expect(frame.locator("#total")).to_have_text("9 rows")
        later = [
            each["params"]["height"] for each in messages if each.get("method", "").endswith("size-changed")
        ]
        assert later[: len(heights)] == heights and min(later[len(heights) :], default=600) > 200, later
        await frame.get_by_role("gridcell").nth(1).click()
        await page.keyboard.press("Shift+ArrowDown")
        await frame.get_by_role("button", name="Open in the browser").click()
        await frame.get_by_role("button", name="Tell the model").click()
        await expect(frame.locator("#message")).to_contain_text("next message")
        [opened] = [each["params"]["url"] for each in messages if each.get("method") == "ui/open-link"]
        assert '"op":"contains_any_case"' in unquote(opened.partition("#")[2])
        [parameters] = [
            each["params"] for each in messages if each.get("method") == "ui/update-model-context"
        ]
        words = parameters["content"][0]["text"]
        assert 'rows 1 to 2 of name: [["Institution 001"],["Institution 002"]]' in words
        question, _ = json.JSONDecoder().raw_decode(words, words.index("{"))
        answer = await client.call_tool("query_result", question)
        assert answer.structured_content["metadata"]["total_count"] == 9


async def open_host(page: Page, client: Client, result: dict[str, Any]) -> list[dict[str, Any]]:
    """A page with the App in a sandboxed frame; what the App sends to its host."""
    messages: list[dict[str, Any]] = []

    async def call(message: dict[str, Any]) -> Any:
        messages.append(message)
        if message.get("method") != "tools/call":
            return {}
        result = await client.call_tool(message["params"]["name"], message["params"]["arguments"])
        return result.model_dump(by_alias=True, mode="json")

    await page.expose_function("answer", call)
    await page.route("**/*", lambda route: route.fulfill(body=HOST.read_text(), content_type="text/html"))
    await page.goto("http://host.example/")
    document = app_html(has_pages=True, page_size=200)
    await page.evaluate(
        "([document, result]) => start(document, result)", [document, json.loads(json.dumps(result))]
    )
    return messages
