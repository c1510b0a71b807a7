"""Tools of `fastmcp.FastMCP`, fastmcp 4."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import AuthorizationError, ToolError, ValidationError as FastValidationError
from fastmcp.server.dependencies import get_access_token, get_context, get_http_headers, get_http_request
from fastmcp.tools import FunctionTool, ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, ValidationError

from dualsql.envelope import RequestedForm
from dualsql.mcp.calls import (
    CallContext,
    Refuse,
    SDKProfile,
    Tool,
    client_name,
    close_schema,
    invalid_arguments,
    refuse_nothing,
    unknown_argument,
    with_signature,
    without_empty_arguments,
)
from dualsql.mcp.listing import list_tool
from dualsql.mcp.negotiation import form_of_call, ids_of

PROFILE = SDKProfile(
    tool_errors=(ToolError,),
    internal_errors=(),
    passed_errors=(MCPError, AuthorizationError),
    passed_results=(InputRequiredResult,),
)

_CONTEXT = "dualsql_context"


def register(server: FastMCP[Any], tool: Tool) -> None:
    """Register `tool` on `server`."""
    parameters = list(tool.parameters)
    own_context = next((each.name for each in parameters if each.annotation is Context), None)
    if own_context is None:
        # In a background task, only a parameter gives access to the Context, which says that the call is a task.
        parameters.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=Context))

    async def run(**arguments: Any) -> Any:
        context = arguments[own_context] if own_context else arguments.pop(_CONTEXT)
        return await tool.call(arguments, partial(call_context, context), PROFILE)

    fastmcp_tool = FastMCPTool.from_function(
        with_signature(run, tool.function, tool.name, parameters, CallToolResult),
        name=tool.name,
        title=tool.title,
        description=tool.description,
        output_schema=tool.adapter.output_schema,
        **{"annotations": ToolAnnotations(read_only_hint=True, open_world_hint=False), **tool.registration},
    )
    fastmcp_tool.parameters, fastmcp_tool.refuse = close_schema(fastmcp_tool.parameters), tool.malformed  # type: ignore[attr-defined]
    server.add_tool(fastmcp_tool)
    list_tool(server, tool.name)


class FastMCPTool(FunctionTool):
    """A tool that refuses unknown arguments, and answers invalid ones in a sentence."""

    refuse: Refuse = Field(default=refuse_nothing, exclude=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        passed_arguments = without_empty_arguments(arguments, self.parameters)
        message = unknown_argument(passed_arguments, self.parameters)
        try:
            if message is None:
                return await super().run(passed_arguments)
        except FastValidationError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            message = invalid_arguments(error.__cause__)
        form = _form_of(get_context())
        return self.convert_result(self.refuse(message, arguments, self.parameters, form))


def call_context(context: Context) -> CallContext:
    """The context of a call, from the SDK."""

    async def report(number: float, message: str) -> None:
        await context.report_progress(number, message=message)

    return CallContext(
        _client(context),
        get_access_token(),
        report,
        context.is_background_task,
        _form_of(context),
        ids_of(get_http_headers(include_all=True), _meta(context), _address()),
    )


def _address() -> Any:
    try:
        return get_http_request().client
    except RuntimeError:  # not over HTTP, or in a background task
        return None


def _form_of(context: Context) -> RequestedForm:
    return form_of_call(get_http_headers(include_all=True), _meta(context))


def _meta(context: Context) -> Any:
    request = context.request_context
    return None if request is None else request.meta


def _client(context: Context) -> str | None:
    try:
        return client_name(context.session)
    except RuntimeError:  # called by server.call_tool, without a client; or in a background task
        return None
