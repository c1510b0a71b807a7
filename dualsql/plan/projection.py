"""A Select with some of its columns, or with the types that a database describes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, type_coerce, types
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import ColumnClause, Label
from sqlalchemy.sql.util import extract_first_column_annotation

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import SQLType
from dualsql.freeze.document import AnySelect, Statement
from dualsql.plan.keys import unlabelled
from dualsql.plan.order import is_distinct
from dualsql.plan.shape import shape


def projected(statement: AnySelect, positions: Sequence[int]) -> AnySelect | None:
    """The statement with only the columns at these positions, in their order; None if the others cannot be removed.

    DISTINCT compares all selected columns, a function may return several rows, and an aggregate returns one row for
    all: only plain columns of tables can be removed.
    """
    outputs = list(statement.selected_columns)
    others = [output for position, output in enumerate(outputs) if position not in set(positions)]
    if is_distinct(statement) or not all(map(_is_plain, others)):
        return None
    if _orders_by_name(statement) or _guesses_a_join(statement):
        return None
    if any(map(_is_read_elsewhere, internals.raw_columns(statement))):
        return None
    return with_outputs(statement, [outputs[position] for position in positions])


def with_outputs(statement: AnySelect, outputs: Iterable[ColumnElement[Any]]) -> AnySelect:
    """The statement with these columns, from the tables that its own columns come from."""
    entities = [entity for column in internals.raw_columns(statement) for entity in _entity_of(column)]
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

    The ORM replaces the table's columns by the UNION's, also in WHERE and GROUP BY, only if it selects one of them.
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


def with_types(statement: Statement, kinds: Sequence[SQLType], meanings: Meanings) -> AnySelect:
    """The statement whose columns state these types, where they had none; NullType for a column that stays as it is.

    Raises:
        NoTotalOrderError, NotFreezableError: see `shape`.
    """
    shaped = shape(statement, meanings)
    outputs = [
        column.expression
        if isinstance(kind, types.NullType)
        else type_coerce(unlabelled(column.expression), kind).label(column.name)
        for column, kind in zip(shaped.columns, kinds, strict=True)
    ]
    typed = internals.copy_with(shaped.select, raw_columns=outputs)
    return typed.limit(shaped.limit).offset(shaped.offset or None)
