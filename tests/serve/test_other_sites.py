"""`dualsql serve` on loopback without a token: a page of another site in the same browser gets nothing."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, Route
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route as Served

from tests.serve.conftest import Serving, calling, serving_process
from tests.web.browser import chromium, needs_chromium
from tests.web.conftest import under_uvicorn

FOREIGN = Path(__file__).with_name("foreign.html").read_text()
EVIL = "evil.test"
SQL = "SELECT name FROM makers"
OWN = {"X-Request-Id": "our-own-request"}
CALL: dict[str, Any] = {"name": "execute_query", "arguments": {"query": SQL}}
BODIES = {
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL},
    "/resources/{resource_id}/sql": {"sql": "SELECT count(*) FROM result"},
}


def targets_of(
    origin: str, admin: str, resource_id: str, description: dict[str, Any]
) -> Iterator[dict[str, str]]:
    """Each method of each route: REST as OpenAPI describes it, MCP, the pages, and the port of operators."""
    others = {
        "/": ["get"], "/ask": ["post"], "/mcp": ["get", "post", "delete"], "/.well-known/dualsql.json": ["get"],
        "/resources/openapi.json": ["get"], "/resources/{resource_id}/view": ["get"],
    }  # fmt: skip
    paths = {
        f"/resources{path.removeprefix('/resources')}": item for path, item in description["paths"].items()
    }
    for path, methods in {**paths, **others}.items():
        for method in methods:
            if method in {"get", "head", "post", "put", "delete"}:
                url = origin + re.sub(r"\{[^}]*\}", resource_id, path).replace(
                    "/resources/resources", "/resources"
                )
                yield {
                    "url": url,
                    "method": method.upper(),
                    "body": json.dumps(BODIES.get(path, {"limit": 2})),
                }
    for path in ("/live", "/ready", "/metrics"):
        yield {"url": admin + path, "method": "GET", "body": ""}


async def first_page(origin: str, resource_id: str) -> Any:
    async with httpx.AsyncClient(base_url=origin, headers=OWN) as own:
        answer = await own.get(f"/resources/{resource_id}", params={"limit": 3})
        assert answer.status_code == 200
        return answer.json()


async def serve_a_result(served: Serving) -> tuple[str, list[dict[str, str]]]:
    """The id of a result, and what a page could ask for."""
    async with calling(served.origin, OWN) as model:
        result = await model.call_tool("execute_query", CALL["arguments"])
    assert isinstance(result.structured_content, dict)
    resource_id = result.structured_content["resource"]["url"].rpartition("/")[2]
    async with httpx.AsyncClient(base_url=served.origin, headers=OWN) as own:
        description = (await own.get("/resources/openapi.json")).json()
    return resource_id, list(targets_of(served.origin, served.admin, resource_id, description))


async def attacked(browser: Browser, start: str, targets: list[dict[str, str]]) -> list[dict[str, Any]]:
    """What a page at `start` could read. Where the server itself listens there, the browser is given the page."""

    async def answer_start(route: Route) -> None:
        await route.fulfill(body=FOREIGN, content_type="text/html")

    page = await browser.new_page()
    if urlsplit(start).port == urlsplit(targets[0]["url"]).port:
        await page.route(start, answer_start)
    await page.goto(start)
    answers: list[dict[str, Any]] = await page.evaluate("targets => attack(targets)", targets)
    await page.close()
    assert {answer["url"] for answer in answers} == {target["url"] for target in targets}
    return answers


def requests_of_others(log: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    requests = [record for record in records if record.get("logger") == "dualsql.requests"]
    return [record for record in requests if record["request_id"] != OWN["X-Request-Id"]]


@needs_chromium
@pytest.mark.long
async def test_a_page_of_another_site_gets_nothing(shop: str) -> None:
    """From another site, from another port of this machine, and from a name that resolves to the server (rebinding)."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Served("/start", lambda _: HTMLResponse(FOREIGN))])
    port = listener.getsockname()[1]
    async with (
        under_uvicorn(app, listener),
        serving_process(
            "--database", shop, "--all", "--admin-port", "0", "--metrics", "--log", "json"
        ) as served,
        chromium(f"--host-resolver-rules=MAP {EVIL} 127.0.0.1") as browser,
    ):
        resource_id, targets = await serve_a_result(served)
        assert len(targets) > 25
        before = await first_page(served.origin, resource_id)
        rebound = [{**each, "url": each["url"].replace("127.0.0.1", EVIL)} for each in targets]
        for start, urls in (
            (f"http://{EVIL}:{port}/start", targets),
            (f"http://127.0.0.1:{port}/start", targets),
            (f"{served.origin.replace('127.0.0.1', EVIL)}/start", rebound),
        ):
            answers = await attacked(browser, start, urls)
            assert [
                each for each in answers if each["status"] not in {0, 403} or "Maker" in each["text"]
            ] == []
        assert await first_page(served.origin, resource_id) == before
        others = requests_of_others(await served.stop())
    assert len(others) > 3 * len(targets)
    assert {(each["status"], each["code"]) for each in others} == {(403, "FOREIGN_REQUEST")}
