"""What tells the rows of a Select apart; the rule: two rows that differ never tie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Alias, ColumnElement, FromClause, Join, Table, TextClause
from sqlalchemy.sql.elements import (
    BindParameter,
    ClauseElement,
    ClauseList,
    False_,
    Null,
    Over,
    True_,
    _anonymous_label,
)
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Exists, ScalarSelect, SelectBase
from sqlalchemy.sql.visitors import iterate

from dualsql.dialects import Capabilities
from dualsql.plan.keys import column_identity, unlabelled
from dualsql.plan.shape import Shape
from dualsql.statement import AnySelect

Expressions = list[ColumnElement[Any]]

# Functions of one row. Any other name may be an aggregate, whose rows are not rows of a table.
_ROW_FUNCTIONS = frozenset(
    """dualsql_instant
    abs age ceil ceiling char_length coalesce concat concat_ws current_date current_timestamp date
    date_format date_part date_trunc datetime extract floor greatest ifnull iif instr json_extract julianday
    least left length lower lpad ltrim mod nullif power replace reverse right round rpad rtrim sign sqrt
    strftime substr substring time to_char to_date trim trunc unixepoch upper year month""".split()
)
_SUPERAGGREGATES = frozenset({"rollup", "cube", "grouping_sets", "grouping sets"})


def tie_breaker(shape: Shape, capabilities: Capabilities) -> tuple[Expressions, bool]:
    """What tells any two rows of the result apart that a reader can tell apart.

    Returns also whether that is all of them: where rows may be equal, no key knows one from the other.
    """
    identity = _row_identity(shape.select) or _group_identity(shape.select)
    return identity or _whole_row(shape, capabilities), bool(identity) or is_distinct(shape.select)


def distinct_on(select: AnySelect) -> Expressions:
    """The expressions of DISTINCT ON, written as .distinct(...) or as PostgreSQL's syntax extension."""
    extension = select._pre_columns_clause
    clauses = getattr(extension, "clauses", [extension])
    return [*select._distinct_on, *(key for clause in clauses for key in getattr(clause, "_distinct_on", ()))]


def _row_identity(select: AnySelect) -> Expressions:
    """The primary keys of all tables, if each row of the result stands for one row of each; else nothing."""
    outputs = [*select.selected_columns, *select._order_by_clauses]
    if is_distinct(select) or select._group_by_clauses or select._having_criteria:
        return []
    if any(may_aggregate(element) for element in outputs):
        return []
    leaves = list(leaves_of(select))
    if not all(is_table(leaf) and list(leaf.primary_key) for leaf in leaves) or _is_renewed(leaves, select):
        return []
    return [key for leaf in leaves for key in leaf.primary_key]


def _is_renewed(leaves: Sequence[FromClause], select: AnySelect) -> bool:
    """Whether SQLAlchemy made one of these aliases just now: that of a relationship's secondary table.

    It makes another one whenever the statement is compiled, so that no ORDER BY can name it.
    """
    unnamed = any(isinstance(leaf, Alias) and isinstance(leaf.name, _anonymous_label) for leaf in leaves)
    return unnamed and set(leaves) != set(leaves_of(select))


def _group_identity(select: AnySelect) -> Expressions:
    """The GROUP BY keys, which tell groups apart; not under ROLLUP and its kin, where a NULL is ambiguous."""
    groups = select._group_by_clauses
    if is_distinct(select) or any(_is_superaggregate(group) for group in groups):
        return []
    return [part for group in groups for part in _parts(group)]


def _parts(group: Any) -> Iterator[Any]:
    """The expressions of a group: SQLAlchemy keeps a function in GROUP BY as a list of one."""
    if isinstance(group, ClauseList):
        for clause in group.clauses:
            yield from _parts(clause)
    else:
        yield group


def _whole_row(shape: Shape, capabilities: Capabilities) -> Expressions:
    """Every output: rows equal in all of them cannot be told apart by anyone."""
    expressions = [column.expression for column in shape.columns if not is_constant(column.expression)]
    if shape.select._distinct and not distinct_on(shape.select):
        # Values that compare equal were merged, and PostgreSQL takes no other expressions here.
        return expressions
    return [key for expression in expressions for key in capabilities.distinguishing(expression)]


def is_distinct(select: AnySelect) -> bool:
    """Whether it merges rows, wholly or by DISTINCT ON."""
    return bool(select._distinct or distinct_on(select))


def _is_superaggregate(group: ClauseElement) -> bool:
    # ROLLUP(...) arrives inside a ClauseList; bare text could be anything.
    return any(
        isinstance(node, TextClause)
        or (isinstance(node, FunctionElement) and _function_name(node) in _SUPERAGGREGATES)
        for node in iterate(group)
    )


def is_table(source: FromClause) -> bool:
    """A table or an alias of one; a subquery's alias carries keys too, which its rows may repeat."""
    while isinstance(source, Alias):
        source = source.element
    return isinstance(source, Table)


def is_constant(expression: ColumnElement[Any]) -> bool:
    """Whether it is a bound value, NULL or a truth, with a label or without."""
    # ORDER BY of a bare value is an error on PostgreSQL and DuckDB, and orders nothing anywhere.
    return isinstance(getattr(expression, "element", expression), BindParameter | Null | True_ | False_)


def leaves_of(select: AnySelect) -> Iterator[FromClause]:
    """What it reads, joins taken apart."""
    return (source for source in sources_of(select) if not isinstance(source, Join))


def sources_of(select: AnySelect) -> Iterator[FromClause]:
    """What it reads, joins and their parts alike."""
    stack: list[FromClause] = list(reversed(select.get_final_froms()))
    while stack:
        source = stack.pop()
        yield source
        if isinstance(source, Join):
            stack += [source.right, source.left]


def reads_row_by_row(select: AnySelect) -> bool:
    """Whether a row of its sources is left as it is, so that taking some away leaves the others alone."""
    if select._group_by_clauses or select._having_criteria or distinct_on(select):
        return False
    if select._post_criteria_clause is not None:  # of a class of the application's own, such as QUALIFY
        return False
    outputs = [*select.selected_columns, *select._order_by_clauses]
    return not any(may_aggregate(element) or _has_window(element) for element in outputs)


def sole_key(select: AnySelect) -> Callable[[Any], bool] | None:
    """Tells the columns that have another value in each row; None where there may be no such column."""
    leaves = list(leaves_of(select))
    if len(leaves) != 1 or not is_table(leaves[0]) or not _row_identity(select):
        return None
    keys = list(leaves[0].primary_key)
    return lambda expression: (
        len(keys) == 1 and column_identity(unlabelled(expression)) == column_identity(keys[0])
    )


def _has_window(element: ClauseElement) -> bool:
    return any(isinstance(part, Over) for part in iterate(element))


def _may_be_aggregate(function: FunctionElement[Any]) -> bool:
    return _function_name(function) not in _ROW_FUNCTIONS


def may_aggregate(
    element: ClauseElement, is_aggregate: Callable[[FunctionElement[Any]], bool] = _may_be_aggregate
) -> bool:
    """Whether an aggregate could stand in `element`, outside of subqueries and window functions."""
    stack: list[Any] = [element]
    while stack:
        node = stack.pop()
        if isinstance(node, SelectBase | ScalarSelect | Exists):
            continue
        if isinstance(node, Over):
            stack += [part for part in (node.partition_by, node.order_by) if part is not None]
            stack += node.element.get_children()
            continue
        if isinstance(node, FunctionElement) and is_aggregate(node):
            return True
        stack += node.get_children()
    return False


def _function_name(function: FunctionElement[Any]) -> str:
    return str(getattr(function, "name", "")).lower()
