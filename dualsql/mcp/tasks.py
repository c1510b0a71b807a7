"""Tasks of `mcp.server.MCPServer`: a slow tool call is answered with a task. A task is a pending resource.

The extension io.modelcontextprotocol/tasks (SEP-2663), which mcp 2.3 leaves to others. Every process with the same
store can say how a task stands, and cancel it; what a restart ended has failed. fastmcp has an extension of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

from pydantic import Field

from dualsql.envelope import wanted
from dualsql.errors import DualResponseError, QueryCancelledError, ResourceFailedError, extra
from dualsql.formats.samples import TextFormat
from dualsql.identity import principal_of_token
from dualsql.mcp.negotiation import (
    OFFER,
    Envelope,
    ResultStyle,
    TaskOffer,
    ToolCall,
    for_its_reader,
    refused,
    still_runs,
    written,
)
from dualsql.mcp.tool import PrincipalOf
from dualsql.resource import Principal, Resource, problem_of
from dualsql.response import LinkForm, ResultsFormat
from dualsql.settings import Action

with extra("mcp"):
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.extension import Extension, MethodBinding
    from mcp.server.mcpserver import require_client_extension
    from mcp.shared.exceptions import MCPError
    from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
    from mcp_types import INVALID_PARAMS, CallToolRequestParams, RequestParams
    from mcp_types.jsonrpc import HEADER_MISMATCH
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from dualsql.server import DualResponseServer

EXTENSION = "io.modelcontextprotocol/tasks"

POLL_MILLISECONDS = 1_000

Context = ServerRequestContext[Any, Any]

_SHAPES = (get_args(ResultsFormat), get_args(TextFormat), get_args(LinkForm), get_args(Envelope))


class _TaskParams(RequestParams):
    task_id: str = Field(alias="taskId", max_length=200)


class Tasks(Extension):
    """`MCPServer("colleges", extensions=[Tasks(dual)])`: for clients that declare tasks, slow calls become some.

    Args:
        wait: how long a call may take before it does; a tool's own `wait` wins.
        principal: whom a verified access token stands for, as for `DualResponseServer.tool`.
    """

    identifier = EXTENSION

    def __init__(
        self,
        dual: DualResponseServer,
        *,
        wait: timedelta = timedelta(seconds=3),
        principal: PrincipalOf = principal_of_token,
    ) -> None:
        self._dual = dual
        self._wait = wait
        self._principal = principal

    def methods(self) -> Sequence[MethodBinding]:
        """tasks/get, tasks/update and tasks/cancel."""
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        handlers = {"get": self._get, "update": self._update, "cancel": self._cancel}
        return [
            MethodBinding(f"tasks/{name}", _TaskParams, handler, versions)
            for name, handler in handlers.items()
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """A result that is long in coming is a task, for a client that takes one."""
        if not _takes_tasks(ctx):
            return await call_next(ctx)
        offer = TaskOffer(self._wait)
        token = OFFER.set(offer)
        try:
            result = await call_next(ctx)
        finally:
            OFFER.reset(token)
        if offer.taken is None:
            return result
        resource_id, style = offer.taken
        resource = await self._opened(resource_id, "read")
        return {"resultType": "task", **_standing(f"{resource_id}.{'.'.join(style)}", resource, "working")}

    async def _get(self, ctx: Context, params: _TaskParams) -> HandlerResult:
        resource_id, style = _checked(ctx, params)
        resource = await self._opened(resource_id, "read")
        if resource.status == "pending":
            return _standing(params.task_id, resource, "working")
        if resource.failure is not None and resource.failure["code"] == QueryCancelledError.code:
            return _standing(params.task_id, resource, "cancelled")
        result = await self._result(resource, style, ctx)
        return {**_standing(params.task_id, resource, "completed"), "result": result}

    async def _update(self, ctx: Context, params: _TaskParams) -> HandlerResult:
        # No query asks for input: there is nothing to answer.
        await self._opened(_checked(ctx, params)[0], "read")
        return {}

    async def _cancel(self, ctx: Context, params: _TaskParams) -> HandlerResult:
        resource = await self._opened(_checked(ctx, params)[0], "delete")
        await self._dual.responses.cancel(resource, principal=self._caller())
        return {}

    async def _opened(self, resource_id: str, action: Action) -> Resource:
        try:
            return await self._dual.open_resource(resource_id, self._caller(), action)
        except DualResponseError as error:
            # Unknown, expired and foreign are one, here too.
            raise MCPError(code=INVALID_PARAMS, message="There is no such task.") from error

    def _caller(self) -> Principal | None:
        token = get_access_token()
        return None if token is None else self._principal(token)

    async def _result(self, resource: Resource, style: ResultStyle, ctx: Context) -> Mapping[str, Any]:
        call = ToolCall(resource.name, wanted(getattr(ctx.request, "headers", None)))
        try:
            response = await self._dual.responses.show_again(resource, principal=self._caller())
        except DualResponseError as error:
            problem = resource.failure if isinstance(error, ResourceFailedError) else None
            return for_its_reader(refused(problem or problem_of(error), style.envelope, call), call.wanted)
        introduced = ctx.session.client_params
        client = None if introduced is None else introduced.client_info.name
        described = replace(response, description=resource.metadata.get("description"))
        return for_its_reader(written(described, style, call, client=client, seconds=0.0), call.wanted)


def _takes_tasks(ctx: Context) -> bool:
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False  # an older connection has no room for a task
    declared = ctx.session.client_capabilities
    return declared is not None and EXTENSION in (declared.extensions or {})


def _checked(ctx: Context, params: _TaskParams) -> tuple[str, ResultStyle]:
    """The resource that a task is, and how its result is written.

    Raises:
        MCPError: the client has not declared tasks, its header names another one, or it is no task of ours.
    """
    require_client_extension(ctx, EXTENSION)
    headers = getattr(ctx.request, "headers", None) or {}
    named = headers.get(MCP_NAME_HEADER)
    if named is not None and decode_header_value(named) != params.task_id:
        raise MCPError(code=HEADER_MISMATCH, message=f"{MCP_NAME_HEADER} names another task than the body.")
    resource_id, *words = params.task_id.split(".")
    with suppress(ValueError):
        if all(word in known for word, known in zip(words, _SHAPES, strict=True)):
            return resource_id, ResultStyle(*words)  # type: ignore[arg-type]  # they were looked up
    raise MCPError(code=INVALID_PARAMS, message="There is no such task.")


def _standing(task_id: str, resource: Resource, status: str) -> dict[str, Any]:
    """A task as the wire has it."""
    now, expires_at = datetime.now(UTC), resource.expires_at
    lifetime = None if expires_at is None else expires_at - resource.created_at
    found: dict[str, Any] = {
        "taskId": task_id,
        "status": status,
        "createdAt": resource.created_at.isoformat(),
        "lastUpdatedAt": now.isoformat(),
        "ttlMs": None if lifetime is None else round(lifetime.total_seconds() * 1_000),
        "pollIntervalMs": POLL_MILLISECONDS,
    }
    if status == "working":
        found["statusMessage"] = still_runs(round((now - resource.created_at).total_seconds()))
    return found
