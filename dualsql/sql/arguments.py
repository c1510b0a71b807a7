"""What a node of the tree may carry; the rule: what its handler does not ask for is refused, not overlooked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from dualsql.sql.refusals import forbid, shown

# What the parser notes of its own, which changes nothing of what a text means.
_NOTES = frozenset({"_type", "big_int", "typed", "safe", "nested", "value_constructor", "materialized"})


def only(node: exp.Expression, *names: str) -> Mapping[str, Any]:
    """The arguments of `node`, once it has none but `names`."""
    for name, value in node.args.items():
        if value and name not in names and name not in _NOTES:
            words = name.rstrip("_").replace("_", " ").upper()
            forbid(f"{words} in {shown(node)}")
    return node.args
