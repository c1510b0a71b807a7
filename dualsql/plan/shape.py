"""What a Select is: its one shape, the columns that it puts out, the sources that it reads, and how it reads them.

The shape of any statement is a Select of the same rows in the same order, with LIMIT and OFFSET apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, FromClause, Join, Select, Table, TextClause, TextualSelect
from sqlalchemy.sql import elements, selectable
from sqlalchemy.sql.elements import BindParameter, ColumnClause, Label
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.kinds import function_name
from dualsql.columns.meanings import STANDARD, Meanings
from dualsql.columns.result import (
    ResultColumn,
    is_named,
    is_open,
    own_name,
    result_columns,
    selected_items,
    unique_names,
)
from dualsql.freeze.document import AnySelect, Statement
from dualsql.freeze.types import ROW_FUNCTIONS, SET_FUNCTIONS
from dualsql.plan.keys import calls_in_text, split_modifiers, unpageable
from dualsql.plan.normal_form import normal_form, with_distinct_key

Expressions = list[ColumnElement[Any]]

# Any other name may be an aggregate, whose rows are not rows of a table. An application registers these two itself.
_ROW_FUNCTIONS = ROW_FUNCTIONS | {"if", "quote"}


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
    statement = normal_form(statement) if isinstance(statement, Select) else with_distinct_key(statement)
    # The columns of other statements are named below.
    if not internals.noted(statement, internals.PLAIN) and is_open(statement):
        statement = written_out(statement)
    assert not isinstance(statement, TextualSelect)
    # The author's LIMIT is set aside, so that a page's own LIMIT and OFFSET can be added to it as numbers.
    limit, offset = own_window(statement)
    # Without row locks: a reader takes none, and a read-only transaction refuses them.
    window = dict.fromkeys(("limit_clause", "offset_clause", "fetch_clause", "fetch_clause_options"))
    unlimited = internals.copy_with(statement, **window, for_update_arg=None)
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

        statement = entities.with_columns(statement)
    return distinctly_named(statement)[0] if isinstance(statement, Select) else statement


def own_window(statement: selectable.GenerativeSelect) -> tuple[int | None, int]:
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
        is_literal = isinstance(column, ColumnClause) and column.is_literal
        if isinstance(column, TextClause) or (is_literal and column.name.endswith(".*")):
            from dualsql.plan.words import unnamed_text

            raise unnamed_text(column)
    if distinct_on(statement) and _multiplies_after_sorting(statement):
        raise unpageable("DISTINCT ON with ORDER BY cannot be paged beside a function of several rows.")
    # Without a name, a cache key could not distinguish the column from the next one.
    plain, names = distinctly_named(statement, labels_unnamed=True)
    columns = result_columns(plain, meanings, names)
    outputs = [column.read for column in columns]
    if any(read is not column.expression for read, column in zip(outputs, columns, strict=True)):
        # Without this, SQLAlchemy would read each value as one of the type of an operand.
        plain = internals.copy_with(plain, raw_columns=outputs)
        columns = tuple(replace(each, expression=read) for each, read in zip(columns, outputs, strict=True))
    return Shape(plain, columns, limit, offset)


def distinctly_named(statement: AnySelect, *, labels_unnamed: bool = False) -> tuple[AnySelect, list[str]]:
    """The statement with a label on each column that has the name of an earlier one, and its `unique_names`.

    Two equal labels cannot be wrapped in a subquery, and a type's own code must not meet the values of another column.

    Args:
        labels_unnamed: columns without a name get a label, too.
    """
    outputs, unique = internals.outputs_of(statement), unique_names(statement)
    renaming = [*filter(_renames, {column.table for column in outputs if isinstance(column, ColumnClause)})]
    # Without a label, an outer statement would read the bare literal of `select(1)` as `result.1`.
    names = [
        ""
        if type(column) is Column and column.name == name and not renaming
        else name
        if own_name(column) not in ("", name)
        or (renaming and isinstance(column, ColumnClause) and column.table in renaming)
        or (labels_unnamed and not is_named(column))
        else ""
        for column, name in zip(outputs, unique, strict=True)
    ]
    raw = selected_items(statement) if any(names) else []
    # Bare text may be several columns: which output belongs to it cannot be known.
    if not raw or any(isinstance(column, TextClause) for column in raw):
        return statement, unique
    outputs = [output for column in raw for output in internals.select_iterable(column)]
    named = zip(outputs, names, strict=True)
    labelled = [unlabelled(output).label(name) if name else output for output, name in named]
    return internals.copy_with(statement, raw_columns=labelled), unique


def _renames(source: FromClause | None) -> bool:
    """Whether columns of a source may have other names than they say."""
    # SQLAlchemy renders a repeated column of a mapped class in a subquery once.
    inner = getattr(source, "element", None)
    if not isinstance(inner, Select) or not is_open(inner):
        return False
    hashes = [hash(column) for column in internals.all_selected_columns(inner)]
    return len(set(hashes)) < len(hashes)


def unlabelled(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    """The element without its label."""
    return expression.element if isinstance(expression, Label) else expression


def has_own_order(select: AnySelect) -> bool:
    """Whether its author orders its rows."""
    return bool(internals.order_by_clauses(select) or distinct_on(select))


def distinct_on(select: AnySelect) -> Expressions:
    """The expressions of DISTINCT ON, written as .distinct(...) or as PostgreSQL's syntax extension."""
    if (extension := internals.extension_before_columns(select)) is None:
        return [*internals.distinct_on(select)]
    clauses = getattr(extension, "clauses", [extension])
    return [key for clause in (select, *clauses) for key in internals.distinct_on(clause)]


