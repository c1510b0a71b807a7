"""Row values, `(a, b)`: where they may stand in a text for a database that only compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import tuple_
from sqlalchemy.sql.elements import Tuple
from sqlglot import exp

from dualsql.sql.scope import Scope, forbid, invalid, only

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


def row_value(translator: Translator, node: Any, scope: Scope) -> Tuple:
    """The row value of a node.

    Raises:
        ForbiddenSQLError: the database does not have one there.
    """
    items = only(node, "expressions").get("expressions") or invalid(
        "A row has no values.", hint="Write some: (1, 2)."
    )
    parts = [translator.expression(item, scope) for item in items]
    if translator.dialect.has_row_values:
        return tuple_(*parts)
    if not _is_compared(node):
        refuse_row()
    # SQLite has no rows in rows but in WHERE. Those of one form compare as their values one after the other.
    return tuple_(
        *(value for part in parts for value in (part.clauses if isinstance(part, Tuple) else [part]))
    )


def refuse_row() -> NoReturn:
    """Raise ForbiddenSQLError for a row value where one value belongs."""
    forbid(
        "A row value beside or in place of one value",
        hint="Rows are compared with rows: (a, b) = (1, 2), (a, b) IN (SELECT x, y ...). Elsewhere write their values "
        "one by one: ORDER BY a, b.",
    )


def is_row(node: Any) -> bool:
    """Whether a node, perhaps in parentheses, is a row value."""
    return isinstance(_within(node), exp.Tuple)


def _is_compared(node: Any) -> bool:
    """Whether a row value is compared with rows of its form."""
    around = node.parent
    while isinstance(around, exp.Paren):
        node, around = around, around.parent
    match around:
        case (
            exp.EQ()
            | exp.NEQ()
            | exp.LT()
            | exp.LTE()
            | exp.GT()
            | exp.GTE()
            | exp.NullSafeEQ()
            | exp.NullSafeNEQ()
        ):
            return _are_alike(around.this, around.expression)
        case exp.Between():
            return _are_alike(around.this, around.args["low"]) and _are_alike(
                around.this, around.args["high"]
            )
        case exp.In():
            members = around.expressions
            # The parser takes MySQL's VALUES for a function, and its further rows for members.
            is_of_query = not members or _is_query(members[0])
            return is_row(around.this) and (
                is_of_query or all(_are_alike(around.this, each) for each in members)
            )
        case exp.Case():
            return node.arg_key == "this" and all(
                _are_alike(node, branch.this) for branch in around.args["ifs"]
            )
        case exp.If():
            return (
                isinstance(around.parent, exp.Case)
                and _are_alike(around.parent.this, around.this)
                and node.arg_key == "this"
            )
        case exp.Tuple():  # of a row that was looked at before; a row of VALUES was not
            return not isinstance(around.parent, exp.Values)
    return False


def _are_alike(one: Any, other: Any) -> bool:
    """Whether rows stand in the same places of both. That they are equally long is looked at elsewhere."""
    rows = [_within(each) for each in (one, other)]
    if not all(isinstance(each, exp.Tuple) for each in rows):
        return not any(isinstance(each, exp.Tuple) for each in rows)
    return all(map(_are_alike, rows[0].expressions, rows[1].expressions))


def _is_query(node: Any) -> bool:
    return isinstance(node, exp.Query | exp.Values) or (
        isinstance(node, exp.Anonymous) and str(node.this).lower() == "values"
    )


def _within(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
