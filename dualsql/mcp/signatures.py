"""A function with the signature of another one; the rule: an SDK reads names, types and defaults from it alone."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from dualsql.errors import ConfigurationError, UnauthenticatedError
from dualsql.resource import Principal

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of `function`, its annotations evaluated.

    Raises:
        ConfigurationError: its parameters cannot be given by name, or its annotations not be read.
    """
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, ValueError, TypeError) as error:
        raise ConfigurationError(
            "The signature of the tool's function cannot be read.",
            hint="What its annotations name must be found in its module at run time, not under TYPE_CHECKING alone.",
        ) from error
    for parameter in signature.parameters.values():
        if parameter.kind not in _BY_NAME:
            raise ConfigurationError(
                f"MCP gives arguments by name, which {parameter.name!r} cannot take.",
                hint="Use plain parameters: no *args, no **kwargs, none that is positional only.",
            )
    return signature


class Callers:
    """The parameters of a function that are told who calls: those annotated `Principal`, or `Principal | None`.

    No client sees them, as none sees a Context.

    Attributes:
        others: the parameters that clients give.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters
        kinds = {name: _kinds(parameter.annotation) for name, parameter in parameters.items()}
        self._names = [
            name for name, found in kinds.items() if Principal in found and found <= {Principal, NoneType}
        ]
        self.others = [parameter for name, parameter in parameters.items() if name not in self._names]
        self._is_required = any(NoneType not in kinds[name] for name in self._names)

    def arguments(self, principal: Principal | None) -> Mapping[str, Principal | None]:
        """The arguments that no client gives.

        Raises:
            UnauthenticatedError: nobody is known to call, and the function has no word for nobody.
        """
        if principal is None and self._is_required:
            raise UnauthenticatedError("This tool answers only callers that are known.")
        return dict.fromkeys(self._names, principal)


def _kinds(annotation: Any) -> set[Any]:
    """The types that an annotation names."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*map(_kinds, get_args(annotation)))
    return {annotation if isinstance(annotation, type) else object}


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
