"""SQL text in, a Select out. No text of the caller's survives, each part is made anew of what is registered.

A parser's tree is walked node by node. What has a translation into SQLAlchemy's constructs is translated, whatever
has none is refused: there is no list of bad things to be incomplete. Tables and columns are those of the registry,
functions those of an allow-list, values become bound parameters. The Select is then stored, narrowed, paged and
counted as one that an engineer wrote.
"""

from dualsql.errors import extra

with extra("sql"):
    from dualsql.sql.translate import read_select

__all__ = ["read_select"]
