"""Selects over the rows of another one: of some of its columns, with the types of a database, or as a subquery.

A subquery is in its author's order, and under a name that no source has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Cast, ColumnElement, Subquery, TextualSelect, select, type_coerce, types
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.elements import BinaryExpression, ColumnClause, Label
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import NamedFromClause
from sqlalchemy.sql.util import extract_first_column_annotation

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.kinds import function_name
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import SQLType
from dualsql.columns.result import ResultColumn, with_criteria_of
from dualsql.freeze.document import AnyCompound, AnySelect, Statement
from dualsql.freeze.shadowing import Spelling
from dualsql.plan.keys import clauses_of, column_identity
from dualsql.plan.keyset import carried_around
from dualsql.plan.order import order_of, row_identity
from dualsql.plan.other_statements import select_from_text
from dualsql.plan.page import Ordered, all_rows
from dualsql.plan.shape import (
    Shape,
    has_own_order,
    is_distinct,
    is_table,
    leaves_of,
    own_window,
    reads_row_by_row,
    shape,
    unlabelled,
)


def reads_plainly(shape: Shape, columns: Iterable[ResultColumn]) -> bool:
    """Whether a condition on these columns can be added to the author's WHERE with the same effect."""
    if shape.is_cut or is_distinct(shape.select) or not reads_row_by_row(shape.select):
        return False
    return all(_is_stored(column.expression) for column in columns)


def converts_values(statement: AnySelect) -> bool:
    """Whether it computes values in a way that may fail for some rows, such as a CAST."""
    return any(map(_may_fail, internals.elements_of(statement)))


def _may_fail(part: Any) -> bool:
    if isinstance(part, Cast):
        return not isinstance(part.type, types.String)
    if isinstance(part, BinaryExpression):
        return not operators.is_comparison(part.operator)
    return isinstance(part, FunctionElement) and function_name(part) in _CONVERTING


_CONVERTING = frozenset(
    """json jsonb make_date make_interval make_time make_timestamp make_timestamptz strptime to_date to_number
    to_timestamp""".split()
)


def sole_key(select: AnySelect) -> Callable[[Any], bool] | None:
    """A function that recognizes columns with a different value in each row; None if there may be none."""
    sources = internals.final_froms(select)
    leaves = list(leaves_of(sources))
    if len(leaves) != 1 or not is_table(leaves[0]) or not row_identity(select, sources):
        return None
    keys = list(leaves[0].primary_key)
    return lambda expression: (
        len(keys) == 1 and column_identity(unlabelled(expression)) == column_identity(keys[0])
    )


def at_most(statement: Statement, limit: int) -> Statement:
    """The first `limit` rows of the statement.

    Raises:
        NoTotalOrderError: its own limit is not a plain number.
    """
    plain = select_from_text(statement) if isinstance(statement, TextualSelect) else statement
    own, _ = own_window(plain)
    return plain.fetch(None).limit(limit if own is None else min(own, limit))


def nested(shape: Shape, capabilities: Capabilities, *, is_descending: bool = False) -> Shape:
    """The statement as a subquery, in its author's order if that can be expressed there, else in that of its ties."""
    rows = Ordered(shape, order_of(shape, capabilities), capabilities)
    name = FreeNames(rows.shape.select).take("result")
    if rows.order.obstacle:
        # Without keys, an outer statement cannot express the order. A LIMIT inside keeps its rows all the same.
        limited = all_rows(rows)
        outer = with_criteria_of(limited, select(*limited.subquery(name).c))
    else:
        outer, keys = carried_around(rows, rows.order.keys, name)
        if is_descending and not has_own_order(shape.select):
            keys = [key.reversed() for key in keys]
        outer = outer.order_by(*clauses_of(keys, capabilities))
    columns = tuple(map(ResultColumn.moved, shape.columns, outer.selected_columns))
    return Shape(outer.with_only_columns(*(with_label(column) for column in columns)), columns)


def as_subquery(statement: AnySelect | AnyCompound, name: str) -> Subquery:
    """The statement as a subquery of that name, or of one like it that no source in the statement has."""
    return statement.subquery(FreeNames(statement).take(name))


def with_label(column: ResultColumn) -> Any:
    """The column under its unique name in the result."""
    own = getattr(column.expression, "name", None)
    return column.expression if own == column.name else column.expression.label(column.name)


def _is_stored(expression: Any) -> bool:
    bare = unlabelled(expression)
    return isinstance(bare, ColumnClause) and not bare.is_literal and bare.table is not None


class FreeNames:
    """Chooses names that no source in these statements has, so that `check_names` accepts the new statement.

    Without it, a query over the result of a query would have two relations of one name.
    """

    def __init__(self, *statements: Any) -> None:
        self._texts: set[str] = set()
        self._open_roots: set[str] = set()
        for part in (part for statement in statements for part in internals.elements_of(statement)):
            if isinstance(part, NamedFromClause):
                self._add(Spelling.of(part.name))

    def _add(self, spelling: Spelling) -> None:
        self._texts.add(spelling.text)
        if spelling.is_open:
            self._open_roots.add(spelling.root)

    def take(self, name: str) -> str:
        """The name, or one like it that no source has. It is not free afterwards."""
        stem = f"{name}_r" if Spelling.of(name).root in self._open_roots else f"{name}_"
        candidate = name
        for number in itertools.count(1):
            spelling = Spelling.of(candidate)
            if spelling.text not in self._texts and spelling.root not in self._open_roots:
                break
            candidate = f"{stem}{number}"
        self._add(spelling)
        return candidate


#
# Some of its columns, or other types.


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
    """Whether SQLAlchemy finds the left side of a join from the selected columns, or from those selected before."""
    parts = (statement, *internals.earlier_selects(statement))
    return any(left is None for part in parts for _, _, left, _ in internals.setup_joins(part))


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
