"""Loader options around a Select; the rule: a criterion is never lost, and no option changes the columns.

SQLAlchemy reads options of the outermost statement only: a with_loader_criteria() would be silently gone once
its Select stands in a subquery. joinedload() and load_only() would make rows that are not `selected_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dualsql.errors import NotFreezableError
from dualsql.statement import AnySelect


def require_plain_columns(statement: Any) -> None:
    """Refuse what would make other columns than those that the statement selects.

    Raises:
        NotFreezableError: a loader option or a Bundle among the columns.
    """
    if any(not option._is_criteria_option for option in getattr(statement, "_with_options", ())):
        raise NotFreezableError(
            "A loader option changes the columns: rows here are columns, not objects.",
            hint="Leave .options(...) out; name the columns in select(), and join() what they come from.",
        )
    if any("bundle" in getattr(c, "_annotations", ()) for c in getattr(statement, "_raw_columns", ())):
        raise NotFreezableError(
            "A Bundle is no column: rows here are columns, not objects.",
            hint="Select the columns of the Bundle themselves.",
        )


def with_criteria_of(inner: Any, outer: AnySelect) -> AnySelect:
    """`outer` with the criteria of the statement that stands in it as a subquery."""
    criteria = list(_criteria(inner))
    return outer.options(*criteria) if criteria else outer


def _criteria(statement: Any) -> Iterator[Any]:
    for part in (statement, *getattr(statement, "_memoized_select_entities", ())):
        yield from (option for option in getattr(part, "_with_options", ()) if option._is_criteria_option)
