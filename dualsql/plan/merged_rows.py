"""What is left out of statements whose rows are counted, and what is read around those that merge equal rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.sql.elements import Over
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.result import with_criteria_of
from dualsql.freeze.document import AnySelect
from dualsql.plan.keys import Key, clauses_of
from dualsql.plan.shape import is_distinct, merges_rows, unlabelled


def without_windows(statement: AnySelect) -> AnySelect:
    """The statement without window functions, which a database computes even if nothing reads them."""
    columns = internals.outputs_of(statement)
    windows = [column for column in columns if isinstance(unlabelled(column), Over)]
    if is_distinct(statement) or merges_rows(statement):
        return statement
    others = [column for column in columns if column not in windows]
    # A mapped class may bring a criterion.
    return (
        statement.with_only_columns(*others)
        if others and _sources(windows) <= _sources(others)
        else statement
    )


def _sources(columns: Iterable[ColumnElement[Any]]) -> set[Any]:
    """The tables and the mapped classes of columns. Classes of one table may have other criteria and joins."""
    tables = {source for column in columns for source in internals.from_objects(column)}
    parts = (part for column in columns for part in iterate(column))
    return (tables | {internals.annotations_of(part).get("parententity") for part in parts}) - {None}


def around_distinct(
    statement: AnySelect, keys: Sequence[Key], capabilities: Capabilities
) -> tuple[AnySelect, Sequence[Key]]:
    """The DISTINCT rows in the order of their keys, which are read outside.

    Inside, DISTINCT would tell equal values apart by their texts: in PostgreSQL 1 mon equals 30 days, and {"a": 1}
    equals {"a": 1.0}.
    """
    columns = list(statement.subquery("result").c)
    outer_keys = []
    for key in keys:
        assert key.output is not None  # otherwise the order has an obstacle
        column = columns[key.output]
        form = capabilities.key_form(column, is_stored=False)
        if form is None:  # an ENUM of MariaDB, which is read inside by its only text
            return statement, keys
        outer_keys.append(key._replace(expression=column, form=form, is_stored=False, author_clause=None))
    outer = with_criteria_of(statement, select(*columns))
    return outer.order_by(*clauses_of(outer_keys, capabilities)), outer_keys
