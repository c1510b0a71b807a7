"""A function with the signature of another one; the rule: an SDK reads names, types and defaults from it alone."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from dualsql.errors import ConfigurationError

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of `function`, their annotations evaluated.

    Raises:
        ConfigurationError: they cannot be given by name, or their annotations not be read.
    """
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, ValueError, TypeError) as error:
        raise ConfigurationError(
            "The signature of the tool's function cannot be read.",
            hint="What its annotations name must be found in its module at run time, not under TYPE_CHECKING alone.",
        ) from error
    for parameter in parameters:
        if parameter.kind not in _BY_NAME:
            raise ConfigurationError(
                f"MCP gives arguments by name, which {parameter.name!r} cannot take.",
                hint="Use plain parameters: no *args, no **kwargs, none that is positional only.",
            )
    return parameters


def shaped(
    run: Callable[..., Awaitable[Any]],
    function: Callable[..., Any],
    name: str,
    parameters: Sequence[inspect.Parameter],
    returns: Any,
) -> Callable[..., Awaitable[Any]]:
    """A coroutine function that calls `run`, with the documentation of `function` and the signature given."""

    async def tool(**arguments: Any) -> Any:
        return await run(**arguments)

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = function.__doc__
    tool.__module__ = getattr(function, "__module__", None) or __name__
    # Of the parameters that have none, SDKs make what they like.
    annotated = {p.name: p.annotation for p in parameters if p.annotation is not inspect.Parameter.empty}
    tool.__annotations__ = {**annotated, "return": returns}
    vars(tool)["__signature__"] = inspect.Signature(parameters, return_annotation=returns)
    return tool
