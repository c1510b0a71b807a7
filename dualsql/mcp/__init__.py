"""MCP: functions that return a Select as tools of a server, and stored results as its resources.

    decorators      `tool` and `plain_tool`; calls runs one call; official and fastmcp register on the two SDKs
    results         what a tool's function returns -> tool result; negotiation has its forms, progress and task offers
    resources       stored results as MCP resources, with subscriptions; resource_server adds them to a server
    tasks           slow calls as MCP tasks

The ready-made tools of the features are in `dualsql.query.mcp`, `dualsql.sql.mcp` and `dualsql.catalogue.mcp`; they can
be imported from here. The JSON of a dual response is in `dualsql.response`.
"""

from __future__ import annotations

from typing import Any

from dualsql.packages import modules_by_name, on_first_use

# Modules by name, imported on first use: the features import this package, and a server is made without an SDK.
_MODULES = modules_by_name(
    {
        "dualsql.catalogue.mcp": "add_catalogue",
        "dualsql.mcp.calls": "PrincipalOf",
        "dualsql.mcp.decorators": "Function plain_tool tool",
        "dualsql.mcp.dual_responses": "DualResponses",
        "dualsql.mcp.negotiation": "Envelope",
        "dualsql.mcp.official": "transport_security",
        "dualsql.mcp.options": "PlainEnvelope PlainToolOptions ResultOptions ToolOptions",
        "dualsql.mcp.resources": "add_resources add_skill skill system_prompt",
        "dualsql.mcp.results": "Answer AnswerKeywords",
        "dualsql.query.mcp": "add_data_manager add_result_tools",
        "dualsql.sql.mcp": "add_execute_query add_query",
        "dualsql.web.mcp": "add_app",
    }
)

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    return on_first_use(__name__, _MODULES, name)
