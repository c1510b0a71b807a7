"""An extension of fastmcp: every tool that returns a Select answers with a dual response, without a decorator.

The SDK's own tool stays, with its checks, tags and authorization. Only its function is another one, which hands over a
tool result in place of a Select. `intercept_tool_call` would be too late: there, the Select is a text already. The
official SDK has nothing else for an extension, so its tools need the decorator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, get_args, get_origin

from fastmcp.server.dependencies import get_context
from fastmcp.server.extensions import MethodBinding, ServerExtension
from fastmcp.server.transforms import GetToolNext, Transform
from fastmcp.tools import FunctionTool, Tool as ServerTool
from fastmcp.utilities.versions import VersionSpec
from mcp_types import CallToolResult

from dualsql.errors import ConfigurationError
from dualsql.identity import principal_of_token
from dualsql.mcp.calls import PrincipalOf, Tool, with_signature
from dualsql.mcp.decorators import make_tool
from dualsql.mcp.fastmcp import PROFILE, FastMCPTool, call_context
from dualsql.mcp.options import ResultOptions
from dualsql.mcp.resource_server import service_entry
from dualsql.mcp.results import STATEMENTS, Answer
from dualsql.openapi.service import EXTENSION
from dualsql.response import DualResponse
from dualsql_client.keywords import checked_keywords

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_RESULTS = (*STATEMENTS, Answer, DualResponse)


class DualResponses(ServerExtension):
    """An extension: `mcp.add_extension(DualResponses(dual))` makes dual responses of what tools return.

    A function that is annotated to return a Select, an `Answer` or a DualResponse is a tool as `dual.tool` makes it.
    One without an annotation answers so when it returns one of them. All other tools stay as they are, and so do tools
    of a server that is mounted: add an extension to it, too.

    Args:
        dual: makes and keeps the results.
        principal: gives the principal of a verified access token, as for `DualResponseServer.tool`.
        options: of the results, see `ResultOptions`.

    Raises:
        ConfigurationError, BadParameterError: an option is out of bounds.
    """

    identifier = EXTENSION

    @checked_keywords(ResultOptions)
    def __init__(
        self,
        dual: ResultServer,
        *,
        principal: PrincipalOf = principal_of_token,
        **options: Unpack[ResultOptions],
    ) -> None:
        self._dual = dual
        self._make = partial(make_tool, dual, principal=principal, **options)
        self._make(_any_tool)  # refuses wrong options now, and not in the first request

    def settings(self) -> dict[str, Any]:
        """The entry of the REST service."""
        return service_entry(self._dual)

    def methods(self) -> Sequence[MethodBinding]:
        """No methods. The SDK asks for them when the extension has its server, and the tools change from here on."""
        self.server.add_transform(_DualTools(self._make))
        return ()

    def tools(self) -> Sequence[Any]:
        """Called by the official SDK alone.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            "DualResponses is an extension of fastmcp: those of the official SDK see no Select.",
            hint="Decorate each tool with @dual.tool(mcp).",
        )

    def clone(self) -> ServerExtension:
        """See `ServerExtension`. The server of the results is not copied."""
        extension = DualResponses(self._dual)
        extension._make = self._make
        return extension


def _any_tool() -> Any:
    """A tool, to check options with."""


class _DualTools(Transform):
    """Replaces the function of each tool that may return a result."""

    def __init__(self, make: Callable[..., Tool]) -> None:
        self._make = make
        # By function, and by what is written in the tool: the SDK gives a new object for each request, and keeps a
        # validator for each function.
        self._tools: dict[tuple[Any, ...], tuple[Tool, Callable[..., Any]]] = {}

    async def list_tools(self, tools: Sequence[ServerTool]) -> Sequence[ServerTool]:
        return [self._dual_tool(tool) for tool in tools]

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> ServerTool | None:
        tool = await call_next(name, version=version)
        return None if tool is None else self._dual_tool(tool)

    def _dual_tool(self, server_tool: ServerTool) -> ServerTool:
        if not isinstance(server_tool, FunctionTool) or isinstance(server_tool, FastMCPTool):
            return server_tool
        is_declared = _returns_results(server_tool.return_type)
        if not is_declared and server_tool.return_type is not inspect.Signature.empty:
            return server_tool
        try:
            tool, function = self._tool(server_tool, is_declared=is_declared)
        except ConfigurationError:
            if is_declared:
                raise
            return server_tool  # whatever it returns, dualsql cannot call it
        changes: dict[str, Any] = {"fn": function}
        if tool.principal_parameters.names:
            changes["parameters"] = _without(tool.principal_parameters.names, server_tool.parameters)
        if is_declared:
            changes |= {"description": tool.description, "output_schema": tool.adapter.output_schema}
        return server_tool.model_copy(update=changes)

    def _tool(self, server_tool: FunctionTool, *, is_declared: bool) -> tuple[Tool, Callable[..., Any]]:
        name, title, description = server_tool.name, server_tool.title, server_tool.description
        key = (server_tool.fn, name, title, description)
        if key not in self._tools:
            tool = self._make(server_tool.fn, name=name, title=title, description=description)
            self._tools[key] = tool, _function(tool, is_declared=is_declared)
        return self._tools[key]


def _returns_results(annotation: Any) -> bool:
    """Whether an annotation, or a member of a union, is a type of results."""
    kinds = {get_origin(each) or each for each in (annotation, *get_args(annotation))}
    return any(isinstance(kind, type) and issubclass(kind, _RESULTS) for kind in kinds)


def _without(names: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of arguments without these, which clients must not give: the caller."""
    properties = {name: part for name, part in schema.get("properties", {}).items() if name not in names}
    required = [name for name in schema.get("required", ()) if name not in names]
    return {**schema, "properties": properties, "required": required}


def _function(tool: Tool, *, is_declared: bool) -> Callable[..., Any]:
    """The function that the SDK calls in place of the tool's own."""

    async def run(**arguments: Any) -> Any:
        if is_declared:
            return await tool.call(arguments, _context, PROFILE)
        token = _context().token
        principal = None if token is None else tool.principal(token)
        output = await tool.run({**arguments, **tool.principal_parameters.arguments(principal)})
        if not isinstance(output, _RESULTS):
            return output

        async def return_output(**_: Any) -> Any:
            return output

        return await replace(tool, function=return_output).call(arguments, _context, PROFILE)

    returns = CallToolResult if is_declared else inspect.Signature.empty
    return with_signature(run, tool.function, tool.name, tool.parameters, returns)


def _context() -> Any:
    return call_context(get_context())
