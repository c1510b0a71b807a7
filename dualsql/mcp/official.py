"""Tools of `mcp.server.MCPServer`, mcp 2."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, cast

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool as ServerTool
from mcp.server.mcpserver.utilities.context_injection import find_context_parameter
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, RootModel, ValidationError

from dualsql.http.router import origin_of, own_hosts
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
from dualsql.server import ResultServer

PROFILE = SDKProfile(
    tool_errors=(ToolError,),
    internal_errors=(UnexpectedToolError,),
    passed_errors=(MCPError,),
    passed_results=(InputRequiredResult,),
)

_CONTEXT = "dualsql_context"


class _RefusedHosts(logging.Filter):
    """Adds what to set to the SDK's warning of a refused host or origin, which says only the header."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (
            message.startswith(("Invalid Host header", "Invalid Origin header"))
            and _WHAT_TO_SET not in message
        ):
            record.msg, record.args = "%s. %s", (message, _WHAT_TO_SET)
        return True


_WHAT_TO_SET = (
    "Behind a host name, pass streamable_http_app(transport_security=dualsql.mcp.transport_security(dual)), which "
    "allows the hosts of base_url and allowed_hosts, and the origins of cors_origins."
)
_REFUSED_HOSTS = _RefusedHosts()


def transport_security(dual: ResultServer) -> TransportSecuritySettings:
    """The check of Host and Origin for the SDK: `mcp.streamable_http_app(transport_security=...)`.

    Without it the SDK's application answers 421 "Invalid Host header" to every name but those of the loopback.
    """
    hosts = sorted(own_hosts(dual.base_url) | frozenset(dual.settings.allowed_hosts))
    return TransportSecuritySettings(
        # The SDK's `host:*` matches the host with a port only (mcp/server/transport_security.py).
        allowed_hosts=[form for host in hosts for form in (host, f"{host}:*")],
        allowed_origins=[origin_of(dual.base_url), *map(origin_of, dual.settings.cors_origins)],
    )


def register(server: MCPServer[Any], tool: Tool) -> None:
    """Register `tool` on `server`."""
    logging.getLogger("mcp.server.transport_security").addFilter(_REFUSED_HOSTS)
    parameters = list(tool.parameters)
    returns = Annotated[CallToolResult, _type_with_schema(tool.adapter.output_schema)]

    async def run(**arguments: Any) -> Any:
        context = arguments[own_context] if own_context else arguments.pop(_CONTEXT)
        return await tool.call(arguments, partial(_call_context, context), PROFILE)

    signed_run = with_signature(run, tool.function, tool.name, parameters, returns)
    own_context = find_context_parameter(signed_run)
    if own_context is None:
        # Only the Context knows the client's name.
        parameters.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=Context))
        signed_run = with_signature(run, tool.function, tool.name, parameters, returns)
    official_tool = OfficialTool.from_function(
        signed_run,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        **{"annotations": ToolAnnotations(read_only_hint=True, open_world_hint=False), **tool.registration},
    )
    official_tool.parameters, official_tool.refuse = close_schema(official_tool.parameters), tool.malformed  # type: ignore[attr-defined]
    registered = server._tool_manager  # noqa: SLF001 - mcp 2.3 takes a Tool object in its constructor only
    if registered.get_tool(tool.name) is None:
        registered._tools[tool.name] = official_tool  # noqa: SLF001
    else:
        # The SDK keeps the first tool of a name, and warns if it is set to.
        server.add_tool(signed_run, name=tool.name)
    list_tool(server, tool.name)


class OfficialTool(ServerTool):
    """A tool that refuses unknown arguments, and answers invalid ones in a sentence."""

    refuse: Refuse = Field(default=refuse_nothing, exclude=True)

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: FBT001, FBT002 - the SDK's signature
    ) -> Any:
        passed_arguments = without_empty_arguments(arguments, self.parameters)
        message = unknown_argument(passed_arguments, self.parameters)
        try:
            if message is None:
                return await super().run(passed_arguments, context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError) or type(error) is not ToolError:
                raise
            message = invalid_arguments(error.__cause__)
        return self.refuse(message, arguments, self.parameters, _call_context(context).form)


def _call_context(context: Context[Any, Any]) -> CallContext:
    try:
        client, request = client_name(context.session), context.request_context.request
    except ValueError:  # called by server.call_tool, without a client
        return CallContext(None, get_access_token())

    async def report(number: float, message: str) -> None:
        await context.report_progress(number, message=message)

    meta = cast("Mapping[str, Any] | None", context.request_context.meta)
    headers, client_address = (None, None) if request is None else (request.headers, request.client)
    form, ids = form_of_call(headers, meta), ids_of(headers, meta, client_address)
    return CallContext(client, get_access_token(), report, form=form, ids=ids)


def _type_with_schema(schema: dict[str, Any]) -> Any:
    """A type with this JSON Schema: the SDK publishes the schema of a return type, and takes no schema itself."""

    class Result(RootModel[dict[str, Any]]):
        @classmethod
        def __get_pydantic_json_schema__(cls, *_: Any) -> dict[str, Any]:
            return schema

    return Result
