"""Call a tool, plain or async, and answer whatever comes of it; the rule: a cancelled call stays cancelled."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from dualsql.suggesting import refuse_unknown

Returned = TypeVar("Returned")
Tool = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a tool returned, or what it raised."""

    value: Any = None
    error: Exception | None = None
    seconds: float


def answered(tool: Tool, answer: Callable[[Outcome], Returned]) -> Tool:
    """A tool with the parameters of `tool`, plain or async as it is, that returns `answer` of each outcome.

    Its return annotation is `dict[str, Any]`: SDKs publish and enforce a schema made of the annotation, and that of
    `tool` describes its data and not the envelope.
    """
    wrapped = _async if is_async(tool) else _plain
    return _annotated(wrapped(tool, answer, _known(tool)), tool)


def is_async(tool: Tool) -> bool:
    """Whether calling it gives a coroutine; also of an object with an async `__call__`."""
    return inspect.iscoroutinefunction(tool) or inspect.iscoroutinefunction(type(tool).__call__)


def name_of(tool: Tool) -> str:
    """What a tool is called where nobody named it."""
    return str(getattr(tool, "__name__", type(tool).__name__))


def _plain(tool: Tool, answer: Callable[[Outcome], Returned], known: Collection[str] | None) -> Tool:
    @wraps(tool)
    def call(*args: Any, **kwargs: Any) -> Returned | Awaitable[Returned]:
        start = time.perf_counter()
        try:
            _refuse_unknown(kwargs, known)
            value = tool(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises has an answer
            return answer(_outcome(start, error=error))
        if inspect.isawaitable(value):  # a plain function that hands on another's coroutine
            return _awaited(value, start, answer)
        return answer(_outcome(start, value=value))

    return call


def _async(tool: Tool, answer: Callable[[Outcome], Returned], known: Collection[str] | None) -> Tool:
    @wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> Returned:
        start = time.perf_counter()
        try:
            _refuse_unknown(kwargs, known)
            pending = tool(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - wrong arguments raise before there is a coroutine
            return answer(_outcome(start, error=error))
        return await _awaited(pending, start, answer)

    return call


def _known(tool: Tool) -> Collection[str] | None:
    """The names of its arguments; None where it takes any, or does not say."""
    try:
        parameters = inspect.signature(tool).parameters
    except (TypeError, ValueError):  # written in C, and says nothing of its parameters
        return None
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return None if takes_any else [*parameters]


def _refuse_unknown(given: Collection[str], known: Collection[str] | None) -> None:
    if known is not None:
        refuse_unknown(given, known, "argument")


async def _awaited(pending: Awaitable[Any], start: float, answer: Callable[[Outcome], Returned]) -> Returned:
    try:
        value = await pending
    except Exception as error:  # noqa: BLE001 - whatever a tool raises has an answer
        return answer(_outcome(start, error=error))
    return answer(_outcome(start, value=value))


def _outcome(start: float, *, value: Any = None, error: Exception | None = None) -> Outcome:
    return Outcome(value=value, error=error, seconds=time.perf_counter() - start)


def _annotated(call: Tool, tool: Tool) -> Tool:
    try:
        signature = _signature(tool)
    except (TypeError, ValueError):  # written in C, and says nothing of its parameters
        return call
    parameters = signature.parameters.values()
    annotations = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
    call.__annotations__ = {**annotations, "return": dict[str, Any]}
    call.__signature__ = signature.replace(return_annotation=dict[str, Any])  # type: ignore[attr-defined]
    return call


def _signature(tool: Tool) -> inspect.Signature:
    try:
        # Resolved here, because names in annotations mean what they mean in the tool's own module.
        return inspect.signature(tool, eval_str=True)
    except Exception:  # noqa: BLE001 - annotations are anybody's code, often for type checkers only
        return inspect.signature(tool)
