"""DISTINCT written as a function of the first column: `distinct(x)`, `x.distinct()`, `func.distinct(x)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import ClauseElement, Label, UnaryExpression
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Exists, ScalarSelect, SelectBase

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import NotFreezableError
from dualsql.freeze.document import AnySelect
from dualsql.plan.normal_form import is_distinct_call


def without_distinct_call(select: AnySelect) -> tuple[AnySelect, bool]:
    """The Select without the word DISTINCT before its first column, and whether it was there.

    Raises:
        NotFreezableError: the word is elsewhere, outside of an aggregate function.
    """
    columns = internals.raw_columns(select)
    merged = _without_word(columns[0]) if columns else None
    if merged is not None:
        select = _with_first(select, merged)
    if any(map(_has_distinct_call, (*internals.raw_columns(select), *internals.order_by_clauses(select)))):
        _refuse_distinct_call()
    return select, merged is not None


def _without_word(column: Any) -> Any:
    """The column without the word DISTINCT before it; None if there is no such word."""
    bare = column.element if isinstance(column, Label) else column
    if not is_distinct_call(bare):
        return None
    if isinstance(bare, UnaryExpression):
        inner: Any = bare.element
    else:
        arguments = list(bare.clauses)
        if len(arguments) != 1:
            _refuse_distinct_call()
        (inner,) = arguments
    return inner.label(column.name) if isinstance(column, Label) else inner


def _with_first(select: AnySelect, column: Any) -> AnySelect:
    """The Select with another first column, and the same in its ORDER BY and GROUP BY."""
    first, *others = internals.raw_columns(select)
    selected: AnySelect = select.with_only_columns(column, *others)

    def replace_column(element: Any, **_: Any) -> Any:
        # By identity: an equal column elsewhere is not the one that the word DISTINCT stood before.
        return column if element is first else None

    def move(clauses: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(visitors.replacement_traverse(clause, {}, replace_column) for clause in clauses)

    return internals.copy_with(
        selected,
        order_by_clauses=move(internals.order_by_clauses(select)),
        group_by_clauses=move(internals.group_by_clauses(select)),
    )


def _refuse_distinct_call() -> NoReturn:
    raise NotFreezableError(
        "distinct() of one column applies to all columns: it becomes SELECT DISTINCT.",
        hint="Use select(...).distinct() for distinct rows, or func.count(distinct(column)) to count distinct values.",
    )


def _has_distinct_call(root: Any) -> bool:
    """Whether the word DISTINCT is in it outside of an aggregate function."""
    stack: list[Any] = [root]
    while stack:
        element = stack.pop()
        if isinstance(element, SelectBase | ScalarSelect | Exists):
            continue
        if is_distinct_call(element):
            return True
        parts: Iterator[Any] = element.get_children()
        if isinstance(element, FunctionElement):
            # count(DISTINCT x): the word belongs to the aggregate.
            parts = (inner for part in parts for inner in _arguments(part))
        stack += parts
    return False


def _arguments(part: ClauseElement) -> Iterator[Any]:
    """The arguments of a function, without the word DISTINCT before them."""
    if is_distinct_call(part):
        yield from part.get_children()
    elif part.__visit_name__ in {"clauselist", "grouping", "aggregate_order_by"}:
        for inner in part.get_children():
            yield from _arguments(inner)
    else:
        yield part
