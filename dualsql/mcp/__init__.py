"""MCP: functions that return a Select as tools of a server, and stored results as its resources.

    decorators      `tool` and `plain_tool`; calls runs one call; official and fastmcp register on the two SDKs
    results         what a tool's function returns -> tool result; negotiation has its forms, progress and task offers
    resources       stored results as MCP resources, with subscriptions; resource_server adds them to a server
    tasks           slow calls as MCP tasks

The ready-made tools of the features are in `dualsql.query.mcp`, `dualsql.sql.mcp` and `dualsql.catalogue.mcp`; they can
be imported from here. The JSON of a dual response is in `dualsql.response`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dualsql.packages import modules_by_name, on_first_use

if TYPE_CHECKING:
    from dualsql.catalogue.mcp import add_catalogue as add_catalogue
    from dualsql.mcp.calls import PrincipalOf as PrincipalOf
    from dualsql.mcp.decorators import Function as Function, plain_tool as plain_tool, tool as tool
    from dualsql.mcp.dual_responses import DualResponses as DualResponses
    from dualsql.mcp.negotiation import Envelope as Envelope
    from dualsql.mcp.official import transport_security as transport_security
    from dualsql.mcp.options import (
        PlainEnvelope as PlainEnvelope,
        PlainToolOptions as PlainToolOptions,
        ResultOptions as ResultOptions,
        ToolOptions as ToolOptions,
    )
    from dualsql.mcp.resources import (
        add_resources as add_resources,
        add_skill as add_skill,
        skill as skill,
        system_prompt as system_prompt,
    )
    from dualsql.mcp.results import Answer as Answer, AnswerKeywords as AnswerKeywords
    from dualsql.query.mcp import add_data_manager as add_data_manager, add_result_tools as add_result_tools
    from dualsql.sql.mcp import add_execute_query as add_execute_query, add_query as add_query
    from dualsql.web.mcp import add_app as add_app

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