def is_distinct(select: AnySelect) -> bool:
    """Whether it has DISTINCT or DISTINCT ON."""
    return bool(internals.distinct_word(select) or distinct_on(select))


def is_table(source: FromClause) -> bool:
    """Whether it is a table or an alias of one. An alias of a subquery has keys too, but its rows may repeat them."""
    return isinstance(internals.table_under(source), Table)


def leaves_of(sources: Sequence[FromClause]) -> Iterator[FromClause]:
    """The sources without the joins around them."""
    stack: list[FromClause] = list(reversed(sources))
    while stack:
        source = stack.pop()
        if isinstance(source, Join):
            stack += [source.right, source.left]
        else:
            yield source


def reads_row_by_row(select: AnySelect) -> bool:
    """Whether each row depends on one row of its sources, so that removing some rows does not change others."""
    # A clause of an application's class, such as QUALIFY.
    is_extended = internals.extension_after_criteria(select) is not None
    if is_extended or distinct_on(select) or merges_rows(select):
        return False
    parts = (part for element in _computed(select) for part in iterate(element))
    return not any(isinstance(part, elements.Over) for part in parts)


def _computed(select: AnySelect) -> list[Any]:
    """Its outputs and what it sorts by, without plain columns, which hold nothing."""
    computed: list[Any] | None = internals.noted(select, internals.COMPUTED)
    if computed is None:
        outputs = (each for each in internals.all_selected_columns(select) if type(each) is not Column)
        parts = map(unlabelled, (*outputs, *_sorting(select)))
        computed = [part for part in parts if not isinstance(part, ColumnClause) or part.is_literal]
        internals.note(select, internals.COMPUTED, computed)
    return computed


def _sorting(select: AnySelect) -> list[Any]:
    return [split_modifiers(clause)[0] for clause in internals.order_by_clauses(select)]


def _is_aggregate(function: FunctionElement[Any]) -> bool:
    return function_name(function) not in _ROW_FUNCTIONS


def _returns_rows(function: FunctionElement[Any]) -> bool:
    return function_name(function) in SET_FUNCTIONS


def _multiplies_after_sorting(select: AnySelect) -> bool:
    """Whether PostgreSQL calls functions of several rows after DISTINCT ON: where an ORDER BY has none of them."""
    names = {each.key for each in internals.outputs_of(select) if may_aggregate(each, _returns_rows)}
    keys = _sorting(select)
    return bool(names and keys) and not any(
        key.element in names
        if isinstance(key, internals.TextualLabelReference)
        else may_aggregate(key, _returns_rows)
        for key in keys
    )


def merges_rows(
    select: AnySelect, is_aggregate: Callable[[FunctionElement[Any]], bool] = _is_aggregate
) -> bool:
    """Whether GROUP BY, HAVING or an aggregate may make one row of several."""
    if internals.group_by_clauses(select) or internals.having_criteria(select):
        return True
    return any(may_aggregate(element, is_aggregate) for element in _computed(select))


def sorts_by_aggregate(select: AnySelect) -> bool:
    """Whether an aggregate may stand in its ORDER BY."""
    return any(map(may_aggregate, _sorting(select)))


def may_aggregate(element: Any, is_aggregate: Callable[[FunctionElement[Any]], bool] = _is_aggregate) -> bool:
    """Whether `element` may contain an aggregate outside of subqueries and window functions."""
    stack: list[Any] = [element]
    while stack:
        node = stack.pop()
        if isinstance(node, selectable.SelectBase | selectable.ScalarSelect | selectable.Exists):
            continue
        if isinstance(node, elements.Over):
            stack += [part for part in (node.partition_by, node.order_by) if part is not None]
            # sum(count(*)) OVER (...): the argument of a window function may be an aggregate, the function is none.
            function = node.element
            if isinstance(function, elements.FunctionFilter):
                stack += [] if function.criterion is None else [function.criterion]
                function = function.func
            stack += function.get_children()
            continue
        if calls_in_text(node) or (isinstance(node, FunctionElement) and is_aggregate(node)):
            return True
        stack += node.get_children()
    return False
