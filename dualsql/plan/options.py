"""Criteria around a Select, which must not be lost.

SQLAlchemy reads options of the outermost statement only: a with_loader_criteria() would be silently gone once
its Select stands in a subquery. All other options are gone by then (`dualsql.plan.entities`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dualsql.statement import AnySelect


def with_criteria_of(inner: Any, outer: AnySelect) -> AnySelect:
    """`outer` with the criteria of the statement that stands in it as a subquery."""
    criteria = list(_criteria(inner))
    return outer.options(*criteria) if criteria else outer


def _criteria(statement: Any) -> Iterator[Any]:
    for part in (statement, *getattr(statement, "_memoized_select_entities", ())):
        yield from (option for option in getattr(part, "_with_options", ()) if option._is_criteria_option)
