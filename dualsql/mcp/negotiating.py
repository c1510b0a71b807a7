"""Which half of a result its caller wants; the rule: a program reads JSON wherever its host lets it look.

seeds/001: a call over HTTP may carry `X-Response-Format` and `X-Execution-Context`. Hosts hand on the text or the
structure, hardly ever both, so for a program each of them is the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dualsql.asking.statements import RELATION
from dualsql.envelope import (
    Wanted,
    create_dual_mode_error,
    create_dual_mode_response,
    dual_mode_tool_result,
    staged_data,
)
from dualsql.formats import json
from dualsql.mcp.patience import Envelope, Style
from dualsql.response import DualResponse, problem_tool_result, text_block
from dualsql_client.wire import ToolProblem


class Call(NamedTuple):
    """What is called, and who reads the answer."""

    operation: str
    wanted: Wanted


def for_its_reader(result: Mapping[str, Any], wanted: Wanted) -> Mapping[str, Any]:
    """The result, with the structure as its text for a program."""
    if not wanted.is_structured or "structuredContent" not in result:
        return result
    return {**result, "content": [text_block(json.dumps(result["structuredContent"]).decode())]}


def written(
    response: DualResponse, style: Style, call: Call, *, client: str | None, seconds: float
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


def refused(problem: ToolProblem, envelope: Envelope, call: Call) -> Mapping[str, Any]:
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


def _dual_mode(response: DualResponse, style: Style, call: Call, seconds: float) -> Mapping[str, Any]:
    """Its structure is the data, besides the words of seeds/001, and its text the display."""
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
