"""Write dualsql/serve/outline.json from the server's tools: python scripts/make_outline.py

The tests fail when the file is not what this would write.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, get_args

from mcp.server import MCPServer
from mcp_types import ListToolsResult, PaginatedRequestParams
from sqlalchemy import MetaData

from dualsql import DualResponseServer, Pages, ResultsFormat, Settings, default_features
from dualsql.databases.backends import OWN, backend_named
from dualsql.mcp.listing import low_level
from dualsql.openapi.service import EXTENSION
from dualsql.serve import build_mcp
from dualsql.serve.stdio import DATABASE, OUTLINE, SAMPLE_SIZE

_SIZE = 987
_LISTS = {"prompts/list", "resources/templates/list", "tools/list"}


def main() -> None:
    OUTLINE.write_text(text(), encoding="utf-8")


def text() -> str:
    """The whole file."""
    databases = {name: backend.capabilities.name for name in OWN if (backend := backend_named(name))}
    recorded = {"databases": databases, **asyncio.run(_recorded())}
    return json.dumps(recorded, indent=1, ensure_ascii=False) + "\n"


async def _recorded() -> dict[str, Any]:
    servers = {form: _server(form) for form in get_args(ResultsFormat)}
    below = low_level(servers["rows"])
    handlers = below._request_handlers  # noqa: SLF001 - the SDK has no public list of handlers
    return {
        "methods": sorted(handlers.keys() - _LISTS - {"ping", "server/discover"}),
        "extensions": {name: entry for name, entry in below.extensions.items() if name != EXTENSION},
        "prompts/list": _plain(await handlers["prompts/list"].handler(None, PaginatedRequestParams())),
        "resources/templates/list": _plain(
            await handlers["resources/templates/list"].handler(None, PaginatedRequestParams())
        ),
        "tools/list": {form: _plain(await _tools(server)) for form, server in servers.items()},
    }


def _server(results_format: ResultsFormat) -> MCPServer[Any]:
    dual = DualResponseServer(
        "sqlite+aiosqlite://",
        base_url="http://127.0.0.1/resources",
        tables=MetaData(),
        features=default_features(Pages()),
        settings=Settings(default_sample_size=_SIZE),
    )
    return build_mcp(dual, results_format=results_format)


async def _tools(server: MCPServer[Any]) -> ListToolsResult:
    tools = await server.list_tools()
    return ListToolsResult(
        tools=[
            tool.model_copy(update={"description": _with_places(tool.description or "")}) for tool in tools
        ]
    )


def _plain(listed: Any) -> Any:
    return listed.model_dump(mode="json", by_alias=True, exclude_none=True)


def _with_places(description: str) -> str:
    return description.replace("SQLite", DATABASE).replace(str(_SIZE), SAMPLE_SIZE)


if __name__ == "__main__":
    main()
