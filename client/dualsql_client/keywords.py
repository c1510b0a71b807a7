"""Keyword arguments: an unknown one is refused with the name that is most like it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from typing_extensions import is_typeddict

F = TypeVar("F", bound=Callable[..., Any])

_COMPARED = 80
"""Characters of a name: difflib's time grows with the product of the lengths."""

_OMITTED = type("Omitted", (), {"__repr__": lambda _: "..."})()

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def checked_keywords(options: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """A decorator: the function raises TypeError for an unknown keyword argument.

    Python's own TypeError suggests no similar name before 3.13, and a TypedDict of `**options` is not checked.

    Args:
        options: the TypedDict of the function's `**options`, or the callable that they are passed to. Its parameters
            with a default replace `**options` in the signature, so that help() shows them.
    """

    def decorator(function: F) -> F:
        signature = _signature(function, options)
        names = [each.name for each in signature.parameters.values() if each.kind in _BY_NAME]
        accepted = frozenset(names)

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            if not keywords.keys() <= accepted:
                refuse_unknown_keywords(_qualified_name(function, args), keywords, names)
            return function(*args, **keywords)

        @wraps(function)
        async def call_async(*args: Any, **keywords: Any) -> Any:
            if not keywords.keys() <= accepted:
                refuse_unknown_keywords(_qualified_name(function, args), keywords, names)
            return await function(*args, **keywords)

        checked: Any = call_async if inspect.iscoroutinefunction(function) else call
        checked.__signature__ = signature
        return checked  # type: ignore[no-any-return]

    return decorator


def _qualified_name(function: Callable[..., Any], args: Sequence[Any]) -> str:
    """The name that the caller sees: of a method, with the class of the object, and not the class that defines it."""
    if not args or "self" not in inspect.signature(function).parameters:
        return function.__qualname__
    kind = type(args[0]).__name__
    return kind if function.__name__ == "__init__" else f"{kind}.{function.__name__}"


def refuse_unknown_keywords(function: str, keywords: Collection[str], names: Collection[str]) -> None:
    """Raises TypeError for the first keyword that is not among the names of the arguments."""
    for keyword in keywords:
        if keyword not in names:
            raise TypeError(f"{function}() has no argument {keyword[:_COMPARED]!r}. {_hint(keyword, names)}")


def _hint(keyword: str, arguments: Collection[str]) -> str:
    names = [each for each in arguments if each != "self"]
    close = get_close_matches(keyword[:_COMPARED], names, n=1)
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
    """The parameters of `options` that have a default, keyword-only; `...` is the default of an optional key."""
    if is_typeddict(options):
        return [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_OMITTED,
                annotation=getattr(kind, "__forward_arg__", kind),
            )
            for name, kind in options.__annotations__.items()
        ]
    return [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(options).parameters.values()
        if each.kind in _BY_NAME and each.default is not inspect.Parameter.empty
    ]
