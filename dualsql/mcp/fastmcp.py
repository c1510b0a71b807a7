"""Tools of `fastmcp.FastMCP`, fastmcp 4."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import AuthorizationError, ToolError
from fastmcp.exceptions import ValidationError as FastValidationError
from fastmcp.server.dependencies import get_access_token, get_http_headers
from fastmcp.tools import FunctionTool, ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import ValidationError

from dualsql.envelope import wanted
from dualsql.mcp.calls import CallContext, SDKProfile, Tool, closed, misfit, misfits, shaped

PROFILE = SDKProfile(
    spoken=(ToolError,), hidden=(), passed=(MCPError, AuthorizationError), through=(InputRequiredResult,)
)

_CONTEXT = "dualsql_context"


def register(server: FastMCP[Any], tool: Tool) -> None:
    """Make `tool` a tool of `server`."""
    parameters = list(tool.parameters)
    asked = next((each.name for each in parameters if each.annotation is Context), None)
    if asked is None:
        # In the background of a task there is no other way to the Context, which knows that it is one.
        parameters.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=Context))

    async def run(**arguments: Any) -> Any:
        context = arguments[asked] if asked else arguments.pop(_CONTEXT)
        return await tool.call(arguments, partial(_introduction, context), PROFILE)

    made = FastMCPTool.from_function(
        shaped(run, tool.function, tool.name, parameters, CallToolResult),
        name=tool.name,
        title=tool.title,
        description=tool.description,
        output_schema=tool.manner.output_schema,
        **{"annotations": ToolAnnotations(read_only_hint=True, open_world_hint=False), **tool.registration},
    )
    made.parameters = closed(made.parameters)
    server.add_tool(made)


class FastMCPTool(FunctionTool):
    """A tool that refuses what it does not know."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """See `fastmcp.tools.FunctionTool`."""
        refused = misfit(self.name, arguments, self.parameters)
        if refused is not None:
            return self.convert_result(refused)
        try:
            return await super().run(arguments)
        except FastValidationError as error:
            if isinstance(error.__cause__, ValidationError):
                return self.convert_result(misfits(self.name, error.__cause__))
            raise


def _introduction(context: Context) -> CallContext:
    async def report(seconds: float, message: str) -> None:
        await context.report_progress(seconds, message=message)

    asked = wanted(get_http_headers(include_all=True))
    return CallContext(_client(context), get_access_token(), report, context.is_background_task, asked)


def _client(context: Context) -> str | None:
    try:
        introduced = context.session.client_params
    except RuntimeError:  # called without a client, by server.call_tool; or in the background
        return None
    return None if introduced is None else introduced.client_info.name
