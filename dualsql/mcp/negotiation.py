"""How a tool writes its results for one call, the offer of a task, and progress while a query runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from dualsql.envelope import (
    VARY,
    RequestedForm,
    create_dual_mode_error,
    create_dual_mode_response,
    dual_mode_tool_result,
    requested_form,
)
from dualsql.envelope.responses import MESSAGE_WIDTH
from dualsql.errors import ResourceExpiredError
from dualsql.formats import json
from dualsql.formats.samples import unlinked
from dualsql.formats.text import single_line
from dualsql.log import REQUEST_ID_HEADER
from dualsql.pending.progress import WAITING_CALL, WaitingCall
from dualsql.request_log import RequestIds
from dualsql.response import DualResponse, LinkForm, text_block
from dualsql.settings import ResultsFormat, TextFormat
from dualsql_client.wire import ProblemContent, ToolProblem

Report = Callable[[float, str], Awaitable[None]]
"""Sends progress to a client: a number that grows, and a message."""

PROGRESS_SECONDS = 1.0
"""Seconds between two progress notifications. Hosts that cancel a silent call do so after five seconds or more."""

Envelope = Literal["dual_response", "dual_mode"]
"""The envelope of a result: the dual response alone (specification S2), or the dual-mode answer (S8) around it."""


class ResultStyle(NamedTuple):
    """How a tool writes its results."""

    results_format: ResultsFormat
    text_format: TextFormat
    links: LinkForm
    envelope: Envelope = "dual_response"


@dataclass(slots=True)
class TaskOffer:
    """The client of this call accepts a task if the result takes long.

    Attributes:
        wait: how long a call may take before it is answered with a task.
        started: the id of the pending resource and the style of its result; None until the query is a task.
    """

    wait: timedelta
    started: tuple[str, ResultStyle] | None = None


TASK_OFFER: ContextVar[TaskOffer | None] = ContextVar("dualsql_task_offer", default=None)


@asynccontextmanager
async def progress(report: Report | None) -> AsyncIterator[None]:
    """Send progress with `report` every `PROGRESS_SECONDS` while the block runs: rows so far, and seconds."""
    if report is None:
        yield
        return
    call = WaitingCall()
    token = WAITING_CALL.set(call)
    reporting = asyncio.create_task(_send_progress(report, call))
    try:
        yield
    finally:
        WAITING_CALL.reset(token)
        reporting.cancel()
        # No notification may follow the result.
        await asyncio.wait({reporting})


async def _send_progress(report: Report, call: WaitingCall) -> None:
    clock = asyncio.get_running_loop().time
    start, number = clock(), 0.0
    # The query does not fail because a client has disconnected, or because the SDK cannot send progress to it.
    with suppress(Exception):
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            seconds = round(clock() - start)
            # MCP requires a number that grows with each notification: rows may not, while the database sorts.
            number = max(float(call.rows or seconds), number + 0.001)
            await report(number, progress_message(seconds, call.rows))


def progress_message(seconds: int, rows: int | None = None) -> str:
    """The message about a query that has run for so many seconds, and of which so many rows are kept so far."""
    sentence = f"The query has run for {seconds} {'second' if seconds == 1 else 'seconds'}."
    return sentence if not rows else f"{sentence} Rows so far: {rows:,}."


def form_of_call(headers: Mapping[str, str] | None, meta: Mapping[str, Any] | None) -> RequestedForm:
    """The form that one call asks for: in its `_meta`, which every transport has, or else in its HTTP headers."""
    # _meta may hold any JSON; what is no text asks for nothing.
    texts = {name.lower(): value for name, value in (meta or {}).items() if isinstance(value, str)}
    of_meta = {name: texts[name] for name in map(str.lower, VARY.split(", ")) if name in texts}
    of_headers = (
        {}
        if headers is None
        else {name: value for name, value in headers.items() if name.lower() not in of_meta}
    )
    return requested_form({**of_meta, **of_headers})


def ids_of(
    headers: Mapping[str, str] | None, meta: Mapping[str, Any] | None, client: Any = None
) -> RequestIds:
    """The ids of one call: X-Request-Id of its HTTP request, and the trace of its `_meta` or else of the request.

    Args:
        client: the address and the port that the HTTP request came from.
    """
    header_values = headers or {}
    of_call, of_header = (meta or {}).get("traceparent"), header_values.get("traceparent")
    trace = of_header if of_call is None else of_call
    ids = RequestIds.of(header_values.get(REQUEST_ID_HEADER.lower()), trace, client[0] if client else None)
    return ids._replace(traceparent=str(of_header)) if ids.trace_id and of_call is None else ids


class ToolCall(NamedTuple):
    """The name of a call, and the form of the answer that its headers ask for."""

    operation: str
    form: RequestedForm


def with_structured_text(result: Mapping[str, Any], form: RequestedForm) -> Mapping[str, Any]:
    """The tool result; if the headers ask for data, its text is the structured content as JSON.

    A host passes on the text or the structured content, hardly ever both, so each of them holds all of the data.
    """
    if not form.is_structured or "structuredContent" not in result:
        return result
    return {**result, "content": [text_block(json.dumps(result["structuredContent"]).decode())]}


def response_result(
    response: DualResponse, style: ResultStyle, call: ToolCall, *, client: str | None, seconds: float
) -> Mapping[str, Any]:
    """The tool result for a dual response.

    Args:
        client: the name of the client, on which `ResultStyle.links` may depend.
        seconds: how long the call took.
    """
    if style.envelope == "dual_mode":
        return _dual_mode(response, style, call, seconds)
    return response.to_mcp_tool_result(
        links=style.links,
        text_format=style.text_format,
        results_format=style.results_format,
        client=client,
    )


def problem_tool_result(problem: ToolProblem) -> dict[str, Any]:
    """A tool result for an error. The text has everything except `details`."""
    code, message, hint = problem["code"], unlinked(problem["message"]), problem["hint"]
    # The calls that make an expired result again may have the URIs of others.
    hint = hint if code == ResourceExpiredError.code else unlinked(hint)
    text = f"{code}: {message} {hint}".rstrip()
    return {
        "content": [text_block(single_line(text, MESSAGE_WIDTH))],
        "structuredContent": ProblemContent(error=problem),
        "isError": True,
    }


def problem_result(problem: ToolProblem, envelope: Envelope, call: ToolCall) -> Mapping[str, Any]:
    """The tool result for a problem."""
    if envelope == "dual_response":
        return problem_tool_result(problem)
    answer = create_dual_mode_error(
        problem["message"],
        problem["code"],
        operation=call.operation,
        suggestion=problem["hint"] or None,
        details=problem["details"],
    )
    return dual_mode_tool_result(answer, call.form)


def _dual_mode(
    response: DualResponse, style: ResultStyle, call: ToolCall, seconds: float
) -> Mapping[str, Any]:
    """The dual-mode answer (specification S8): the data is the structured content, the display is the text."""
    answer = create_dual_mode_response(
        response.to_staged_content(operation=call.operation, results_format=style.results_format),
        operation=call.operation,
        shown={"type": "markdown", "content": response.to_text(text_format=style.text_format)},
        seconds=seconds,
    )
    return dual_mode_tool_result(answer, call.form)
