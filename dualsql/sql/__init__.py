"""Translates a SQL text into a Select. The Select contains no text of the caller.

sqlglot parses the text, and its tree is translated node by node into SQLAlchemy's constructs. A node without a
translation is refused, so safety does not depend on a list of forbidden constructs. Tables and columns come from the
registry, functions from an allow-list, and values become bound parameters. The Select is then stored, restricted by
rules, paged and counted like one that an engineer wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dualsql.packages import extra

if TYPE_CHECKING:
    from dualsql.sql.translate import read_select

__all__ = ["read_select"]


def __getattr__(name: str) -> Any:
    # The parser is imported on first use, so that a server starts and lists its tools without it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra("sql"):
        from dualsql.sql.translate import read_select
    return read_select
