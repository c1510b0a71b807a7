"""A page, the count and a projection of a Select."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import ColumnClause, Label, Over
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.util import extract_first_column_annotation
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.freeze.document import AnySelect
from dualsql.plan.keys import Order, unlabelled
from dualsql.plan.order import IsMasked, distinct_on, is_distinct, never, order_of
from dualsql.plan.shape import Shape, with_criteria_of
from dualsql_client.wire import SortKey


def projected(statement: AnySelect, positions: Sequence[int]) -> AnySelect | None:
    """The statement with only the columns at these positions, in their order; None if the others cannot be removed.

    DISTINCT compares all selected columns, a function may return several rows, and an aggregate returns one row for
    all: only plain columns of tables can be removed.
    """
    outputs = list(statement.selected_columns)
    left_out = [output for position, output in enumerate(outputs) if position not in set(positions)]
    if is_distinct(statement) or not all(map(_is_plain, left_out)):
        return None
    if _orders_by_name(statement) or _guesses_a_join(statement):
        return None
    if any(map(_is_read_elsewhere, internals.raw_columns(statement))):
        return None
    return with_outputs(statement, [outputs[position] for position in positions])


def with_outputs(statement: AnySelect, outputs: Iterable[ColumnElement[Any]]) -> AnySelect:
    """The statement with these columns, from the tables that its own columns come from."""
    entities = [found for column in internals.raw_columns(statement) for found in _entity_of(column)]
    return statement.select_from(*entities).with_only_columns(*outputs, maintain_column_froms=True)


def _entity_of(column: Any) -> list[Any]:
    """The mapped class of an expression, which may have more tables than the expression reads.

    As in `sqlalchemy.orm.context._ORMColumnEntity`. SQLAlchemy's `maintain_column_froms` considers only plain columns
    and leaves out the joins of inheritance.
    """
    if "parententity" in internals.annotations_of(column):
        return []
    entity = _owner_of(column)
    return [] if entity is None or _is_read_elsewhere(column) else [entity.__clause_element__()]


def _owner_of(column: Any) -> Any:
    own = internals.annotations_of(column).get("parententity")
    return own or extract_first_column_annotation(column, "parententity")  # type: ignore[no-untyped-call]


def _is_read_elsewhere(column: Any) -> bool:
    """Whether its entity does not read its table: the classes of concrete inheritance, which read a UNION.

    The ORM puts the UNION's columns in place of the table's, also in WHERE and GROUP BY, only while it selects one of
    them.
    """
    owner = _owner_of(column)
    return owner is not None and set(internals.from_objects(column)).isdisjoint(
        internals.from_objects(owner.selectable)
    )


def _is_plain(output: Any) -> bool:
    while isinstance(output, Label):
        output = output.element
    return isinstance(output, ColumnClause) and not output.is_literal


def _orders_by_name(statement: Any) -> bool:
    """Whether its ORDER BY or GROUP BY names a column by text, so that the column must stay."""
    clauses = (*internals.order_by_clauses(statement), *internals.group_by_clauses(statement))
    return any(
        isinstance(part, internals.TextualLabelReference)
        for clause in clauses
        for part in visitors.iterate(clause)
    )


def _guesses_a_join(statement: Any) -> bool:
    """Whether SQLAlchemy finds the left side of a join from the selected columns."""
    return any(left is None for _, _, left, _ in internals.setup_joins(statement))


def count(shape: Shape, *, cap: int | None = None) -> AnySelect:
    """SELECT count(*) over the statement, inside its author's own limit and offset.

    Args:
        cap: the count stops one row after this number.
    """
    # Without the subquery a count of one table is not any faster: SQLite and PostgreSQL flatten it (1 M rows: 0.7 ms
    # to 1.1, 136 to 132 under a WHERE), and leave columns out that nobody reads.
    counted_rows = uncounted(shape, cap=cap)
    counted = select(func.count()).select_from(counted_rows.subquery("result"))
    return with_criteria_of(counted_rows, counted)


def uncounted(shape: Shape, *, cap: int | None = None) -> AnySelect:
    """A statement with the same number of rows, in any order, with the cheapest columns."""
    # Which rows a LIMIT keeps depends on the order; how many does not.
    bare = _without_windows(shape.select.order_by(None))
    limits = [limit for limit in (shape.limit, None if cap is None else cap + 1) if limit is not None]
    if not limits and not shape.offset:
        return bare
    return bare.limit(min(limits, default=None)).offset(shape.offset or None)


def _without_windows(select: AnySelect) -> AnySelect:
    """The statement without window functions, which a database computes even if nothing reads them."""
    columns = list(select.selected_columns)
    windows = [column for column in columns if isinstance(unlabelled(column), Over)]
    kept = [column for column in columns if column not in windows]
    if (
        not windows
        or is_distinct(select)
        or internals.group_by_clauses(select)
        or internals.having_criteria(select)
    ):
        return select
    # An aggregate makes one row of many, also from inside a window; a mapped class may bring a criterion.
    if any(map(_may_aggregate, windows)) or not _sources(windows) <= _sources(kept):
        return select
    return select.with_only_columns(*kept)


def _may_aggregate(window: Any) -> bool:
    return sum(isinstance(part, FunctionElement) for part in iterate(unlabelled(window))) != 1


def _sources(columns: Iterable[ColumnElement[Any]]) -> set[Any]:
    return {source for column in columns for source in internals.from_objects(column)}


@dataclass(frozen=True)
class Ordered:
    """A statement and the order of its rows."""

    shape: Shape
    order: Order
    capabilities: Capabilities

    @cached_property
    def arranged(self) -> AnySelect:
        """The statement in this order, without LIMIT and OFFSET."""
        return self.shape.select.order_by(None).order_by(*self.order.clauses(self.capabilities))


def ordered(
    shape: Shape, capabilities: Capabilities, *, sort: Sequence[SortKey] = (), is_masked: IsMasked = never
) -> Ordered:
    """The statement in the order of `sort`, or else in its author's order.

    Raises:
        UnknownColumnError: a sort key names no column of the result.
    """
    if sort and (shape.is_cut or distinct_on(shape.select)):
        shape = _nested(shape, capabilities)
    return Ordered(shape, order_of(shape, capabilities, sort=sort, is_masked=is_masked), capabilities)


def page(rows: Ordered, *, offset: int, limit: int | None) -> AnySelect:
    """At most `limit` rows (None for all) from row `offset`, counted from 0 within the author's LIMIT and OFFSET."""
    shape = rows.shape
    return rows.arranged.limit(_remaining(shape, offset, limit)).offset(shape.offset + offset)


def whole(rows: Ordered) -> AnySelect:
    """All rows of the statement, ordered only if the order decides which rows there are."""
    shape = rows.shape
    if shape.is_cut:
        return page(rows, offset=0, limit=None)
    return rows.arranged if distinct_on(shape.select) else shape.select.order_by(None)


def _remaining(shape: Shape, offset: int, limit: int | None) -> int | None:
    if shape.limit is None:
        return limit
    left = max(0, shape.limit - offset)
    return left if limit is None else min(limit, left)


def _nested(shape: Shape, capabilities: Capabilities) -> Shape:
    """The same rows as a subquery: another order must not change which rows the author's limit keeps."""
    cut = whole(ordered(shape, capabilities))
    inner = cut.subquery("result")
    columns = tuple(
        column.moved(expression) for column, expression in zip(shape.columns, inner.c, strict=True)
    )
    return Shape(with_criteria_of(cut, select(*inner.c)), columns)
