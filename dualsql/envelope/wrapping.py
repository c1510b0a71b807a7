"""Tools that answer in an envelope; the rule: whatever a tool does, its answer passes validation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

from dualsql.envelope.audit import AnswerAudit, AnswerEvent, event_of, require_plain_function
from dualsql.envelope.calling import Outcome, Tool, answered, name_of
from dualsql.envelope.displays import DisplayType
from dualsql.envelope.dual_mode import dual_mode_error
from dualsql.envelope.dual_shaping import dual_mode_of
from dualsql.envelope.failures import error_of
from dualsql.envelope.shapes import DualModeAnswer, Response
from dualsql.envelope.shaping import failed, response_of
from dualsql.envelope.values import BOUNDS, Bounds

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer", Response, DualModeAnswer)


@overload
def wrap_tool_response(
    tool: Callable[Parameters, Awaitable[Any]],
    *,
    name: str | None = None,
    audit: AnswerAudit | None = None,
    bounds: Bounds = BOUNDS,
) -> Callable[Parameters, Awaitable[Response]]: ...
@overload
def wrap_tool_response(
    tool: Callable[Parameters, Any],
    *,
    name: str | None = None,
    audit: AnswerAudit | None = None,
    bounds: Bounds = BOUNDS,
) -> Callable[Parameters, Response]: ...
def wrap_tool_response(
    tool: Tool,
    *,
    name: str | None = None,
    audit: AnswerAudit | None = None,
    bounds: Bounds = BOUNDS,
) -> Tool:
    """The tool, answering with a Response: of its data, of its own envelope made whole, or of what it raised.

    An error of dualsql's says its message and hint. Of any other exception the caller gets a fixed sentence and an
    incident, under which the log has the exception. A cancelled call stays cancelled.

    Args:
        name: of the tool, in logs and for the audit; by default the function's.
        audit: takes an event for every answer.
        bounds: how much an answer may hold; a larger one is answered with LIMIT_EXCEEDED.

    Raises:
        ConfigurationError: `audit` is a coroutine function.
    """
    require_plain_function(audit)
    called = name or name_of(tool)

    def fail(error: Exception) -> Response:
        return failed(error_of(error, called))

    def answer(outcome: Outcome) -> Response:
        response = _safely(outcome, partial(response_of, tool=called, bounds=bounds), fail)
        event = partial(event_of, tool=called, envelope="response", seconds=outcome.seconds)
        return _recorded(response, event, audit, fail)

    return answered(tool, answer)


@overload
def wrap_dual_mode(
    tool: Callable[Parameters, Awaitable[Any]],
    *,
    operation: str | None = None,
    shown: DisplayType = "markdown",
    audit: AnswerAudit | None = None,
    bounds: Bounds = BOUNDS,
) -> Callable[Parameters, Awaitable[DualModeAnswer]]: ...
@overload
def wrap_dual_mode(
    tool: Callable[Parameters, Any],
    *,
    operation: str | None = None,
    shown: DisplayType = "markdown",
    audit: AnswerAudit | None = None,
    bounds: Bounds = BOUNDS,
) -> Callable[Parameters, DualModeAnswer]: ...
def wrap_dual_mode(
    tool: Tool,
    *,
    operation: str | None = None,
    shown: DisplayType = "markdown",
    audit: AnswerAudit | None = None,
    bounds: Bounds = BOUNDS,
) -> Tool:
    """The tool, answering with a DualModeAnswer; in all else as wrap_tool_response.

    A tool that knows more, such as `cached`, returns what create_dual_mode_response made, which stays.

    Args:
        operation: the tool's name in `metadata`, in logs and for the audit; by default the function's.
        shown: how data is displayed.

    Raises:
        ConfigurationError: `audit` is a coroutine function.
    """
    require_plain_function(audit)
    called = operation or name_of(tool)

    def answer(outcome: Outcome) -> DualModeAnswer:
        def fail(error: Exception) -> DualModeAnswer:
            body = error_of(error, called)
            return dual_mode_error(body, operation=called, shown=shown, seconds=outcome.seconds)

        shape = partial(dual_mode_of, operation=called, shown=shown, seconds=outcome.seconds, bounds=bounds)
        event = partial(event_of, tool=called, envelope="dual_mode", seconds=outcome.seconds)
        return _recorded(_safely(outcome, shape, fail), event, audit, fail)

    return answered(tool, answer)


def _safely(outcome: Outcome, shape: Callable[[Any], Answer], fail: Callable[[Exception], Answer]) -> Answer:
    if outcome.error is not None:
        return fail(outcome.error)
    try:
        return shape(outcome.value)
    except Exception as error:  # noqa: BLE001 - reading a result runs code of its classes
        return fail(error)


def _recorded(
    answer: Answer,
    event: Callable[[Answer], AnswerEvent],
    audit: AnswerAudit | None,
    fail: Callable[[Exception], Answer],
) -> Answer:
    """The answer once it is remembered; an error in its place if it cannot be."""
    if audit is None:
        return answer
    try:
        audit(event(answer))
    except Exception as error:  # noqa: BLE001 - a hook is anybody's code
        return fail(error)
    return answer
