"""What may stand beside AND; the rule: an operand is whole, so that a filter added later still applies to all of it.

A forged document may put anything anywhere. An element that is rendered open-ended (`x ORDER BY y`, `x DESC`,
a bare list, an operator in the wrong place) would swallow or split a WHERE that is appended to the statement,
the tenant's for example. Such elements are refused where they would not stand in honest statements.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.sql import elements, operators, selectable
from sqlalchemy.sql.functions import FunctionElement

from dualsql.freeze.refusals import malformed

_OPEN_ENDED = (
    aggregate_order_by,
    elements.CollationClause,
    elements.Slice,
    elements._label_reference,
    elements._textual_label_reference,
)
_CLOSED = (selectable.SelectStatementGrouping, selectable.FromGrouping, elements.TextClause)
_MEMBERSHIP = (operators.in_op, operators.not_in_op)
_CALLS = (FunctionElement, elements.FunctionFilter, elements.AggregateOrderBy)

PREFIXED = frozenset(
    {"neg", "inv", "distinct_op", "exists", "any_op", "all_op", "bitwise_not_op", "is_true", "is_false"}
)
ORDERING = frozenset({"desc_op", "asc_op", "nulls_first_op", "nulls_last_op"})
CHAINED = frozenset(
    """and_ or_ add mul concat_op comma_op bitwise_and_op bitwise_or_op bitwise_xor_op is_distinct_from
    is_not_distinct_from""".split()
)
_NOWHERE = frozenset({"from_", "as_", "filter_op", "null_op", "comma_op", "function_as_comparison_op"})
INFIX = frozenset(
    name
    for name in vars(operators)
    if name not in PREFIXED | ORDERING | _NOWHERE and not name.startswith("_")
)


def check_operand(element: Any) -> Any:
    """`element`, if it is an expression that is whole once `self_group` has put its parentheses."""
    is_whole = _is_whole(element.__class__) or _is_whole_itself(element)
    return element if is_whole else malformed("an open-ended operand")


@cache
def _is_whole(cls: Any) -> bool:
    """Whether all elements of the class are."""
    if issubclass(cls, elements.ColumnElement):
        return not issubclass(cls, (*_OPEN_ENDED, elements.UnaryExpression, elements.BindParameter))
    return issubclass(cls, _CLOSED)


def _is_whole_itself(element: Any) -> bool:
    if isinstance(element, elements.UnaryExpression):
        return element.modifier is None
    # A list of values belongs to IN, and SQLAlchemy's cache keys ignore it.
    return isinstance(element, elements.BindParameter) and not element.expanding


def check_one(element: Any) -> Any:
    """`element`, if it is rendered as one value, or is a Bundle: `a, b` would shift what stands behind it."""
    is_list = isinstance(element, elements.ClauseList | elements.ElementList) or (
        isinstance(element, elements.ExpressionClauseList) and element.operator is operators.comma_op
    )
    is_bundle = "bundle" in getattr(element, "_annotations", ())
    if is_list and not is_bundle and not isinstance(element, elements.Tuple | array):
        malformed("a list where one value is due")
    return element


def check_right(element: Any, op: Any) -> Any:
    """The right operand of `op`: COLLATE takes a collation, an index takes a slice, others a whole expression."""
    if op in _MEMBERSHIP or getattr(op, "opstring", "").upper() in ("IN", "NOT IN"):
        return _check_members(element)
    if op is operators.collate and isinstance(element, elements.CollationClause):
        return element
    if op is operators.getitem and isinstance(element, elements.Slice):
        return element
    return check_operand(element)


def _check_members(element: Any) -> Any:
    """The right side of IN: to SQLite, a bare name there is a table, whoever registered it."""
    bare = element
    while isinstance(bare, elements.Label | elements.TypeCoerce):
        bare = bare._element if isinstance(bare, elements.Label) else bare.clause
    if isinstance(bare, elements.NamedColumn):
        malformed("a name where the members of IN are due")
    if isinstance(bare, elements.BindParameter):
        return element if bare.expanding else malformed("one value where the members of IN are due")
    return check_operand(element)


def check_call(element: Any) -> Any:
    """`element`, if it is a function call: OVER, FILTER and WITHIN GROUP bind to nothing else."""
    return element if isinstance(element, _CALLS) else malformed("a clause of a function on something else")


def enclosed(element: Any, against: Any) -> Any:
    """`element` with the parentheses that `against` needs; a boolean gets no `= 1` as it would beside AND."""
    grouped = element.self_group(against=against)
    return element if isinstance(grouped, elements.AsBoolean) else grouped


# Operators whose right side is a list without parentheses, and the operator of that list.
BARE = {
    operators.between_op: operators.and_,
    operators.not_between_op: operators.and_,
    operators.regexp_replace_op: operators.comma_op,
}


class Bare:
    """A list as it is written between BETWEEN's operands: of use to a binary expression, and to nothing else."""

    def __init__(self, element: Any) -> None:
        self._element = element

    def operand_of(self, op: Any) -> Any:
        element = self._element
        if element.operator is not BARE[op]:
            malformed("operands of an operator")
        grouped = [clause.self_group(against=element.operator) for clause in element.clauses]
        # Parentheses only: without them a hostile OR would reach what is later added with AND.
        element.clauses = tuple(
            [
                g if isinstance(g, elements.Grouping) else c
                for c, g in zip(element.clauses, grouped, strict=True)
            ]
        )
        return element


def bare_copy(element: Any, expected: Any) -> Any:
    """A copy of a list that is rendered without parentheses of its own."""
    if element.operator is not expected:
        malformed("operands of an operator")
    cls: Any = type(element)
    bare = cls.__new__(cls)
    bare.__dict__.update(element.__dict__, group=False)
    return bare
