"""Tools of `mcp.server.MCPServer`, mcp 2; the rule: what the SDK reads is a signature, so that is all we write."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.utilities.context_injection import find_context_parameter
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import RootModel

from dualsql.envelope import wanted
from dualsql.mcp.calls import Customs, Introduction, Tool
from dualsql.mcp.signatures import shaped

CUSTOMS = Customs(
    spoken=(ToolError,), hidden=(UnexpectedToolError,), passed=(MCPError,), through=(InputRequiredResult,)
)

_CONTEXT = "dualsql_context"


def register(server: MCPServer[Any], tool: Tool) -> None:
    """Make `tool` a tool of `server`."""
    parameters = list(tool.parameters)
    returns = Annotated[CallToolResult, _published(tool.manner.output_schema)]

    async def run(**arguments: Any) -> Any:
        context = arguments[asked] if asked else arguments.pop(_CONTEXT)
        return await tool.call(arguments, partial(_introduction, context), CUSTOMS)

    published = shaped(run, tool.function, tool.name, parameters, returns)
    asked = find_context_parameter(published)
    if asked is None:
        # The Context alone knows the name of the client.
        parameters.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=Context))
        published = shaped(run, tool.function, tool.name, parameters, returns)
    server.add_tool(
        published,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        **{"annotations": ToolAnnotations(read_only_hint=True, open_world_hint=False), **tool.registration},
    )


def _introduction(context: Context[Any, Any]) -> Introduction:
    try:
        introduced, request = context.session.client_params, context.request_context.request
    except ValueError:  # called without a client, by server.call_tool
        return Introduction(None, get_access_token())
    client = None if introduced is None else introduced.client_info.name

    async def report(seconds: float, message: str) -> None:
        await context.report_progress(seconds, message=message)

    asked = wanted(None if request is None else request.headers)
    return Introduction(client, get_access_token(), report, wanted=asked)


def _published(schema: dict[str, Any]) -> Any:
    """A type whose JSON schema is ours: the SDK publishes the schema of a type, and takes no other."""

    class Result(RootModel[dict[str, Any]]):
        @classmethod
        def __get_pydantic_json_schema__(cls, *_: Any) -> dict[str, Any]:
            return schema

    return Result
