"""Constructs that some databases do not have: a text with one is refused by its name, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from dualsql.capabilities import Capabilities
from dualsql.errors import ForbiddenSQLError

_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery)


def _is_keyword(name: str, word: str) -> Callable[[Any], bool]:
    return lambda node: str(node.args.get(name) or "").upper() == word


def _reads_query(node: Any) -> bool:
    return isinstance(node.this, _QUERIES)


def _keeps_duplicates(node: Any) -> bool:
    return node.args.get("distinct") is False


def _gathers_distinct(node: Any) -> bool:
    inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
    arguments = [inner.this, *inner.expressions] if isinstance(inner, exp.Expression) else []
    return any(isinstance(one, exp.Distinct) for one in arguments)


_CONSTRUCTS: Mapping[type[Any], tuple[str, Callable[[Any], bool]]] = {
    exp.All: ("ALL of a subquery", _reads_query),
    exp.Any: ("ANY of a subquery", _reads_query),
    exp.BitwiseXor: ("XOR of bits", lambda _: True),
    exp.Cube: ("CUBE", lambda _: True),
    exp.Except: ("EXCEPT ALL", _keeps_duplicates),
    exp.Filter: ("FILTER", lambda _: True),
    exp.GroupingSets: ("GROUPING SETS", lambda _: True),
    exp.IntDiv: ("DIV", lambda _: True),
    exp.Intersect: ("INTERSECT ALL", _keeps_duplicates),
    exp.Join: ("FULL JOIN", _is_keyword("side", "FULL")),
    exp.Lateral: ("LATERAL", _reads_query),
    exp.Rollup: ("ROLLUP (x)", lambda node: bool(node.expressions)),
    exp.Window: ("DISTINCT with OVER", _gathers_distinct),
    exp.WindowSpec: ("GROUPS in a window", _is_keyword("kind", "GROUPS")),
}
"""By node: the name of a construct, and whether the node is one."""

NAMES = frozenset(name for name, _ in _CONSTRUCTS.values())


def require_constructs(query: exp.Expression, capabilities: Capabilities) -> None:
    """Refuse a text with a construct that the database lacks.

    Raises:
        ForbiddenSQLError: it has one; the hint says what to write instead.
    """
    lacks = capabilities.text.lacks
    for node in query.walk() if lacks else ():
        name, is_one = _CONSTRUCTS.get(type(node), ("", bool))
        if name in lacks and is_one(node):
            raise ForbiddenSQLError(f"{capabilities.name} has no {name}.", hint=lacks[name])
