"""SQL text in, a Select out. No text of the caller's survives, each part is made anew of what is registered.

A parser's tree is walked node by node. What has a translation into SQLAlchemy's constructs is translated, whatever
has none is refused: there is no list of bad things to be incomplete. Tables and columns are those of the registry,
functions those of an allow-list, values become bound parameters. The Select is then stored, narrowed, paged and
counted as one that an engineer wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dualsql.errors import extra

if TYPE_CHECKING:
    from dualsql.sql.translate import read_select

__all__ = ["read_select"]


def __getattr__(name: str) -> Any:
    # On first use: a server is made, and answers about its tools, without the parser.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra("sql"):
        from dualsql.sql.translate import read_select
    return read_select
