"""An MCP server with the App over HTTP, and a page that is a host: AppBridge, with the App in a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.auth.settings import AuthSettings
from playwright.async_api import Browser, FrameLocator, Page
from sqlalchemy import Integer, func, literal, select
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from dualsql import DualResponseServer
from dualsql.identity import BearerTokens
from dualsql.mcp import Answer, add_app
from tests.client.hosting import listening_socket, origin_of, serving
from tests.engines import sqlite_url_in
from tests.mcp.test_identity import ISSUER, Verifier
from tests.results.pending.conftest import counting
from tests.servers import create_server
from tests.web.browser import tab
from tests.web.conftest import FLIGHTS, HOSTILE, METADATA, fill_flights

HERE = Path(__file__).parent
APPS = HERE.parents[2] / ".apps"

# The policy of a resource that asks for nothing (MCP Apps, 2026-01-26), as a host sends it with its sandbox.
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' data:; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'"
)


@dataclass
class Bridge:
    """A tab with the host."""

    page: Page

    @property
    def app(self) -> FrameLocator:
        return self.page.frame_locator("iframe").frame_locator("iframe")

    async def start(self, tool: str, **options: Any) -> Any:
        """Call a tool, and show its result in the App."""
        values = {"token": "token-of-ana", **options}
        return await self.page.evaluate("([tool, options]) => start(tool, options)", [tool, values])

    async def log(self, kind: str) -> list[Any]:
        """What the App asked its host for."""
        actual: list[Any] = await self.page.evaluate("kind => log[kind]", kind)
        return actual

    async def result(self) -> Any:
        """What the model got."""
        return await self.page.evaluate("result")


@dataclass
class Bridged:
    """A server with the App, and its host's page."""

    dual: DualResponseServer
    origin: str
    browser: Browser

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[Bridge]:
        """A tab with the host; nothing may be complained of in it, least of all a violation of the policy."""
        async with tab(self.browser, **options) as page:
            await page.goto(f"{self.origin}/host")
            yield Bridge(page)


def _returning(answer: Any) -> Any:
    return lambda: answer


def tools_of(dual: DualResponseServer, server: Any) -> None:
    """Tools whose results are of every state."""
    by_id = select(FLIGHTS).order_by(FLIGHTS.c.id)
    overflowing = select(func.abs(-(2**63)).label("n"))
    selects: dict[str, Any] = {
        "flights": by_id,
        "three": by_id.limit(3),
        "none": by_id.where(FLIGHTS.c.id < 0),
        "hostile": Answer(
            select(HOSTILE).order_by(HOSTILE.c.id), name="<img src=x onerror=alert(1)> \u202ename"
        ),
    }
    for name, statement in selects.items():
        dual.tool(server, name=name)(_returning(statement))
    dual.tool(server, name="large")(
        lambda: select(literal(2**63 - 1, Integer).label("n"), func.count(FLIGHTS.c.id))
    )
    dual.tool(server, name="columnar", results_format="columnar")(lambda: by_id)
    dual.tool(server, name="enveloped", envelope="dual_mode")(lambda: by_id)
    dual.tool(server, name="short", expiration=timedelta(seconds=2))(lambda: by_id)
    dual.tool(server, name="slow", wait=timedelta())(lambda: counting(1_000_000))
    dual.tool(server, name="failing", wait=timedelta())(lambda: overflowing)
    dual.tool(server, name="wrong")(lambda: overflowing)


@asynccontextmanager
async def bridged(url: str, browser: Browser, **options: Any) -> AsyncIterator[Bridged]:
    """A server that lets in whoever has a token.

    Args:
        options: of `add_app`.
    """
    if not (APPS / "host.js").exists():
        pytest.skip("AppBridge is not installed (make test-apps)")
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(listening_socket())
        origin = origin_of(listening)
        dual = create_server(
            url,
            base_url=f"{origin}/resources",
            tables=METADATA,
            pages=True,
            authenticate=BearerTokens(Verifier()),
        )
        auth = AuthSettings.model_validate(
            {
                "issuer_url": ISSUER,
                "resource_server_url": f"{origin}/mcp",
                "validate_token_resource": False,
            }
        )
        server: Any = MCPServer("shop", token_verifier=Verifier(), auth=auth)
        add_app(dual, server, **options)
        tools_of(dual, server)
        app = server.streamable_http_app(stateless_http=True)
        sandbox = (HERE / "sandbox.html").read_text()
        app.routes.extend(
            [
                Mount("/resources", dual.router()),
                Route("/host", lambda _: HTMLResponse(_host(origin))),
                Route(
                    "/sandbox", lambda _: HTMLResponse(sandbox, headers={"Content-Security-Policy": _POLICY})
                ),
            ]
        )
        await stack.enter_async_context(dual)
        await stack.enter_async_context(serving(app, listening))
        yield Bridged(dual, origin, browser)


def _host(origin: str) -> str:
    script = (APPS / "host.js").read_text()
    sandbox = origin.replace("127.0.0.1", "localhost") + "/sandbox"
    return (
        f'<!doctype html><title>A host</title><style>body {{ margin: 0 }}</style><body data-sandbox="{sandbox}">'
        '<iframe title="Sandbox" style="border: 0; width: 100%"></iframe>'
        f"<script>{script}</script>"
    )


@pytest.fixture(scope="module")
async def flights_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A SQLite file with flights and hostile cells."""
    url = sqlite_url_in(tmp_path_factory.mktemp("bridge"))
    engine = create_async_engine(url)
    await fill_flights(engine)
    await engine.dispose()
    return url


@pytest.fixture(scope="module")
async def host(flights_url: str, browser: Browser) -> AsyncIterator[Bridged]:
    async with bridged(flights_url, browser) as server:
        yield server


@pytest.fixture(scope="module")
async def host_without_rows(flights_url: str, browser: Browser) -> AsyncIterator[Bridged]:
    """Its App has no tool that reads rows."""
    async with bridged(flights_url, browser, reads_rows=False) as server:
        yield server
