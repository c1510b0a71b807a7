"""Wraps tools so that they answer in an envelope, and audits their answers.

The audit hook runs before the answer is returned. If it fails, the answer is replaced by an error, so that no answer
is missing from the audit."""

from __future__ import annotations

import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial, wraps
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

from dualsql.envelope.displays import DisplayType
from dualsql.envelope.responses import dual_mode_error, error_of
from dualsql.envelope.shapes import DualModeAnswer, Response
from dualsql.envelope.shaping import dual_mode_of, error_response, response_of
from dualsql.envelope.validation import DUAL_MODE_SCHEMA, RESPONSE_SCHEMA, validate_response
from dualsql.envelope.values import BOUNDS, Bounds
from dualsql.errors import ConfigurationError, refuse_unknown

Returned = TypeVar("Returned")
Tool = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The return value of a tool, or its exception."""

    value: Any = None
    error: Exception | None = None
    seconds: float


def wrap_tool(tool: Tool, answer: Callable[[Outcome], Returned], schema: Mapping[str, Any]) -> Tool:
    """A tool with the parameters of `tool`, plain or async as it is, that returns `answer` of each outcome.

    Its return annotation has the JSON Schema `schema`: SDKs publish and enforce a schema made of the annotation, and
    that of `tool` describes its data and not the envelope.
    """
    call = _plain(tool, answer, _argument_names(tool))
    return _annotate(_async(call) if is_async(tool) else call, tool, _type_with(schema))


def is_async(tool: Tool) -> bool:
    """Whether calling it gives a coroutine; also of an object with an async `__call__`."""
    return inspect.iscoroutinefunction(tool) or inspect.iscoroutinefunction(type(tool).__call__)


def name_of(tool: Tool) -> str:
    """The default name of a tool."""
    return str(getattr(tool, "__name__", type(tool).__name__))


def _plain(tool: Tool, answer: Callable[[Outcome], Returned], names: Collection[str] | None) -> Tool:
    @wraps(tool)
    def call(*args: Any, **kwargs: Any) -> Returned | Awaitable[Returned]:
        start = time.perf_counter()
        try:
            _refuse_unknown(kwargs, names)
            value = tool(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises has an answer
            return answer(_outcome(start, error=error))
        if inspect.isawaitable(value):  # a plain function that hands on another's coroutine
            return _answer_later(value, start, answer)
        return answer(_outcome(start, value=value))

    return call


def _async(call: Tool) -> Tool:
    @wraps(call)
    async def call_async(*args: Any, **kwargs: Any) -> Returned:
        returned = call(*args, **kwargs)
        answer: Returned = await returned if inspect.isawaitable(returned) else returned
        return answer

    return call_async


def _argument_names(tool: Tool) -> Collection[str] | None:
    """The names of its arguments; None where it takes any, or does not say."""
    try:
        parameters = inspect.signature(tool).parameters
    except (TypeError, ValueError):  # written in C, and says nothing of its parameters
        return None
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return None if takes_any else [*parameters]


def _refuse_unknown(arguments: Collection[str], names: Collection[str] | None) -> None:
    if names is not None:
        refuse_unknown(arguments, names, "argument")


async def _answer_later(
    pending: Awaitable[Any], start: float, answer: Callable[[Outcome], Returned]
) -> Returned:
    try:
        value = await pending
    except Exception as error:  # noqa: BLE001 - whatever a tool raises has an answer
        return answer(_outcome(start, error=error))
    return answer(_outcome(start, value=value))


def _outcome(start: float, *, value: Any = None, error: Exception | None = None) -> Outcome:
    return Outcome(value=value, error=error, seconds=time.perf_counter() - start)


def _type_with(schema: Mapping[str, Any]) -> type:
    """A type with this JSON Schema, whose values are the answers as they are.

    Both SDKs publish the schema of a return annotation; the official one takes it of a pydantic model only.
    """
    from pydantic import (  # imported late: an application without tools needs none of it
        RootModel,
        model_serializer,
    )

    class Answered(RootModel[dict[str, Any]]):
        @model_serializer(mode="plain")
        def _as_it_is(self) -> Any:
            answer: Any = self  # fastmcp hands over the answer itself
            return answer.root if isinstance(answer, RootModel) else answer

        @classmethod
        def __get_pydantic_json_schema__(cls, *_: Any) -> dict[str, Any]:
            return dict(schema)

    return Answered


def _annotate(call: Tool, tool: Tool, return_type: type) -> Tool:
    try:
        signature = _signature(tool)
    except (TypeError, ValueError):  # written in C, and says nothing of its parameters
        return call
    parameters = signature.parameters.values()
    annotations = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
    call.__annotations__ = {**annotations, "return": return_type}
    call.__signature__ = signature.replace(return_annotation=return_type)  # type: ignore[attr-defined]
    return call


def _signature(tool: Tool) -> inspect.Signature:
    try:
        # Resolved here, because names in annotations mean what they mean in the tool's own module.
        return inspect.signature(tool, eval_str=True)
    except Exception:  # noqa: BLE001 - annotations are anybody's code, often for type checkers only
        return inspect.signature(tool)


_MOST_TYPES = 20
_LONGEST_WORD = 40
_INCIDENT = re.compile(r"[0-9a-f]{16}")

AnswerEnvelope = Literal["response", "dual_mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEvent:
    """One answer.

    Attributes:
        tool: the name it was wrapped with.
        envelope: of S12 or S8 of the specification.
        code: the code of an error.
        content_types: the kinds of its content items, at most twenty; of S8, the kind of its display.
        text_characters: of all its texts.
        data_bytes: of its data as JSON.
        seconds: how long the tool took.
        incident: the number in the log of an exception that callers do not see.
    """

    tool: str
    envelope: AnswerEnvelope
    success: bool
    code: str | None
    content_types: tuple[str, ...]
    text_characters: int
    data_bytes: int
    seconds: float
    incident: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


AnswerAudit = Callable[[AnswerEvent], None]
"""Takes every event. A plain function that does not wait: it writes to a log, a queue or a counter.

