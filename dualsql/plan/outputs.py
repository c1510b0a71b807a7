"""The columns that a Select puts out: under unique names, and without loader options."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, TextClause
from sqlalchemy.sql.elements import ColumnClause, Label
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import SelectStatementGrouping

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.result import is_named, own_name, unique_names
from dualsql.errors import NoTotalOrderError
from dualsql.freeze.document import AnySelect


def distinctly_named(statement: AnySelect, *, labels_unnamed: bool = False) -> AnySelect:
    """The statement with a label on each column that has the name of an earlier one.

    Two equal labels cannot be wrapped in a subquery, and a type's own code must not meet the values of another column.

    Args:
        labels_unnamed: columns without a name get a label, too.
    """
    raw = raw_columns(statement)
    # Bare text may be several columns: which output belongs to it cannot be known.
    if any(isinstance(column, TextClause) for column in raw):
        return statement
    # Without a label, an outer statement would read the bare literal of `select(1)` as `result.1`.
    items = list(statement.selected_columns.items())
    columns = [column for _, column in items]
    names = [
        name if _is_to_be_named(column, name) or (labels_unnamed and not is_named(column)) else ""
        for column, name in zip(columns, unique_names(items), strict=True)
    ]
    if not any(names):
        return statement
    outputs = [output for column in raw for output in internals.select_iterable(column)]
    return internals.copy_with(
        statement,
        raw_columns=[
            (output.element if isinstance(output, Label) else output).label(name) if name else output
            for output, name in zip(outputs, names, strict=True)
        ],
    )


def _is_to_be_named(column: ColumnElement[Any], name: str) -> bool:
    """Whether it needs a label with the name, because it has another one or its source may rename it."""
    is_of_source = isinstance(column, ColumnClause) and _is_renamed_by_its_source(column.table)
    return own_name(column) not in ("", name) or is_of_source


def _is_renamed_by_its_source(source: Any) -> bool:
    """Whether it reads a subquery of a mapped class with a repeated column, which SQLAlchemy renders once."""
    inner = getattr(source, "element", None)
    if not isinstance(inner, Select) or not is_open(inner):
        return False
    hashes = [hash(column) for column in internals.all_selected_columns(inner)]
    return len(set(hashes)) < len(hashes)


def is_open(statement: Any) -> bool:
    """Whether the ORM decides which columns there are, in a Select or in a part of a set operation."""
    if isinstance(statement, SelectStatementGrouping):
        return is_open(statement.element)
    if isinstance(statement, CompoundSelect):
        return has_loaders(statement) or any(map(is_open, statement.selects))
    return isinstance(statement, Select) and (
        has_loaders(statement)
        or any(
            internals.annotations_of(column).get("bundle")
            or (column.is_selectable and "parententity" in internals.annotations_of(column))
            for column in raw_columns(statement)
        )
    )


def raw_columns(statement: Any) -> list[Any]:
    """What was passed to select(), lambdas resolved."""
    columns: list[Any] = []
    for column in internals.raw_columns(statement):
        value = internals.resolved_lambda(column) if isinstance(column, LambdaElement) else column
        columns += value if isinstance(value, list | tuple) else [value]
    return columns


def criteria_options(part: Any) -> tuple[Any, ...]:
    """The with_loader_criteria() options of a statement, without its other options."""
    return tuple(
        option for option in internals.statement_options(part) if internals.is_criteria_option(option)
    )


def has_loaders(statement: Any) -> bool:
    """Whether it has options besides with_loader_criteria()."""
    parts = (statement, *internals.earlier_selects(statement))
    return any(len(criteria_options(part)) < len(internals.statement_options(part)) for part in parts)


def with_criteria_of(inner: Any, outer: AnySelect) -> AnySelect:
    """`outer` with the criteria of the statement inside it.

    SQLAlchemy reads options of the outermost statement only: with_loader_criteria() would have no effect on a Select in
    a subquery. All other options are removed before (`dualsql.plan.entities`).
    """
    parts = (inner, *internals.earlier_selects(inner))
    criteria = [option for part in parts for option in criteria_options(part)]
    return outer.options(*criteria) if criteria else outer


def unpageable(message: str) -> NoTotalOrderError:
    """The error for a statement with an order or a limit that pages cannot continue."""
    return NoTotalOrderError(
        message,
        hint="Use a subquery with the LIMIT, or order by columns of the result.",
        developer_hint="Use a subquery: inner = statement.subquery(); select(inner).order_by(inner.c....).",
    )
