"""Brings set operations and text() into the form of a Select."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Join,
    Select,
    TextClause,
    TextualSelect,
    UnaryExpression,
    select,
    type_coerce,
    types,
)  # fmt: skip

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.forecast import Forecast, parts_of
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import SQLType
from dualsql.columns.result import classify, own_name, with_criteria_of
from dualsql.freeze.document import AnyCompound, AnySelect
from dualsql.plan.keys import split_modifiers, unpageable

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


def select_from_text(statement: TextualSelect) -> AnySelect:
    """A SELECT of the columns that the author named for the text.

    Raises:
        NoTotalOrderError: the text has an order or a limit of its own.
    """
    if not isinstance(statement.element, TextClause) or has_outer_order(statement.element.text):
        raise unpageable("A text() statement with its own ORDER BY or LIMIT cannot be paged.")
    return select(*statement.subquery("result").c)


def select_from_compound(statement: AnyCompound, meanings: Meanings) -> AnySelect:
    """A SELECT from the set operation, in its order.

    Raises:
        NoTotalOrderError: its order is not one of its own columns.
    """
    order = [split_modifiers(clause) for clause in internals.order_by_clauses(statement)]
    outputs = list(statement.selected_columns)
    union = _united(statement, list(_fenced(statement.order_by(None)).subquery("result").c), meanings)
    keys = [with_modifiers(union[_output_position(base, outputs)], modifiers) for base, modifiers in order]
    return with_criteria_of(statement, select(*union).order_by(*keys))


def _united(statement: AnyCompound, columns: list[Any], meanings: Meanings) -> list[Any]:
    """The columns of a set operation with the types of all its parts."""
    outputs = [list(part.selected_columns) for part in parts_of(statement)]
    if any(len(part) != len(columns) for part in outputs):  # one of them is text
        return columns
    united = (_united_type(parts, meanings) for parts in zip(*outputs, strict=True))
    return [
        column if type_ is None else type_coerce(column, type_).label(column.name)
        for column, type_ in zip(columns, united, strict=True)
    ]


def _united_type(parts: Sequence[ColumnElement[Any]], meanings: Meanings) -> SQLType | None:
    """The type of a column of a set operation, of which SQLAlchemy takes that of the first part; None if it is right.

    Databases use a type that holds the values of all parts. Where they have no common kind, no type is announced.
    """
    declared = parts[0].type
    united = Forecast(meanings).united(parts, declared).type
    kinds = {classify(part.type)[1] for part in parts if not isinstance(part.type, types.NullType)}
    if "datetime" in kinds and kinds <= {"date", "datetime"}:
        united = types.DateTime(timezone=any(getattr(part.type, "timezone", False) for part in parts))
    return None if repr(united) == repr(declared) else united


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
    raise unpageable("A set operation can only be ordered by its own columns.")


def with_modifiers(expression: Any, modifiers: Sequence[Any]) -> Any:
    """The reverse of `dualsql.plan.keys.split_modifiers`."""
    for modifier in reversed(modifiers):
        expression = UnaryExpression(expression, modifier=modifier)
    return expression
