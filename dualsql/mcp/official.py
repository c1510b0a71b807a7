"""Tools of `mcp.server.MCPServer`, mcp 2."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool as ServerTool
from mcp.server.mcpserver.utilities.context_injection import find_context_parameter
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import RootModel, ValidationError

from dualsql.envelope import wanted
from dualsql.mcp.calls import CallContext, SDKProfile, Tool, closed, misfit, misfits, shaped

PROFILE = SDKProfile(
    spoken=(ToolError,), hidden=(UnexpectedToolError,), passed=(MCPError,), through=(InputRequiredResult,)
)

_CONTEXT = "dualsql_context"


def register(server: MCPServer[Any], tool: Tool) -> None:
    """Make `tool` a tool of `server`."""
    parameters = list(tool.parameters)
    returns = Annotated[CallToolResult, _published(tool.manner.output_schema)]

    async def run(**arguments: Any) -> Any:
        context = arguments[asked] if asked else arguments.pop(_CONTEXT)
        return await tool.call(arguments, partial(_introduction, context), PROFILE)

    published = shaped(run, tool.function, tool.name, parameters, returns)
    asked = find_context_parameter(published)
    if asked is None:
        # The Context alone knows the name of the client.
        parameters.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=Context))
        published = shaped(run, tool.function, tool.name, parameters, returns)
    made = OfficialTool.from_function(
        published,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        **{"annotations": ToolAnnotations(read_only_hint=True, open_world_hint=False), **tool.registration},
    )
    made.parameters = closed(made.parameters)
    known = server._tool_manager  # noqa: SLF001 - mcp 2.3 takes a Tool at construction alone
    if known.get_tool(tool.name) is None:
        known._tools[tool.name] = made  # noqa: SLF001
    else:
        server.add_tool(published, name=tool.name)  # the first one stays; whether that is said is the SDK's


class OfficialTool(ServerTool):
    """A tool that refuses what it does not know."""

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: FBT001, FBT002 - the SDK's
    ) -> Any:
        """See `mcp.server.mcpserver.tools.Tool`."""
        refused = misfit(self.name, arguments, self.parameters)
        if refused is not None:
            return refused
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError) and type(error) is ToolError:
                return misfits(self.name, error.__cause__)
            raise


def _introduction(context: Context[Any, Any]) -> CallContext:
    try:
        introduced, request = context.session.client_params, context.request_context.request
    except ValueError:  # called without a client, by server.call_tool
        return CallContext(None, get_access_token())
    client = None if introduced is None else introduced.client_info.name

    async def report(seconds: float, message: str) -> None:
        await context.report_progress(seconds, message=message)

    asked = wanted(None if request is None else request.headers)
    return CallContext(client, get_access_token(), report, wanted=asked)


def _published(schema: dict[str, Any]) -> Any:
    """A type whose JSON schema is ours: the SDK publishes the schema of a type, and takes no other."""

    class Result(RootModel[dict[str, Any]]):
        @classmethod
        def __get_pydantic_json_schema__(cls, *_: Any) -> dict[str, Any]:
            return schema

    return Result
