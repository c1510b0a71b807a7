"""Brings a Select into the form that plans expect. Rows, order and names stay the same.

The first join gets the left side that SQLAlchemy would choose for it, so that further columns or conditions do not
change it. Different statements get different cache keys. DISTINCT and text around the columns are in `words`.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, TypeVar

from sqlalchemy import Column, FromClause, Table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import PropComparator
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.selectable import GenerativeSelect

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze.document import AnySelect
from dualsql.plan.keys import has_distinct_call


def normal_form(select: AnySelect) -> AnySelect:
    """The same Select with DISTINCT as its clause, joins that do not depend on its columns, and its own cache key.

    Raises:
        NotFreezableError: DISTINCT is in an invalid place, or text around the columns could change the rows.
    """
    select = _with_left_side(select)
    has_words = (
        internals.prefixes(select)
        or internals.suffixes(select)
        or internals.statement_hints(select)
        or any(extension is not None for extension in internals.syntax_extensions(select))
        or has_distinct_call(select)
    )
    if has_words:
        from dualsql.plan.words import without_words

        select = without_words(select)
    return with_distinct_key(select)


AnyGenerative = TypeVar("AnyGenerative", bound=GenerativeSelect)


def with_distinct_key(statement: AnyGenerative) -> AnyGenerative:
    """The statement with a cache key that distinguishes which unnamed columns of its subqueries it reads.

    In SQLAlchemy's key, all unnamed columns of a subquery look the same, so the compiled statement for one could be
    used for another.
    """
    positions = _unnamed_columns_read(statement)
    if not positions:
        return statement
    digest = sha256(repr(positions).encode()).hexdigest()[:16]
    annotated: AnyGenerative = internals.annotated(statement, {"unnamed_columns": digest})
    return annotated


def _unnamed_columns_read(statement: Any) -> list[int]:
    """The positions of the unnamed columns that it reads, in order; empty if all have a name.

    An element that occurs several times is visited once: CTEs that read each other twice have exponentially many paths.
    Later occurrences are a negative number that identifies the element.
    """
    positions: list[int] = []
    has_unnamed = False
    counts: dict[int, int] = {}
    alive = []  # an id in `counts` is unique only while its element lives
    waiting = [statement]
    while waiting:
        element = waiting.pop()
        if (number := counts.get(id(element))) is not None:
            positions.append(-2 - number)
            continue
        counts[id(element)] = len(counts)
        alive.append(element)
        if not isinstance(element, ColumnClause):
            children = () if isinstance(element, Table) else element.get_children()
            waiting += [
                each for each in children if type(each) is not Column or type(each.table) is not Table
            ]
        elif isinstance(element.name, internals.AnonymousLabel) and element.table is not None:
            has_unnamed = True
            matches = (position for position, one in enumerate(element.table.c) if one.name == element.name)
            positions.append(next(matches, -1))
    return positions if has_unnamed else []


def _with_left_side(select: AnySelect) -> AnySelect:
    """The Select with the left side of its first join in FROM, if SQLAlchemy would guess it.

    All later joins have their left side in FROM already.
    """
    joining = next(
        (part for part in (*internals.earlier_selects(select), select) if internals.setup_joins(part)), None
    )
    if joining is None or internals.explicit_froms(select):
        return select
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
