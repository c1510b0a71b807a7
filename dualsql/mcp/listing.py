"""The list of tools, where it depends on the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from dualsql.errors import ConfigurationError
from dualsql.packages import extra

with extra("mcp"):
    from mcp.server.lowlevel import Server
    from mcp_types import Tool
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Handler = Callable[[Any, Any], Awaitable[Any]]

UI_EXTENSION = "io.modelcontextprotocol/ui"
"""MCP Apps, as clients declare it in `capabilities.extensions`."""

SESSION_HEADER = "mcp-session-id"
APPS_SESSION = "dualsql-apps"
"""The session of a client that declared MCP Apps, on a stateless endpoint: see `dualsql.serve.app_sessions`."""

_UNNAMED = "mcp"
"""The name of clients of the Python SDK that give none (mcp/client/session.py). smolagents is one of them."""

_NAMES: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""By server: its tools that are dualsql's."""


def low_level(server: Any) -> Server[Any]:
    """The low-level server below that of either SDK, which both keep in a private attribute."""
    below = getattr(server, "_lowlevel_server", None) or getattr(server, "_mcp_server", None)
    if not isinstance(below, Server):
        raise ConfigurationError("The MCP SDK of this server is another than dualsql was written for.")
    return below


def list_tool(server: Any, name: str) -> None:
    """Note a tool of dualsql, which is listed as `tools_for` says."""
    if server not in _NAMES:
        names = _NAMES[server] = set()
        below = low_level(server)
        entry = below.get_request_handler("tools/list")
        assert entry is not None, "both SDKs list tools"
        handler: Handler = entry.handler

        async def list_tools(context: Any, params: Any) -> Any:
            listed = await handler(context, params)
            return listed.model_copy(update={"tools": tools_for(context, listed.tools, names)})

        below.add_request_handler("tools/list", entry.params_type, list_tools)
    _NAMES[server].add(name)


def tools_for(context: Any, tools: Sequence[Tool], names: Collection[str]) -> list[Tool]:
    """The list for one client, from the context of its request and the list for all.

    A tool of Apps alone is for clients that declare MCP Apps. The optional parameters of dualsql's tools, those of the
    `names`, are nullable for clients that need the word.
    """
    return [
        _nullable(tool) if tool.name in names and _may_be_smolagents(context) else tool
        for tool in tools
        if tool.name not in names or not _is_of_apps(tool) or _declares_apps(context)
    ]


def _is_of_apps(tool: Tool) -> bool:
    return bool((tool.meta or {}).get("ui", {}).get("visibility") == ["app"])


def _declares_apps(context: Any) -> bool:
    capabilities = context.session.client_capabilities
    if capabilities is not None and UI_EXTENSION in (capabilities.extensions or {}):
        return True
    return context.request is not None and context.request.headers.get(SESSION_HEADER) == APPS_SESSION


def _may_be_smolagents(context: Any) -> bool:
    """Whether the client may be smolagents, which refuses a call without a parameter that is not "nullable".

    The word takes 16 characters for each parameter, so others are not sent it.
    """
    session = context.session
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return False
    return session.client_params is None or session.client_params.client_info.name == _UNNAMED


def _nullable(tool: Tool) -> Tool:
    schema = tool.input_schema
    required = schema.get("required", ())
    properties = {
        name: each if name in required else {**each, "nullable": True}
        for name, each in schema.get("properties", {}).items()
    }
    return tool.model_copy(update={"input_schema": {**schema, "properties": properties}})
