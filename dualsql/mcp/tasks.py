"""Tasks for `mcp.server.MCPServer`: a slow tool call is answered with a task, which is a pending resource.

This is the extension io.modelcontextprotocol/tasks (SEP-2663), which mcp 2.3 does not implement. Every process with the
same store can read and cancel a task. A task whose server stopped has failed. fastmcp has its own extension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

from pydantic import Field

from dualsql.envelope import requested_form
from dualsql.errors import DualResponseError, QueryCancelledError, ResourceFailedError
from dualsql.identity import principal_of_token
from dualsql.mcp.calls import PrincipalOf, client_name
from dualsql.mcp.negotiation import (
    TASK_OFFER,
    Envelope,
    ResultStyle,
    TaskOffer,
    ToolCall,
    problem_result,
    progress_message,
    response_result,
    with_structured_text,
)
from dualsql.packages import extra
from dualsql.pending.feature import Pending
from dualsql.resource import Principal, Resource, problem_of
from dualsql.response import LinkForm
from dualsql.settings import Action, ResultsFormat, TextFormat, require_duration

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
    from dualsql.server import ResultServer

EXTENSION = "io.modelcontextprotocol/tasks"

POLL_MILLISECONDS = 1_000
"""How often a client is asked to poll a task."""

Context = ServerRequestContext[Any, Any]

_STYLES = (get_args(ResultsFormat), get_args(TextFormat), get_args(LinkForm), get_args(Envelope))


class _TaskParams(RequestParams):
    task_id: str = Field(alias="taskId", max_length=200)


class Tasks(Extension):
    """An extension: `MCPServer("colleges", extensions=[Tasks(dual)])` answers slow calls with tasks.

    Only clients that declare tasks get them.

    Args:
        wait: how long a call may take before its result is a task. A tool's own `wait` has precedence.
        principal: gives the principal of a verified access token, as for `DualResponseServer.tool`.
    """

    identifier = EXTENSION

    def __init__(
        self,
        dual: ResultServer,
        *,
        wait: timedelta = timedelta(seconds=3),
        principal: PrincipalOf = principal_of_token,
    ) -> None:
        self._dual = dual
        self._pending = dual.features.get(Pending)
        self._wait = require_duration("wait", wait)
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
        """Answer with a task if the call takes longer than `wait` and the client declares tasks."""
        if not _supports_tasks(ctx):
            return await call_next(ctx)
        offer = TaskOffer(self._wait)
        token = TASK_OFFER.set(offer)
        try:
            result = await call_next(ctx)
        finally:
            TASK_OFFER.reset(token)
        if offer.started is None:
            return result
        resource_id, style = offer.started
        resource = await self._open(resource_id, "read")
        # The style is part of the id: any process writes the result that the tool would have (decision 21).
        return {"resultType": "task", **_task(f"{resource_id}.{'.'.join(style)}", resource, "working")}

    async def _get(self, ctx: Context, params: _TaskParams) -> HandlerResult:
        resource_id, style = _parse(ctx, params)
        resource = await self._open(resource_id, "read")
        if resource.status == "pending":
            return _task(params.task_id, resource, "working")
        if resource.failure is not None and resource.failure["code"] == QueryCancelledError.code:
            return _task(params.task_id, resource, "cancelled")
        result = await self._result(resource, style, ctx)
        return {**_task(params.task_id, resource, "completed"), "result": result}

    async def _update(self, ctx: Context, params: _TaskParams) -> HandlerResult:
        # Queries never ask for input.
        await self._open(_parse(ctx, params)[0], "read")
        return {}

    async def _cancel(self, ctx: Context, params: _TaskParams) -> HandlerResult:
        resource = await self._open(_parse(ctx, params)[0], "delete")
        await self._pending.cancel(resource, self._current_principal())
        return {}

    async def _open(self, resource_id: str, action: Action) -> Resource:
        try:
            return await self._dual.open_resource(resource_id, self._current_principal(), action)
        except DualResponseError as error:
            # The answer is the same for unknown, expired and foreign tasks, as for resources.
            raise MCPError(code=INVALID_PARAMS, message="There is no such task.") from error

    def _current_principal(self) -> Principal | None:
        token = get_access_token()
        return None if token is None else self._principal(token)

    async def _result(self, resource: Resource, style: ResultStyle, ctx: Context) -> Mapping[str, Any]:
        call = ToolCall(resource.name, requested_form(getattr(ctx.request, "headers", None)))
        try:
            response = await self._pending.show_again(resource, self._current_principal())
        except DualResponseError as error:
            problem = resource.failure if isinstance(error, ResourceFailedError) else None
            result = problem_result(problem or problem_of(error), style.envelope, call)
        else:
            with_description = replace(response, description=resource.metadata.get("description"))
            result = response_result(
                with_description, style, call, client=client_name(ctx.session), seconds=0.0
            )
        return with_structured_text(result, call.form)


def _supports_tasks(ctx: Context) -> bool:
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False  # older protocols have no tasks
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})


def _parse(ctx: Context, params: _TaskParams) -> tuple[str, ResultStyle]:
    """The resource id in the id of a task, and the style of its result.

    Raises:
        MCPError: the client has not declared tasks, its header names another task, or the id is malformed.
    """
    require_client_extension(ctx, EXTENSION)
    headers = getattr(ctx.request, "headers", None) or {}
    task_name = headers.get(MCP_NAME_HEADER)
    if task_name is not None and decode_header_value(task_name) != params.task_id:
        raise MCPError(code=HEADER_MISMATCH, message=f"{MCP_NAME_HEADER} names another task than the body.")
    resource_id, *words = params.task_id.split(".")
    with suppress(ValueError):
        if all(word in choices for word, choices in zip(words, _STYLES, strict=True)):
            return resource_id, ResultStyle(*words)  # type: ignore[arg-type]  # each word is checked above
    raise MCPError(code=INVALID_PARAMS, message="There is no such task.")


def _task(task_id: str, resource: Resource, status: str) -> dict[str, Any]:
    """The task as MCP has it in JSON."""
    now, expires_at = datetime.now(UTC), resource.expires_at
    lifetime = None if expires_at is None else expires_at - resource.created_at
    task: dict[str, Any] = {
        "taskId": task_id,
        "status": status,
        "createdAt": resource.created_at.isoformat(),
        "lastUpdatedAt": now.isoformat(),
        "ttlMs": None if lifetime is None else round(lifetime.total_seconds() * 1_000),
        "pollIntervalMs": POLL_MILLISECONDS,
    }
    if status == "working":
        running = (resource.kept or {}).get("running")
        seconds = round((now - resource.created_at).total_seconds())
        task["statusMessage"] = progress_message(seconds, running["rows"] if running else None)
    return task
