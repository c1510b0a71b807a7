"""The error for wrong arguments of a call; loaded when there is one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dualsql_client.keywords import refuse_unknown_keywords


def require_taken(
    method: Callable[..., Any],
    signature: inspect.Signature,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    elsewhere: Callable[[str], str | None] | None,
) -> None:
    """Raise the error for arguments that `signature` does not take."""
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        raise _mistake_in_call(method, signature, arguments, keywords, elsewhere) from None


def _mistake_in_call(
    method: Callable[..., Any],
    signature: inspect.Signature,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    elsewhere: Callable[[str], str | None] | None,
) -> TypeError:
    """The error for arguments that `signature` does not take; see `dualsql.settings.takes`."""
    parameters = signature.parameters
    names = [*parameters]
    required = [each for each in names[1:] if parameters[each].default is inspect.Parameter.empty]
    unnamed = [each for each in names[1:] if parameters[each].kind is not inspect.Parameter.KEYWORD_ONLY]
    owner = type(arguments[0]).__name__ if arguments else method.__qualname__.partition(".")[0]
    name = owner if method.__name__ == "__init__" else f"{owner}.{method.__name__}"
    unknown = next((each for each in keywords if each not in names), "")
    if unknown and elsewhere is not None and (place := elsewhere(unknown)) is not None:
        return TypeError(f"{name}() has no argument {unknown!r}. {place}")
    refuse_unknown_keywords(name, keywords, names)
    if len(arguments) > 1 + len(unnamed):
        others = next(each for each in [*required, *names[1:]] if each not in unnamed)
        return TypeError(
            f"Only {' and '.join(unnamed) or 'nothing'} can be given to {name}() without a name. "
            f"Name the others: {others}=..."
        )
    if doubled := [each for each in names[1 : len(arguments)] if each in keywords]:
        return TypeError(f"{name}() got {doubled[0]} twice.")
    lacking = [each for each in required if each not in keywords and each not in names[: len(arguments)]]
    example = ", ".join(f"{each}=..." for each in lacking)
    return TypeError(f"{name}() requires {', '.join(lacking)}: {name.split('.')[-1]}(..., {example})")
