"""The list of tools, where it depends on the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from dualsql.errors import ConfigurationError
from dualsql.packages import extra

with extra("mcp"):
    from mcp.server.lowlevel import Server
    from mcp_types import Tool
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Handler = Callable[[Any, Any], Awaitable[Any]]

Change = Callable[[Any, list[Tool]], list[Tool]]
"""Makes the list for one client, from the context of its request and the list for all."""

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


def change_list(server: Any, change: Change) -> None:
    """Have `change` make the list of tools for each client of `server`."""
    below = low_level(server)
    entry = below.get_request_handler("tools/list")
    assert entry is not None, "both SDKs list tools"
    handler: Handler = entry.handler

    async def list_tools(context: Any, params: Any) -> Any:
        listed = await handler(context, params)
        return listed.model_copy(update={"tools": change(context, listed.tools)})

    below.add_request_handler("tools/list", entry.params_type, list_tools)


def list_tool(server: Any, name: str) -> None:
    """Note a tool of dualsql, whose optional parameters are nullable for clients that need the word."""
    if server not in _NAMES:
        names = _NAMES[server] = set()
        change_list(
            server,
            lambda context, tools: [
                _nullable(tool) if tool.name in names and _may_be_smolagents(context) else tool
                for tool in tools
            ],
        )
    _NAMES[server].add(name)


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