SDKs run plain tools in threads, so it is called from several at once.
"""


def require_plain_function(audit: Callable[..., None] | None) -> None:
    """Refuse a coroutine function: its events would never be written.

    Raises:
        ConfigurationError: it is one.
    """
    if audit is not None and is_async(audit):
        raise ConfigurationError(
            "The audit hook, or the report, must be a synchronous function.",
            hint="Put events into a queue, and process them elsewhere.",
        )


def event_of(
    answer: Mapping[str, Any], *, tool: str, envelope: AnswerEnvelope, seconds: float
) -> AnswerEvent:
    """The audit event of a valid answer in either envelope."""
    contents = answer["content"] if envelope == "response" else [answer.get("display") or {}]
    error = answer.get("error") or {}
    incident = error.get("details", {}).get("incident")
    return AnswerEvent(
        tool=tool,
        envelope=envelope,
        success=answer["success"],
        code=error.get("code"),
        content_types=tuple(
            item["type"][:_LONGEST_WORD] for item in contents[:_MOST_TYPES] if "type" in item
        ),
        text_characters=sum(_length(item) for item in contents),
        data_bytes=len(json.dumps(answer["data"], ensure_ascii=False).encode()) if "data" in answer else 0,
        seconds=seconds,
        incident=incident if isinstance(incident, str) and _INCIDENT.fullmatch(incident) else None,
    )


def _length(item: Mapping[str, Any]) -> int:
    text = item.get("text", item.get("content", ""))
    return len(text) if isinstance(text, str) else 0


def log_answers(event: AnswerEvent) -> None:
    """A hook that writes one line to the logger "dualsql.audit"."""
    logging.getLogger("dualsql.audit").info(
        "answer tool=%r envelope=%s success=%s code=%r content=%s text=%d data=%d seconds=%.3f incident=%s",
        event.tool,
        event.envelope,
        event.success,
        event.code,
        ",".join(event.content_types),
        event.text_characters,
        event.data_bytes,
        event.seconds,
        event.incident,
    )


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
    """Wrap a tool so that it answers with a Response: for its data, its own envelope completed, or its exception.

    dualsql's own errors keep their message and hint. For any other exception the caller gets a fixed sentence and an
    incident number; the log has the exception under that number. A cancelled call stays cancelled.

    Args:
        name: of the tool, in logs and for the audit; by default the function's.
        audit: a function that gets an event for every answer.
        bounds: how much an answer may hold; a larger one is answered with LIMIT_EXCEEDED.

    Raises:
        ConfigurationError: `audit` is a coroutine function.
    """
    require_plain_function(audit)
    tool_name = name or name_of(tool)

    def fail(error: Exception) -> Response:
        return error_response(error_of(error, tool_name))

    def answer(outcome: Outcome) -> Response:
        response = _safely(outcome, partial(response_of, tool=tool_name, bounds=bounds), fail)
        event = partial(event_of, tool=tool_name, envelope="response", seconds=outcome.seconds)
        return _record(response, event, audit, fail)

    return wrap_tool(tool, answer, RESPONSE_SCHEMA)


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
    """Wrap a tool so that it answers with a DualModeAnswer; otherwise as wrap_tool_response.

    A tool that sets more fields, such as `cached`, returns the result of create_dual_mode_response, which is kept.

    Args:
        operation: the tool's name in `metadata`, in logs and for the audit; by default the function's.
        shown: how data is displayed.

    Raises:
        ConfigurationError: `audit` is a coroutine function.
    """
    require_plain_function(audit)
    tool_name = operation or name_of(tool)

    def answer(outcome: Outcome) -> DualModeAnswer:
        def fail(error: Exception) -> DualModeAnswer:
            body = error_of(error, tool_name)
            return dual_mode_error(body, operation=tool_name, shown=shown, seconds=outcome.seconds)

        shape = partial(
            dual_mode_of, operation=tool_name, shown=shown, seconds=outcome.seconds, bounds=bounds
        )
        event = partial(event_of, tool=tool_name, envelope="dual_mode", seconds=outcome.seconds)
        return _record(_safely(outcome, shape, fail), event, audit, fail)

    return wrap_tool(tool, answer, DUAL_MODE_SCHEMA)


def _safely(outcome: Outcome, shape: Callable[[Any], Answer], fail: Callable[[Exception], Answer]) -> Answer:
    if outcome.error is not None:
        return fail(outcome.error)
    try:
        return shape(outcome.value)
    except Exception as error:  # noqa: BLE001 - reading a result runs code of its classes
        return fail(error)


def _record(
    answer: Answer,
    event: Callable[[Answer], AnswerEvent],
    audit: AnswerAudit | None,
    fail: Callable[[Exception], Answer],
) -> Answer:
    """The answer after it was audited; an error if the audit failed."""
    if audit is None:
        return answer
    try:
        audit(event(answer))
    except Exception as error:  # noqa: BLE001 - a hook is anybody's code
        return fail(error)
    return answer


Check = Callable[[object], list[str]]
"""Returns the faults of an answer, a sentence each: `validate_response` or `validate_dual_mode`."""

FaultReport = Callable[[str, Sequence[str]], None]
"""Takes the name of a tool, or of a part of an application, and the faults of one answer.

