"""Brings any statement into one shape: a Select of the same rows in the same order, with LIMIT and OFFSET apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Join,
    Label,
    Select,
    TextClause,
    TextualSelect,
    select,
    type_coerce,
    types,
)
from sqlalchemy.sql.elements import BindParameter, ColumnClause
from sqlalchemy.sql.selectable import GenerativeSelect

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.forecast import parts_of
from dualsql.columns.own_types import STANDARD, Meanings, SQLType
from dualsql.columns.result import ResultColumn, own_name, result_columns, united_type
from dualsql.errors import NotFreezableError, NoTotalOrderError
from dualsql.freeze.document import AnyCompound, AnySelect, Statement
from dualsql.plan.keys import split_modifiers, with_modifiers
from dualsql.plan.normal_form import normal_form, with_distinct_key
from dualsql.plan.outputs import criteria_options, distinctly_named, is_open


def with_criteria_of(inner: Any, outer: AnySelect) -> AnySelect:
    """`outer` with the criteria of the statement inside it.

    SQLAlchemy reads options of the outermost statement only: with_loader_criteria() would have no effect on a Select in
    a subquery. All other options are removed before (`dualsql.plan.entities`).
    """
    parts = (inner, *internals.earlier_selects(inner))
    criteria = [option for part in parts for option in criteria_options(part)]
    return outer.options(*criteria) if criteria else outer


_TOKEN = re.compile(
    r"""
      --[^\n]*                              # comment to the end of the line
    | /\*.*?(?:\*/|\Z)                      # comment in stars
    | '(?:[^']|'')*(?:'|\Z)                 # string
    | "(?:[^"]|"")*(?:"|\Z)                 # quoted name
    | `(?:[^`]|``)*(?:`|\Z)                 # name between backticks
    | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)  # dollar-quoted string
    | (?P<word>[A-Za-z_]\w*)
    | (?P<bracket>[()])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLAUSES = frozenset({"ORDER", "LIMIT", "OFFSET", "FETCH"})


def has_outer_order(sql: str) -> bool:
    """Whether ORDER BY, LIMIT, OFFSET or FETCH stands outside all parentheses, strings and comments."""
    depth = 0
    # A false match is safe: the statement is refused.
    for token in _TOKEN.finditer(sql):
        bracket = token["bracket"]
        if bracket:
            depth += 1 if bracket == "(" else -1
        elif token["word"] and depth <= 0 and token["word"].upper() in _CLAUSES:
            return True
    return False


_ASK = "Use a subquery with the LIMIT, or order by columns of the result."
_WRAP = "Use a subquery: inner = statement.subquery(); select(inner).order_by(inner.c....)."


@dataclass(frozen=True, slots=True)
class Shape:
    """A Select without limit, offset and row locks, and the author's limit and offset.

    Attributes:
        select: keeps the author's ORDER BY.
        columns: one per output expression, in order, uniquely named.
        limit, offset: the author's own; limit is None without one.
        number: a column that numbers the rows from 0 in the author's order, if there is one. The database has them in
            this order, and reads them in it.
    """

    select: AnySelect
    columns: tuple[ResultColumn, ...]
    limit: int | None = None
    offset: int = 0
    number: ColumnElement[int] | None = None

    @property
    def meanings(self) -> Meanings:
        """How the application's own types convert values."""
        return self.columns[0].meanings

    @property
    def is_cut(self) -> bool:
        """Whether the author's limit or offset selects a part of the rows."""
        return self.limit is not None or self.offset > 0


def shape(statement: Statement, meanings: Meanings = STANDARD) -> Shape:
    """The statement in its one shape.

    Raises:
        NoTotalOrderError: its rows cannot be paged safely.
        NotFreezableError: one of its columns is bare text, or cannot be written out.
    """
    if isinstance(statement, TextualSelect):
        return Shape(*_with_unique_names(select_from_text(statement), meanings))
    statement = written_out(
        normal_form(statement) if isinstance(statement, Select) else with_distinct_key(statement)
    )
    assert not isinstance(statement, TextualSelect)
    # The author's LIMIT is set aside, so that a page's own LIMIT and OFFSET can be added to it as numbers.
    limit, offset = own_window(statement)
    # Without row locks: a reader takes none, and a read-only transaction refuses them.
    unlimited = internals.copy_with(
        statement.limit(None).offset(None), fetch_clause=None, for_update_arg=None
    )
    plain = unlimited if isinstance(unlimited, Select) else _select_from_compound(unlimited, meanings)
    return Shape(*_with_unique_names(plain, meanings), limit, offset)


def written_out(statement: Statement) -> Statement:
    """The statement with its columns written out, each under a unique name.

    Raises:
        NotFreezableError: SQLAlchemy cannot compile it, or no condition can express how an eager load filters it.
    """
    if is_open(statement):
        from dualsql.plan import entities

        statement = entities.written_out(statement)
    return distinctly_named(statement) if isinstance(statement, Select) else statement


def with_types(statement: Statement, kinds: Sequence[SQLType], meanings: Meanings) -> AnySelect:
    """The statement whose columns state these types, where they had none; NullType for a column that stays as it is.

    Raises:
        NoTotalOrderError, NotFreezableError: see `shape`.
    """
    shaped = shape(statement, meanings)
    outputs = [
        column.expression
        if isinstance(kind, types.NullType)
        else type_coerce(_unlabelled(column.expression), kind).label(column.name)
        for column, kind in zip(shaped.columns, kinds, strict=True)
    ]
    typed = internals.copy_with(shaped.select, raw_columns=outputs)
    return typed.limit(shaped.limit).offset(shaped.offset or None)


def _unlabelled(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    return expression.element if isinstance(expression, Label) else expression


def select_from_text(statement: TextualSelect) -> AnySelect:
    if not isinstance(statement.element, TextClause) or has_outer_order(statement.element.text):
        raise NoTotalOrderError(
            "A text() statement with its own ORDER BY or LIMIT cannot be paged.",
            hint=_ASK,
            developer_hint=_WRAP,
        )
    return select(*statement.subquery("result").c)


def own_window(statement: GenerativeSelect) -> tuple[int | None, int]:
    options = internals.fetch_options(statement)
    # With TIES the number of rows depends on the order, with PERCENT on their total.
    if options.get("with_ties") or options.get("percent"):
        raise NoTotalOrderError(
            "A statement with FETCH ... WITH TIES or PERCENT cannot be paged.",
            hint=_ASK,
            developer_hint=_WRAP,
        )
    clauses = (internals.limit_clause(statement), internals.fetch_clause(statement))
    limits = [_whole_number(clause) for clause in clauses if clause is not None]
    offset = internals.offset_clause(statement)
    return min(limits, default=None), 0 if offset is None else _whole_number(offset)


def _whole_number(clause: ColumnElement[Any]) -> int:
    value = clause.effective_value if isinstance(clause, BindParameter) else None
    if not isinstance(value, int) or value < 0:
        raise NoTotalOrderError(
            "LIMIT and OFFSET must be whole numbers.",
            hint=_ASK,
            developer_hint=_WRAP,
        )
    return value


def _select_from_compound(statement: AnyCompound, meanings: Meanings) -> AnySelect:
    order = [split_modifiers(clause) for clause in internals.order_by_clauses(statement)]
    outputs = list(statement.selected_columns)
    union = _united(statement, list(_fenced(statement.order_by(None)).subquery("result").c), meanings)
    keys = []
    for base, modifiers in order:
        keys.append(with_modifiers(union[_output_position(base, outputs)], modifiers))
    return with_criteria_of(statement, select(*union).order_by(*keys))


def _united(statement: AnyCompound, columns: list[Any], meanings: Meanings) -> list[Any]:
    """The columns of a set operation with the types of all its parts."""
    outputs = [list(part.selected_columns) for part in parts_of(statement)]
    if any(len(part) != len(columns) for part in outputs):  # one of them is text
        return columns
    united = (united_type(parts, meanings) for parts in zip(*outputs, strict=True))
    return [
        column if type_ is None else type_coerce(column, type_).label(column.name)
        for column, type_ in zip(columns, united, strict=True)
    ]


def _fenced(statement: AnyCompound) -> AnyCompound:
    """The statement, with an OFFSET 0 if SQLite would read other rows from it as a subquery.

    SQLite 3.40.1 moves the parts of a UNION ALL into the statement around it and loses the WHERE of a FULL JOIN on the
    way. A part that has an OFFSET stays where it is.
    """
    return statement.offset(0) if any(map(_joins_fully, internals.elements_of(statement))) else statement


def _joins_fully(node: Any) -> bool:
    if isinstance(node, Select):
        return any(flags["full"] for *_, flags in internals.setup_joins(node))
    return isinstance(node, Join) and node.full


def _output_position(base: Any, outputs: Sequence[ColumnElement[Any]]) -> int:
    name = base.element if isinstance(base, internals.TextualLabelReference) else getattr(base, "name", None)
    # Not by ==, which makes a condition of two columns.
    positions = [position for position, output in enumerate(outputs) if hash(output) == hash(base)]
    positions += [position for position, output in enumerate(outputs) if name and own_name(output) == name]
    if positions:
        return positions[0]
    raise NoTotalOrderError(
        "A set operation can only be ordered by its own columns.", hint=_ASK, developer_hint=_WRAP
    )


def _with_unique_names(
    statement: AnySelect, meanings: Meanings
) -> tuple[AnySelect, tuple[ResultColumn, ...]]:
    """The statement with a unique name for each output, and the outputs."""
    if any(isinstance(column, TextClause) for column in internals.raw_columns(statement)):
        raise NotFreezableError(
            "A text() column has no name and no type.",
            hint="Use literal_column('...', Type).label('name').",
        )
    for column in internals.raw_columns(statement):
        if isinstance(column, ColumnClause) and column.is_literal and column.name.endswith(".*"):
            raise NotFreezableError(
                f"literal_column({column.name[:80]!r}) stands for columns that are not known.",
                hint="Name the columns, or select the table: select(table).",
            )
    # Without a name, a cache key could not distinguish the column from the next one.
    plain = distinctly_named(statement, labels_unnamed=True)
    columns = result_columns(plain.selected_columns.items(), meanings)
    outputs = [column.read for column in columns]
    if all(read is column.expression for read, column in zip(outputs, columns, strict=True)):
        return plain, columns
    # Without this, SQLAlchemy would read each value as one of the type of an operand.
    plain = internals.copy_with(plain, raw_columns=outputs)
    return plain, tuple(
        replace(column, expression=output)
        for column, output in zip(columns, plain.selected_columns, strict=True)
    )
