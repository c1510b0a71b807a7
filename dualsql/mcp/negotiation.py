"""Which half of a result the caller wants, and progress while its query runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from dualsql.envelope import (
    Wanted,
    create_dual_mode_error,
    create_dual_mode_response,
    dual_mode_tool_result,
    staged_data,
)
from dualsql.formats import json
from dualsql.formats.samples import TextFormat
from dualsql.resource import RELATION
from dualsql.response import DualResponse, LinkForm, ResultsFormat, problem_tool_result, text_block
from dualsql_client.wire import ToolProblem

Report = Callable[[float, str], Awaitable[None]]
"""Tells a client how many seconds a call has taken, and what it does."""

INTERVAL = 1.0
"""Seconds between two words of progress. Hosts that give up on a silent call do so after five, or more."""


Envelope = Literal["dual_response", "dual_mode"]
"""Whether a result is the dual response (specification S2), or that in a dual-mode answer (S8)."""


class ResultStyle(NamedTuple):
    """How a tool writes its results."""

    results_format: ResultsFormat
    text_format: TextFormat
    links: LinkForm
    envelope: Envelope = "dual_response"


@dataclass(slots=True)
class TaskOffer:
    """The client of this call would take a task in place of a result that is long in coming.

    Attributes:
        wait: how long is long.
        taken: the resource that is pending, and how its result is to be written; None while the offer stands.
    """

    wait: timedelta
    taken: tuple[str, ResultStyle] | None = None


OFFER: ContextVar[TaskOffer | None] = ContextVar("dualsql_task_offer", default=None)


@asynccontextmanager
async def reporting(report: Report | None) -> AsyncIterator[None]:
    """Say now and then that the block goes on."""
    if report is None:
        yield
        return
    telling = asyncio.create_task(_tell(report))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})


async def _tell(report: Report) -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()
    # A client that has gone, or asked for no progress in a way the SDK minds, is no reason for the query to fail.
    with suppress(Exception):
        while True:
            await asyncio.sleep(INTERVAL)
            seconds = round(clock() - begun)
            await report(seconds, still_runs(seconds))


def still_runs(seconds: int) -> str:
    """What is said of a query after so many seconds."""
    return f"The query has run for {seconds} {'second' if seconds == 1 else 'seconds'}."


class ToolCall(NamedTuple):
    """What is called, and who reads the answer."""

    operation: str
    wanted: Wanted


def for_its_reader(result: Mapping[str, Any], wanted: Wanted) -> Mapping[str, Any]:
    """The result, with the structure as its text for a program."""
    if not wanted.is_structured or "structuredContent" not in result:
        return result
    return {**result, "content": [text_block(json.dumps(result["structuredContent"]).decode())]}


def written(
    response: DualResponse, style: ResultStyle, call: ToolCall, *, client: str | None, seconds: float
) -> Mapping[str, Any]:
    """A dual response as its tool writes it."""
    if style.envelope == "dual_mode":
        return _dual_mode(response, style, call, seconds)
    return response.to_mcp_tool_result(
        links=style.links,
        text_format=style.text_format,
        results_format=style.results_format,
        client=client,
    )


def refused(problem: ToolProblem, envelope: Envelope, call: ToolCall) -> Mapping[str, Any]:
    """A problem as its tool writes it."""
    if envelope == "dual_response":
        return problem_tool_result(problem)
    answer = create_dual_mode_error(
        problem["message"],
        problem["code"],
        operation=call.operation,
        suggestion=problem["hint"] or None,
        details=problem["details"],
    )
    return dual_mode_tool_result(answer, call.wanted)


def _dual_mode(
    response: DualResponse, style: ResultStyle, call: ToolCall, seconds: float
) -> Mapping[str, Any]:
    """Its structure is the data, besides the words of specification S8, and its text the display."""
    structure = dict(response.to_structured_content(results_format=style.results_format))
    staged = staged_data(
        data_access_id=response.resource_id,
        operation=call.operation,
        payload_size=_size(response),
        entities=response.total_count,
        table=RELATION,
        endpoint=f"{response.resource_url}/sql",
        example=f"SELECT * FROM {RELATION} LIMIT 10",  # noqa: S608 - an example of ours
    )
    answer = create_dual_mode_response(
        {**staged, **structure},
        operation=call.operation,
        shown={"type": "markdown", "content": response.to_text(text_format=style.text_format)},
        seconds=seconds,
    )
    return dual_mode_tool_result(answer, call.wanted)


def _size(response: DualResponse) -> int | None:
    """Bytes of all rows as JSON; reckoned from the sample where that is not everything."""
    shown = len(json.dumps(list(response.sample)))
    if response.total_count is None or not response.sample:
        return None
    return round(shown * max(response.total_count / len(response.sample), 1))