A plain function that does not wait, and may be called from several threads at once.
"""


def log_faults(name: str, faults: Sequence[str]) -> None:
    """A report that writes one line to the logger "dualsql.audit". They name keys and types, and no values."""
    logging.getLogger("dualsql.audit").warning("faults tool=%r: %r", name, " ".join(faults))


def watch_tool(
    tool: Callable[Parameters, Returned],
    *,
    name: str | None = None,
    check: Check = validate_response,
    report: FaultReport = log_faults,
) -> Callable[Parameters, Returned]:
    """Report the faults of a tool's answers, and change nothing: to see what a tool would need before it is wrapped.

    The answer is the object that the tool returned, and an exception is the tool's own; it is reported as a fault by
    the name of its class. If `check` or `report` fails, the log says so, and the answer stays.

    Args:
        name: of the tool; by default the function's.
        check: returns the faults of an answer; `validate_dual_mode` for answers of specification S8.
        report: is called with each answer that has faults.

    Raises:
        ConfigurationError: `report` is a coroutine function.
    """
    require_plain_function(report)
    watch = partial(report_faults, name or name_of(tool), check=check, report=report)

    async def wait(pending: Awaitable[Any]) -> Any:
        with _watching(watch):
            answer = await pending
        watch(answer)
        return answer

    @wraps(tool)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return await wait(cast("Awaitable[Any]", tool(*args, **kwargs)))

    @wraps(tool)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _watching(watch):
            answer = tool(*args, **kwargs)
        if inspect.isawaitable(answer):
            return wait(answer)
        watch(answer)
        return answer

    return cast("Callable[Parameters, Returned]", call_async if is_async(tool) else call)


@contextmanager
def _watching(watch: Callable[..., None]) -> Iterator[None]:
    """Report an exception of the block, and pass it on."""
    try:
        yield
    except Exception as error:
        raised = f"The tool raised {type(error).__name__}."
        watch(None, check=lambda _: [raised])
        raise


def report_faults(name: str, answer: object, *, check: Check, report: FaultReport) -> None:
    """Report the faults of an answer, if there are any. Whatever goes wrong with that is logged."""
    try:
        faults = check(answer)
        if faults:
            report(name, faults)
    except Exception:
        logging.getLogger("dualsql.audit").exception(
            "The answer of %r could not be checked or reported.", name
        )
