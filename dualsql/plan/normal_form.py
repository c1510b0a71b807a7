"""Brings a Select into the form that plans expect. Rows, order and names stay the same.

Different statements get different cache keys. Joins are in `joins`, DISTINCT and text around the columns in `words`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar

from sqlalchemy import Column, Table
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
    is_plain = internals.noted(select, internals.PLAIN)
    has_joins = any(map(internals.setup_joins, (*internals.earlier_selects(select), select)))
    if has_joins and not internals.explicit_froms(select):
        from dualsql.plan.joins import with_left_side

        select = with_left_side(select)
    has_words = (
        internals.prefixes(select)
        or internals.suffixes(select)
        or internals.statement_hints(select)
        or any(extension is not None for extension in internals.syntax_extensions(select))
        or (not is_plain and has_distinct_call(select))
    )
    if has_words:
        from dualsql.plan.words import without_words

        select = without_words(select)
    return select if is_plain else with_distinct_key(select)


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
