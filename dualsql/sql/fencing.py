"""Which texts could tell of rows that rules hide; the rule: what is not known to be harmless stands behind a fence.

A database may move conditions inward, and compute 1/(id - 3) of a row before the rule that hides the row is tested.
That the query fails then tells of the row. Nothing is moved past OFFSET, which costs the conditions their indexes;
comparisons cannot fail, and need no fence.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import FromClause, select
from sqlglot import exp

_HARMLESS = frozenset({
    exp.Select, exp.From, exp.Join, exp.Where, exp.Having, exp.Group, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Distinct, exp.With, exp.CTE, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.Table, exp.TableAlias,
    exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or,
    exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Placeholder, exp.Tuple,
    exp.Neg, exp.Cast, exp.DataType, exp.Like, exp.Anonymous, exp.Exists,
})  # fmt: skip

_FIGURES = frozenset({"count", "min", "max"})
_OF_VISIBLE_ROWS = frozenset({"sum", "avg"})
"""They can overflow, by no other rows than those that are seen; unless a hidden row says which of these to add."""

_DATES = frozenset({exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME})
_SOURCES = (exp.From, exp.Join, exp.Subquery, exp.SetOperation, exp.CTE)


def can_fail(query: exp.Expression, dialect: str) -> bool:
    """Whether what the text computes of a row could fail."""
    if dialect == "duckdb":
        return True  # a comparison of a text with a number reads the text as one
    nodes = list(query.walk())
    is_nested = sum(isinstance(node, exp.Select) for node in nodes) > 1
    return not all(_is_harmless(node, is_nested=is_nested) for node in nodes)


def _is_harmless(node: Any, *, is_nested: bool) -> bool:
    match node:
        case exp.Anonymous():
            name = str(node.this).lower()
            return name in _FIGURES or (name in _OF_VISIBLE_ROWS and not is_nested)
        case exp.Subquery():
            # As a value it fails when it has two rows.
            return node.parent is None or isinstance(node.parent, _SOURCES) or node.arg_key == "query"
        case exp.Neg():
            return isinstance(node.this, exp.Literal)
        case exp.Cast():
            return isinstance(node.this, exp.Literal) and node.to.this in _DATES
        case exp.Like():
            pattern = node.expression
            return isinstance(pattern, exp.Literal) and "\\" not in pattern.name
        case _:
            return type(node) in _HARMLESS


def fenced(relation: FromClause) -> FromClause:
    """The relation, from which nothing is computed before its own rows are known."""
    found: FromClause = select(*relation.c).offset(0).subquery()
    return found
