"""The size of a statement after names are expanded, which databases do before they run it.

A short text can expand to a large statement: `x BETWEEN a AND b` becomes `x >= a AND x <= b`, a CTE that is read twice
is planned twice, and `x + x` over a subquery is merged with that subquery. Forty nested ones are 2 ** 40 expressions.
Planners do not check their time limit while they expand: DuckDB used 20 GiB in the server's process until the operating
system killed it.
"""

from __future__ import annotations

from itertools import zip_longest
from math import prod
from typing import Any

from sqlalchemy import Case, ColumnElement, CompoundSelect, Label, Select, TableClause
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BinaryExpression, ClauseList
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import AliasedReturnsRows, Join

from dualsql.sql.scope import invalid

MAXIMUM_EXPANSION = 10_000
"""The 400 queries of the tests have at most 540 elements. DuckDB and PostgreSQL plan this maximum in 0.3 s."""

_COPYING = frozenset({operators.between_op, operators.not_between_op})
_LISTS = frozenset({operators.in_op, operators.not_in_op})
_GROUPINGS = frozenset({"rollup", "cube", "grouping_sets"})


def require_bounded(statement: Any) -> None:
    """Refuse a statement that expands to more than MAXIMUM_EXPANSION elements."""
    size = Expansion().of(statement)
    if size > MAXIMUM_EXPANSION:
        invalid(
            "The SQL grows too large when its names are written out.",
            hint="Read each WITH query and each computed column fewer times; nest BETWEEN, CASE and IN less deeply.",
        )


class Expansion:
    """Counts the elements of a statement after expansion. Each element is walked once and its size is reused."""

    def __init__(self) -> None:
        # By the ids of elements. The elements are kept alive, so that the ids stay unique.
        self._sizes: dict[int, tuple[Any, int]] = {}
        self._sources: dict[int, dict[Any, list[Any]]] = {}

    def of(self, element: Any) -> int:
        """The number of elements that `element` expands to. A recursive reference counts as one."""
        entry = self._sizes.get(id(element))
        if entry is None:
            self._sizes[id(element)] = element, 1
            entry = self._sizes[id(element)] = element, self._count(element)
        return entry[1]

    def _count(self, element: Any) -> int:
        if isinstance(element, TableClause):
            return 1
        table = getattr(element, "table", None)
        if isinstance(table, AliasedReturnsRows) and isinstance(element, ColumnElement):
            return 1 + sum(map(self.of, self.sources_of(table).get(element, ())))
        copied, times = _repeated_part(element)
        parts = _parts(element)
        size = 1 + sum(map(self.of, parts))
        if isinstance(element, Select):
            return size * prod(map(_sets, parts))
        return size if copied is None else size + (times - 1) * self.of(copied)

    def sources_of(self, table: AliasedReturnsRows) -> dict[Any, list[Any]]:
        """The expressions behind each column of a subquery, a CTE or an alias."""
        if id(table) not in self._sources:
            rows: Any = table.element
            selects = rows.selects if isinstance(rows, CompoundSelect) else [rows]
            columns = [list(getattr(one, "selected_columns", getattr(one, "c", ()))) for one in selects]
            stacked = zip(table.c, zip_longest(*columns), strict=False)
            self._sources[id(table)] = {
                column: [meaning for meaning in meant if meaning is not None] for column, meant in stacked
            }
        return self._sources[id(table)]


def _parts(element: Any) -> list[Any]:
    """The parts of `element`, without repetitions: a SELECT lists the tables of its joins and the joins themselves."""
    if isinstance(element, AliasedReturnsRows):
        return [element.element]
    parts = list(element.get_children())
    if isinstance(element, Join):  # the enclosing SELECT walks both sides
        return parts
    joins, waiting = set(), [part for part in parts if isinstance(part, Join)]
    while waiting:
        sides = waiting.pop()
        for side in (sides.left, sides.right):
            joins.add(id(side))
            waiting += [side] if isinstance(side, Join) else []
    return [part for part in parts if id(part) not in joins]


def _repeated_part(element: Any) -> tuple[Any, int]:
    """The part of `element` that databases repeat, and how often."""
    if isinstance(element, BinaryExpression) and element.operator in _COPYING:
        return element.left, 2
    if isinstance(element, BinaryExpression) and element.operator in _LISTS:
        return element.left, 1 + len(getattr(getattr(element.right, "element", None), "clauses", ()))
    if isinstance(element, Case) and element.value is not None:
        return element.value, len(element.whens)
    if isinstance(element, FunctionElement) and element.name == "nullif":
        return next(iter(element.clauses), None), 2
    return None, 1


def _sets(part: Any) -> int:
    """The number of grouping sets in `part` of a SELECT. The numbers of several parts are multiplied."""
    if isinstance(part, Label):
        return _sets(part.element)
    if isinstance(part, ClauseList):
        return prod(map(_sets, part.clauses))
    if not isinstance(part, FunctionElement) or part.name not in _GROUPINGS:
        return 1
    keys = list(part.clauses)
    if part.name == "grouping_sets":
        return sum(map(_sets, keys))
    return 1 + len(keys) if part.name == "rollup" else 2 ** len(keys)
