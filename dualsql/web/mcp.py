"""A result as an MCP App: the grid of the page, in the conversation of a host (MCP Apps, 2026-01-26)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from dualsql.errors import BadParameterError, LimitExceededError
from dualsql.formats import json
from dualsql.formats.cells import run_heavy
from dualsql.http.parameters import PAGE_BODY, body_values, parse_page
from dualsql.identity import principal_of_token
from dualsql.mcp.calls import PrincipalOf
from dualsql.mcp.decorators import plain_tool, show_results_in
from dualsql.mcp.resource_server import register_provider
from dualsql.packages import extra
from dualsql.query import read_result_query
from dualsql.query.parse import id_in
from dualsql.resource import Principal
from dualsql.results.pages import ResultPage
from dualsql.web.assets import assets, environment, require_templates, script_of
from dualsql.web.feature import Pages
from dualsql_client.wire import Page

with extra("mcp"):
    from mcp_types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from dualsql.query.feature import Queries

if TYPE_CHECKING:
    from dualsql.server import ResultServer

APP_URI = "ui://dualsql/result.html"
PAGE_TOOL = "dualsql_app_rows"
MOST_ROWS = 500
"""Of a page that the App reads."""
MOST_CHARACTERS = 1_000_000
"""Of a page that the App reads, as JSON."""

_PAGE_SIZE = 200
_MIME_TYPE = "text/html;profile=mcp-app"
_QUESTION = ("filters", "group_by", "aggregates", "having", "order_by")


def add_app(
    dual: ResultServer,
    server: Any,
    *,
    reads_rows: bool = True,
    principal: PrincipalOf = principal_of_token,
) -> None:
    """Show results as an MCP App in hosts that have Apps. Call it before tools are registered on `server`.

    The text of a tool's answer is the same with and without the App.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        reads_rows: register the tool `dualsql_app_rows`, by which the App reads rows. It is listed for clients that
            declare MCP Apps, which are asked to show it to the App alone; some show it to the model, too. It answers
            whoever may read the result, at most 500 rows and 1,000,000 characters a call. Without it the App shows the
            rows that the tool answered, and says where all of them are.
        principal: the principal of a verified access token.

    Raises:
        ConfigurationError: the extra `web` is not installed; tools of dualsql are registered on `server` already; it is
            a server of no SDK that is known and installed.
    """
    require_templates()
    show_results_in(server, APP_URI)
    register_provider(server, AppProvider(dual, reads_rows=reads_rows), principal)
    if reads_rows:
        _add_page_tool(dual, server, principal)


class AppProvider:
    """The App's document as an MCP resource; see `dualsql.mcp.resource_server.ResourceProvider`.

    Args:
        dual: whether a result's URL opens in a browser, and how many rows a page may have.
        reads_rows: the tool that reads rows is registered; else the App shows the rows of a tool's answer.
    """

    name = "app"
    start = APP_URI
    templates: Sequence[ResourceTemplate] = ()

    def __init__(self, dual: ResultServer, *, reads_rows: bool) -> None:
        self._html = partial(
            app_html,
            has_pages=Pages in dual.features,
            page_size=min(_PAGE_SIZE, dual.settings.maximum_page_size) if reads_rows else 0,
        )

    def owns(self, uri: str) -> bool:
        return uri == APP_URI

    async def read(self, uri: str, principal: Principal | None) -> ReadResourceResult:
        return ReadResourceResult(
            contents=[TextResourceContents(uri=APP_URI, mime_type=_MIME_TYPE, text=self._html())]
        )

    async def list(
        self, principal: Principal | None, cursor: str | None
    ) -> tuple[Sequence[Resource], str | None]:
        return [Resource(uri=APP_URI, name="result", title="A result as a table", mime_type=_MIME_TYPE)], None

    async def complete(
        self, name: str, value: str, arguments: Mapping[str, str], principal: Principal | None
    ) -> Sequence[str]:
        return []


@cache
def app_html(*, has_pages: bool, page_size: int) -> str:
    """The App as one document: hosts let it load no file.

    Args:
        has_pages: a result's URL opens in a browser.
        page_size: rows of a page that the App reads; 0 where it can read none.
    """
    style = assets()["style.css"].content.decode()
    return (
        environment()
        .get_template("app.html")
        .render(style=style, script=script_of("app.js"), has_pages=has_pages, page_size=page_size)
    )


def _add_page_tool(dual: ResultServer, server: Any, principal: PrincipalOf) -> None:
    most = min(MOST_ROWS, dual.settings.maximum_page_size)

    async def read_rows(
        resource: Annotated[str, Field(description="The URI of a result.")],
        request: Annotated[
            dict[str, Any], Field(description="The body of POST, or of POST /query, over REST.")
        ],
        *,
        caller: Principal | None,
    ) -> Page:
        """Internal to the host's user interface. Do not call it: it answers nothing that a person asked."""
        question = {name: value for name, value in request.items() if name in _QUESTION}
        window = {"limit": most} | {name: value for name, value in request.items() if name not in question}
        page_request = parse_page(body_values(json.dumps(window), PAGE_BODY))
        if page_request.size(dual.settings) > most:
            raise BadParameterError(f"limit is at most {most} here.", details={"name": "limit"})
        result = await dual.open_resource(id_in(resource), caller, "read")
        page = (
            await dual.features.get(Queries).service.page_unchecked(
                result, read_result_query(question), page_request, principal=caller
            )
            if question
            else await dual.unchecked.read_page(result, caller, page_request)
        )
        return await run_heavy(_plain, page) if page.is_heavy else _plain(page)

    plain_tool(
        dual,
        server,
        name=PAGE_TOOL,
        title="Rows for the user interface",
        principal=principal,
        registration={"meta": {"ui": {"resourceUri": APP_URI, "visibility": ["app"]}}},
    )(read_rows)


def _plain(page: ResultPage) -> Page:
    text = json.dumps(page.to_wire())
    if len(text) > MOST_CHARACTERS:
        raise LimitExceededError(
            f"The page has {len(text):,} characters; {MOST_CHARACTERS:,} are the most here.",
            hint="Give a smaller limit, or read the rows over REST.",
        )
    plain: Page = json.loads(text)
    return plain
