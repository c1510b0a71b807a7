"""A result as a subquery in its own order, for queries over it, which conditions they may add to it, and free names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Cast, Subquery, TextualSelect, select, types
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import BinaryExpression, ColumnClause
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import NamedFromClause

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.kinds import function_name
from dualsql.columns.result import ResultColumn
from dualsql.freeze.document import AnyCompound, AnySelect, Statement
from dualsql.freeze.shadowing import Spelling
from dualsql.plan.keys import clauses_of, column_identity, unlabelled
from dualsql.plan.keyset import carried_around
from dualsql.plan.order import is_distinct, is_table, leaves_of, reads_row_by_row, row_identity
from dualsql.plan.other_statements import select_from_text
from dualsql.plan.outputs import with_criteria_of
from dualsql.plan.page import Ordered, all_rows, ordered
from dualsql.plan.shape import Shape, own_window


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
    leaves = list(leaves_of(select))
    if len(leaves) != 1 or not is_table(leaves[0]) or not row_identity(select):
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


def nested(shape: Shape, capabilities: Capabilities) -> Shape:
    """The statement as a subquery, in its author's order if that can be expressed outside of it."""
    rows = ordered(shape, capabilities)
    outer = _outer(rows)
    inner = list(outer.selected_columns)
    columns = tuple(column.moved(element) for column, element in zip(shape.columns, inner, strict=True))
    return Shape(outer.with_only_columns(*(with_label(column) for column in columns)), columns)


def _outer(rows: Ordered) -> AnySelect:
    name = FreeNames(rows.shape.select).take("result")
    # Without keys, an outer statement cannot express the order. A LIMIT inside keeps its rows all the same.
    if rows.order.obstacle:
        limited = all_rows(rows)
        return with_criteria_of(limited, select(*limited.subquery(name).c))
    outer, keys = carried_around(rows, rows.order.keys, name)
    return outer.order_by(*clauses_of(keys, rows.capabilities))


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
