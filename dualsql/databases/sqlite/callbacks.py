"""The functions that SQLite calls back into Python. Each takes time linear in its arguments, and of a bounded length.

While such a function runs, no time limit of SQLite's ends the statement. Regular expressions therefore run in RE2,
whose time is linear; see `patterns`, which is loaded for the first pattern.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from dualsql.errors import ConfigurationError

LARGEST_VALUE = 64 * 1024 * 1024
"""Bytes of one value that SQLite makes or reads."""

MATCH = "dualsql_match"
"""The name of the function: `regexp` is SQLAlchemy's, on a connection that an application made."""


def require_pattern(pattern: str | None) -> None:
    """See `Capabilities.require_pattern`.

    Raises:
        ConfigurationError: the extra `regexp` is not installed.
        PatternError: it cannot run.
    """
    if find_spec("re2") is None:
        raise ConfigurationError(
            "Regular expressions on SQLite need an engine of linear time.",
            hint='Install it: pip install "dualsql[regexp]". Or write LIKE or GLOB.',
        )
    if pattern is not None:
        from dualsql.databases.sqlite.patterns import program_of

        program_of(pattern, is_ascii=False)


def _match(pattern: Any, text: Any) -> bool | None:
    return None if pattern is None or text is None else _matcher()(pattern, text)


@cache
def _matcher() -> Callable[[Any, Any], bool]:
    from dualsql.databases.sqlite.patterns import match

    return match


def _floor(number: Any) -> Any:
    """SQLAlchemy's own floor(), for numbers; an infinity is its own, as in SQLite's."""
    return number if number in (None, math.inf, -math.inf) else math.floor(number)


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    MATCH: (2, _match),
    "regexp": (2, _match),
    "floor": (1, _floor),
}
"""All functions in Python of a connection: name -> number of arguments, and the function. The last two replace
SQLAlchemy's own."""
