"""See whether SQL text orders or limits its rows; the rule: when in doubt, say yes."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
      --[^\n]*                              # comment to the end of the line
    | /\*.*?(?:\*/|\Z)                      # comment in stars
    | '(?:[^']|'')*(?:'|\Z)                 # string
    | "(?:[^"]|"")*(?:"|\Z)                 # quoted name
    | `(?:[^`]|``)*(?:`|\Z)                 # quoted name, MariaDB
    | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)  # dollar-quoted string, PostgreSQL
    | (?P<word>[A-Za-z_]\w*)
    | (?P<bracket>[()])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLAUSES = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})


def has_outer_order(sql: str) -> bool:
    """Whether ORDER BY, LIMIT, OFFSET or FETCH stands outside all parentheses, strings and comments."""
    depth = 0
    for token in _TOKEN.finditer(sql):
        bracket = token["bracket"]
        if bracket:
            depth += 1 if bracket == "(" else -1
        elif token["word"] and depth <= 0 and token["word"].upper() in _CLAUSES:
            return True
    return False
