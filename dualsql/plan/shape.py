"""Brings any statement into one shape: a Select of the same rows in the same order, with LIMIT and OFFSET apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, TextClause, TextualSelect
from sqlalchemy.sql.elements import BindParameter, ColumnClause
from sqlalchemy.sql.selectable import GenerativeSelect

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.meanings import STANDARD, Meanings
from dualsql.columns.result import ResultColumn, result_columns
from dualsql.errors import NotFreezableError
from dualsql.freeze.document import AnySelect, Statement
from dualsql.plan.normal_form import normal_form, with_distinct_key
from dualsql.plan.outputs import distinctly_named, is_open, unpageable


class Shape(NamedTuple):
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
        from dualsql.plan.other_statements import select_from_text

        return _shape_of(select_from_text(statement), meanings)
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
    if not isinstance(unlimited, Select):
        from dualsql.plan.other_statements import select_from_compound

        unlimited = select_from_compound(unlimited, meanings)
    return _shape_of(unlimited, meanings, limit, offset)


def written_out(statement: Statement) -> Statement:
    """The statement with its columns written out, each under a unique name.

    Raises:
        NotFreezableError: SQLAlchemy cannot compile it, or no condition can express how an eager load filters it.
    """
    if is_open(statement):
        from dualsql.plan import entities

        statement = entities.written_out(statement)
    return distinctly_named(statement) if isinstance(statement, Select) else statement


def own_window(statement: GenerativeSelect) -> tuple[int | None, int]:
    """The author's limit, None without one, and offset."""
    options = internals.fetch_options(statement)
    # With TIES the number of rows depends on the order, with PERCENT on their total.
    if options.get("with_ties") or options.get("percent"):
        raise unpageable("A statement with FETCH ... WITH TIES or PERCENT cannot be paged.")
    clauses = (internals.limit_clause(statement), internals.fetch_clause(statement))
    limits = [_whole_number(clause) for clause in clauses if clause is not None]
    offset = internals.offset_clause(statement)
    return min(limits, default=None), 0 if offset is None else _whole_number(offset)


def _whole_number(clause: ColumnElement[Any]) -> int:
    value = clause.effective_value if isinstance(clause, BindParameter) else None
    if not isinstance(value, int) or value < 0:
        raise unpageable("LIMIT and OFFSET must be whole numbers.")
    return value


def _shape_of(statement: AnySelect, meanings: Meanings, limit: int | None = None, offset: int = 0) -> Shape:
    """The shape of a Select without a limit, with a unique name for each output."""
    for column in internals.raw_columns(statement):
        if isinstance(column, TextClause):
            raise NotFreezableError(
                "A text() column has no name and no type.",
                hint="Use literal_column('...', Type).label('name').",
            )
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
        return Shape(plain, columns, limit, offset)
    # Without this, SQLAlchemy would read each value as one of the type of an operand.
    plain = internals.copy_with(plain, raw_columns=outputs)
    selected = zip(columns, plain.selected_columns, strict=True)
    columns = tuple(replace(column, expression=output) for column, output in selected)
    return Shape(plain, columns, limit, offset)
