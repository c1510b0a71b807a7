"""Counts whose SQL is written from that of the sample, so that SQLAlchemy does not compile the statement again.

Loaded with the first count of a plain statement.
"""

from __future__ import annotations

from sqlalchemy import Dialect, func

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.driver import DriverStatement
from dualsql.databases.source import Source
from dualsql.plan.page import Ordered
from dualsql.plan.shape import sorts_by_aggregate

_MARKS = {"qmark": "?", "format": "%s", "numeric_dollar": "$"}
"""How a positional parameter begins, by SQLAlchemy's name for the driver's style."""

_TYPES = (func.count().type,)


def counting_statement(
    rows: Ordered, first: DriverStatement | None, source: Source, dialect: Dialect
) -> DriverStatement | None:
    """The count of these rows, written from the statement that was sent for the first of them.

    None if it has to be compiled.
    """
    if first is None or first.dialect is not dialect or not ends_in_order(rows):
        return None
    # Dialects of others may write or run a subquery in another way.
    return counted(first) if source.registry.writes_alike(source.engine.dialect, ()) else None


def ends_in_order(rows: Ordered) -> bool:
    """Whether `count` counts the rows of `window` without what that ends in: ORDER BY, LIMIT and OFFSET.

    The form of a plain statement excludes CTEs, windows, hints, and clauses behind LIMIT.
    """
    select = rows.shape.select
    is_plain = internals.noted(select, "dualsql_plain") and not rows.shape.is_cut and not rows.is_numbered
    # MariaDB makes one row of all if an aggregate stands in ORDER BY alone.
    is_same = internals.group_by_clauses(select) or not sorts_by_aggregate(select)
    return bool(is_plain and rows.order.keys and is_same)


def counted(listed: DriverStatement) -> DriverStatement | None:
    """The count of the rows of a statement that ends in ORDER BY, LIMIT and OFFSET, without these.

    None if its text has another ORDER BY, in a rule or a name, or does not tell which parameters remain.
    """
    rows, *ends = listed.sql.split(" ORDER BY ")
    if len(ends) != 1 or not rows.startswith("SELECT "):
        return None
    parameters = listed.parameters
    if not isinstance(parameters, dict):  # by name, drivers leave out those that the text does not have
        mark = _MARKS.get(listed.dialect.paramstyle)
        if mark is None or ends[0].count(mark) != 2:
            return None
        # SQLAlchemy numbers the values of an IN (of a rule) after those of LIMIT and OFFSET.
        if mark == "$" and f"${len(parameters)}" not in ends[0]:
            return None
        parameters = parameters[:-2]  # without those of LIMIT and OFFSET
    sql = f"SELECT count(*) AS count_1 \nFROM ({rows}) AS result"
    return DriverStatement(sql, parameters, _TYPES, listed.dialect, ("",))
