"""The functions that SQLite calls back into Python. Each takes time linear in its arguments, and of a bounded length.

While such a function runs, no time limit of SQLite's ends the statement. Regular expressions therefore run in RE2,
whose time is linear; see `patterns`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dualsql.capabilities import PatternError
from dualsql.errors import ConfigurationError

if TYPE_CHECKING:
    from dualsql.databases.sqlite.patterns import RegularExpression

LONGEST_TEXT = 1_000_000
"""Characters of a text in which a pattern is looked for."""

_MOST_WORK = 2**20
"""Bytes of the text times places of the pattern. If RE2 gives up its automaton, each takes up to 10 ns, and the
automaton 10 ms before. Python's lock is free meanwhile."""

_FEW_PLACES = 8
"""An automaton of so few has few states, and RE2 reads 1 MB in 5 ms."""

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
        _program(pattern, is_ascii=False)


def match(pattern: Any, text: Any) -> bool | None:
    """Whether the pattern is found in the text, as `re.search` finds it."""
    if pattern is None or text is None:
        return None
    if not isinstance(pattern, str) or not isinstance(text, str):
        raise PatternError("The pattern or the value is not a text.")
    if len(text) > LONGEST_TEXT:
        raise PatternError("The text is too long.")
    data = text.encode()
    program = _program(pattern, is_ascii=len(data) == len(text))
    if program.places > _FEW_PLACES and len(data) * program.places > _MOST_WORK:
        raise PatternError("The pattern is too large for so long a text.")
    return program.finds(data)


def floor(number: Any) -> Any:
    """SQLAlchemy's own floor(), for numbers; an infinity is its own, as in SQLite's."""
    return number if number is None or number in _INFINITE else math.floor(number)


_INFINITE = (math.inf, -math.inf)


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    MATCH: (2, match),
    "regexp": (2, match),
    "floor": (1, floor),
}
"""All functions in Python of a connection: name -> number of arguments, and the function. The last two replace
SQLAlchemy's own."""


@lru_cache(maxsize=64)
def _program(pattern: str, *, is_ascii: bool) -> RegularExpression:
    from dualsql.databases.sqlite.patterns import program_of  # for the first pattern: most servers have none

    return program_of(pattern, is_ascii=is_ascii)
