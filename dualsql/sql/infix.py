"""Operators of arrays, documents, patterns and periods: one row each, with the databases' sign."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import cast, literal, types
from sqlalchemy.sql.elements import BindParameter
from sqlglot import exp

from dualsql.columns.own_types import Element
from dualsql.sql.operations import require_safe_pattern
from dualsql.sql.scope import Scope, forbid, forbid_node, only
from dualsql.sqlalchemy_dialects import array

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


_COMPARISON = 5
"""The precedence of LIKE in SQLAlchemy."""


class Infix(NamedTuple):
    """A binary operator.

    Attributes:
        sign: as the database writes it; `TextDialect.operators` has it where the database has the operator.
        likens: a constant text beside it is read as a value of the other operand's type.
        matches: its right side is a regular expression.
        precedence: for SQLAlchemy. A stored document has 0 for a sign that is a logical operator of MySQL.
    """

    sign: str
    likens: bool = False
    matches: bool = False
    precedence: int = _COMPARISON


INFIX: Mapping[type[exp.Expression], Infix] = {
    exp.ArrayContainsAll: Infix("@>", likens=True),
    exp.ArrayContainedBy: Infix("<@", likens=True),
    exp.ArrayOverlaps: Infix("&&", likens=True, precedence=0),
    exp.JSONBContainsTopKey: Infix("?"),
    exp.JSONBContainsAnyTopKeys: Infix("?|"),
    exp.JSONBContainsAllTopKeys: Infix("?&"),
    exp.RegexpILike: Infix("~*", matches=True),
    exp.SimilarTo: Infix("SIMILAR TO", matches=True),
    exp.Overlaps: Infix("OVERLAPS"),
    exp.Xor: Infix("XOR", precedence=0),
}

_PLAIN_PATH = re.compile(r"\{\s*[\w.$ -]+(?:\s*,\s*[\w.$ -]+)*\s*\}|\{\s*\}")
"""A path of PostgreSQL whose parts need no quotes: {a, 0, b}."""


def _read(translator: Translator, node: Any, scope: Scope) -> Element:
    operator = INFIX[type(node)]
    if operator.sign not in translator.dialect.operators:
        forbid_node(node)
    args = only(node, "this", "expression")
    left, right = (translator.expression(args[name], scope) for name in ("this", "expression"))
    if operator.matches:
        require_safe_pattern(translator, right)
    if operator.likens:
        left, right = _with_type_of(left, right), _with_type_of(right, left)
    return left.op(operator.sign, precedence=operator.precedence, is_comparison=True)(right)


def _with_type_of(element: Element, other: Element) -> Element:
    if isinstance(element, array) and isinstance(other.type, types.ARRAY):
        return cast(element, other.type)  # of texts, it would be an array of VARCHAR
    is_text = isinstance(element, BindParameter) and isinstance(element.value, str)
    if not is_text or isinstance(other.type, types.NullType | types.String):
        return element
    # As a text first: a driver would write a document of it.
    return cast(literal(element.value, types.Text()), other.type)


def _at_path(sign: str) -> Callable[[Translator, Any, Scope], Element]:
    """`#>` and `#>>`, by the functions that they are: the sign would begin a comment on MySQL."""

    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        if translator.dialect.at_path is None:
            forbid_node(node)
        args = only(node, "this", "expression")
        value = translator.expression(args["this"], scope)
        parts = [literal(part, types.Text()) for part in _path(args["expression"])]
        return translator.dialect.at_path(value, parts, sign)

    return read


def _path(node: Any) -> list[str]:
    if isinstance(node, exp.Cast):
        node = node.this
    if isinstance(node, exp.Array):
        return [part.name for part in node.expressions if isinstance(part, exp.Literal)]
    if not isinstance(node, exp.Literal) or not _PLAIN_PATH.fullmatch(node.name):
        forbid("A path that is not a list of names", hint="Write x #>> '{a, b}', or x -> 'a' ->> 'b'.")
    return [part.strip() for part in node.name.strip("{} ").split(",") if part.strip()]


HANDLERS: Mapping[type[exp.Expression], Any] = {
    **dict.fromkeys(INFIX, _read),
    exp.JSONBExtract: _at_path("#>"),
    exp.JSONBExtractScalar: _at_path("#>>"),
}
