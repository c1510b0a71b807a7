"""How many rows a planner expects, read out of its plan; the rule: where a plan does not say, neither do we."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple


class Planner(NamedTuple):
    """A planner that can be asked.

    Attributes:
        explain: goes before a statement to ask for its plan, as JSON.
        rows: how many there are going to be, by that plan; None where it does not say.
    """

    explain: str
    rows: Callable[[Any], int | None]


# How many groups, distinct rows or rows of a set operation there are, statistics hardly tell: PostgreSQL expected
# 400,000 rows of a UNION that has 10, and 200,000 of a DISTINCT that has 7.
_MERGING = frozenset({"Aggregate", "Group", "Unique", "SetOp", "Recursive Union"})
_ASIDE = frozenset({"InitPlan", "SubPlan"})


def _postgresql_rows(plan: Any) -> int | None:
    """Of EXPLAIN (FORMAT JSON): `[{"Plan": {"Plan Rows": 12000, ...}}]`; None where rows are merged."""
    try:
        top = plan[0]["Plan"]
        return None if _merges(top) else int(top["Plan Rows"])
    except (LookupError, TypeError, ValueError):
        return None


def _merges(node: dict[str, Any]) -> bool:
    """Whether the plan makes one row of several, other than one of all."""
    if node["Node Type"] in _MERGING and node.get("Strategy") != "Plain":
        return True
    return any(
        _merges(part) for part in node.get("Plans", ()) if part.get("Parent Relationship") not in _ASIDE
    )


# What passes on as many rows as it gets: sorting, and reading a derived table again.
_PASSING = ("read_sorted_file", "filesort", "temporary_table")
_DRIVING = ("table", "read_sorted_file", "block-nl-join")


def _mariadb_rows(plan: Any) -> int | None:
    """Of EXPLAIN FORMAT=JSON: a join is as many rows as its tables' rows, each in the share that passes its filter.

    Grouping, DISTINCT and set operations are not estimated there.
    """
    try:
        rows = _joined_rows(plan["query_block"])
    except (LookupError, TypeError, ValueError):
        return None
    return None if rows is None else round(rows)


def _joined_rows(block: dict[str, Any]) -> float | None:
    joined = block.get("nested_loop")
    if joined is None:
        return None
    return prod(_table_rows(part) for part in joined)


def _table_rows(part: dict[str, Any]) -> float:
    found: Any = part
    while "table_name" not in found:
        found = next(found[name] for name in (*_DRIVING, *_PASSING) if name in found)
    if "materialized" in found:
        raise LookupError("a subquery that merges or cuts rows, whose number is a guess")
    return float(found["rows"]) * float(found.get("filtered", 100)) / 100


POSTGRESQL_PLANNER = Planner("EXPLAIN (FORMAT JSON) ", _postgresql_rows)
MARIADB_PLANNER = Planner("EXPLAIN FORMAT=JSON ", _mariadb_rows)
