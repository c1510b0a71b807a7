"""Keyword arguments of public functions: an unknown name is a TypeError that names the nearest known one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from typing_extensions import is_typeddict

F = TypeVar("F", bound=Callable[..., Any])

_COMPARED = 80
"""Characters of a name: difflib's time grows with the product of the lengths."""

_LEFT_OUT = type("LeftOut", (), {"__repr__": lambda _: "..."})()

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def checked_keywords(options: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """A decorator: the function raises TypeError for a keyword argument that it has not.

    Python's own TypeError names no near name before 3.13, and `**options` of a TypedDict refuse nothing.

    Args:
        options: what the `**options` of the function are: a TypedDict, or a callable. Its parameters that have a
            default take the place of `**options` in the signature, so that help() shows them.
    """

    def decorated(function: F) -> F:
        signature = _signature(function, options)
        known = [each.name for each in signature.parameters.values() if each.kind in _BY_NAME]
        name = function.__qualname__

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            refuse_unknown_keywords(name, keywords, known)
            return function(*args, **keywords)

        @wraps(function)
        async def call_async(*args: Any, **keywords: Any) -> Any:
            refuse_unknown_keywords(name, keywords, known)
            return await function(*args, **keywords)

        checked: Any = call_async if inspect.iscoroutinefunction(function) else call
        checked.__signature__ = signature
        return checked  # type: ignore[no-any-return]

    return decorated


def refuse_unknown_keywords(function: str, given: Collection[str], known: Collection[str]) -> None:
    """Raises TypeError for the first name that is not known."""
    for name in given:
        if name not in known:
            raise TypeError(f"{function}() has no argument {name[:_COMPARED]!r}. {_hint(name, known)}")


def _hint(name: str, known: Collection[str]) -> str:
    names = [each for each in known if each != "self"]
    close = get_close_matches(name[:_COMPARED], names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"It has: {', '.join(names)}."


def _signature(function: Callable[..., Any], options: Callable[..., Any] | None) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if options is None:
        return signature
    own = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    names = {each.name for each in own}
    return signature.replace(
        parameters=[*own, *(each for each in _options(options) if each.name not in names)]
    )


def _options(options: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of `options` that have a default, keyword-only; `...` stands for a key that may be left out."""
    if is_typeddict(options):
        return [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_LEFT_OUT,
                annotation=getattr(kind, "__forward_arg__", kind),
            )
            for name, kind in options.__annotations__.items()
        ]
    found = inspect.signature(options).parameters.values()
    named = [each for each in found if each.kind in _BY_NAME and each.default is not inspect.Parameter.empty]
    return [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in named]
