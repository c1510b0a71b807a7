"""The left side of the first join, as SQLAlchemy would choose it, so that no further column or condition changes it.

Loaded with the first Select that has join() and no select_from().
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import FromClause
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import PropComparator

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze.document import AnySelect


def with_left_side(select: AnySelect) -> AnySelect:
    """The Select, which has a join(), with the left side of the first one in FROM, if SQLAlchemy would guess it.

    All later joins have their left side in FROM already.
    """
    joining = next(
        part for part in (*internals.earlier_selects(select), select) if internals.setup_joins(part)
    )
    target, condition, left, _ = internals.setup_joins(joining)[0]
    # A relationship has a left side, too.
    if left is not None or any(isinstance(one, PropComparator) for one in (target, condition)):
        return select
    selecting = internals.copy_with(select, raw_columns=internals.raw_columns(joining))
    conditions = internals.where_criteria(select)
    compared = [source for condition in conditions for source in internals.from_objects(condition)]
    sources = _sources([*selecting.columns_clause_froms, *compared])
    targets = _sources(
        target for target, *_ in internals.setup_joins(joining) if isinstance(target, FromClause)
    )
    lefts = [source for key, source in sources.items() if key not in targets]
    if len(lefts) == 1:
        return select.select_from(lefts[0])
    # Of several candidates, the right one leaves the SQL unchanged.
    sql = _sql_of(select)
    candidates = (select.select_from(source) for source in sources.values())
    return next((each for each in candidates if sql is not None and _sql_of(each) == sql), select)


def _sources(sources: Iterable[Any]) -> dict[Any, Any]:
    """The sources by themselves without SQLAlchemy's annotations, each once."""
    return {internals.unannotated(source): source for source in sources}


def _sql_of(select: Any) -> str | None:
    """The SQL in the default dialect; None if SQLAlchemy cannot compile it."""
    try:
        return str(select)
    except (SQLAlchemyError, AttributeError):
        return None
