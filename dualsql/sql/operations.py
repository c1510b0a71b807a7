"""Operators. Their results are those of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, literal, null, tuple_, type_coerce, types
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import Null, Tuple
from sqlalchemy.sql.operators import OperatorClass
from sqlalchemy.types import TypeEngine
from sqlglot import exp

from dualsql.capabilities import Capabilities
from dualsql.columns import instants
from dualsql.sql import functions, values
from dualsql.sql.scope import Scope, forbid, invalid, only

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator

Element = ColumnElement[Any]
Two = Callable[[Any, Any], Any]

_SUMS = OperatorClass.MATH | OperatorClass.DATE_ARITHEMETIC
_MULTIPLICATION = 8
"""The precedence of * and / in SQLAlchemy."""


def _both(translator: Translator, node: Any, scope: Scope) -> tuple[Element, Element]:
    """The two operands; a constant text takes the type of the other one."""
    found = only(node, "this", "expression")
    _refuse_row_of_query(found["this"], found["expression"])
    left = translator.expression(found["this"], scope)
    right = translator.expression(found["expression"], scope)
    return alike(translator, left, right), alike(translator, right, left)


def _refuse_row_of_query(left: Any, right: Any) -> None:
    """Refuse `(a, b) > (SELECT x, y ...)`, which DuckDB does not have either."""
    for row, query in ((left, right), (right, left)):
        if isinstance(row, exp.Tuple) and isinstance(query, exp.Subquery):
            forbid(
                "A comparison of a row with a subquery",
                hint="Put the subquery in FROM and compare its columns: "
                "FROM t CROSS JOIN (SELECT x, y ...) AS s WHERE (t.a, t.b) > (s.x, s.y).",
            )


def alike(translator: Translator, element: Element, other: Element) -> Element:
    """The element. A constant gets the type of the other element."""
    return values.given(translator, element, other)


def _binary(apply: Two) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        left, right = _both(translator, node, scope)
        values.require_same(translator, left, right)
        made: Element = apply(left, right)
        return made

    return read


def _compared(apply: Two) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        left, right = _both(translator, node, scope)
        values.require_same(translator, left, right)
        return comparison(apply, left, right, translator.capabilities)

    return read


def operand(element: Element, needed: OperatorClass, otherwise: TypeEngine[Any] | None = None) -> Element:
    """The element as the left side of an operator of the class `needed`.

    SQLAlchemy's types lack operators that databases support, such as `+` of a Boolean on SQLite. If the database lacks
    the operator too, its own error says so.

    Args:
        otherwise: the type to use if the element's own type lacks the operator; by default an unknown type.
    """
    has_it = element.type.operator_classes & (needed | OperatorClass.UNSPECIFIED)
    return element if has_it else type_coerce(element, otherwise or types.NullType())


def textual(element: Element) -> Element:
    """The element as the left side of LIKE, `~` or `||`."""
    return operand(element, OperatorClass.STRING_MATCH, types.String())


def concatenated(left: Element, right: Element) -> Element:
    """`left || right`."""
    return operand(left, OperatorClass.CONCATENABLE, types.String()).concat(right)


def comparison(apply: Two, left: Element, right: Element, capabilities: Capabilities) -> Element:
    """The comparison of two elements. It is unknown (NULL) if one of them is NULL."""
    if isinstance(left, Null) or isinstance(right, Null):
        # SQLAlchemy would write IS NULL, but in SQL nothing equals NULL.
        return type_coerce(null(), types.Boolean())
    if spells_instants(capabilities, left, right):
        return instants.compared(apply, left, right)
    if isinstance(left, Tuple) and isinstance(right, Tuple):
        left, right = _alike_tuples(left, right, capabilities)
    made: Element = apply(left, right)
    return made


def spells_instants(capabilities: Capabilities, *elements: Any) -> bool:
    """Whether one of them is an instant that the database stores as text."""
    return capabilities.spells_instants and any(map(instants.is_instant, elements))


def _alike_tuples(left: Tuple, right: Tuple, capabilities: Capabilities) -> tuple[Tuple, Tuple]:
    if len(left.clauses) != len(right.clauses):
        invalid("The compared rows have different numbers of values.", hint="Write as many on both sides.")
    pairs = [
        instants.instants(pair) if spells_instants(capabilities, *pair) else pair
        for pair in zip(left.clauses, right.clauses, strict=True)
    ]
    return (
        (tuple_(*(one for one, _ in pairs)), tuple_(*(other for _, other in pairs)))
        if pairs
        else (left, right)
    )


def _not_distinct(apply: Two) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        left, right = _both(translator, node, scope)
        if spells_instants(translator.capabilities, left, right):
            left, right = instants.instant(left), instants.instant(right)
        made: Element = apply(left, right)
        return made

    return read


def _arithmetic(apply: Two, needed: OperatorClass = OperatorClass.MATH) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        left, right = _both(translator, node, scope)
        return functions.computed(apply(operand(left, needed), right), translator.dialect)

    return read


def _divided(translator: Translator, node: Any, scope: Scope) -> Element:
    left, right = _both(translator, node, scope)
    kind = functions.quotient(left.type, right.type, translator.dialect)
    # SQLAlchemy's division follows Python. This one follows the database.
    divided: Element = left.op("/", precedence=_MULTIPLICATION, return_type=kind)(right)
    return functions.computed(divided, translator.dialect)


def _whole_quotient(translator: Translator, node: Any, scope: Scope) -> Element:
    left, right = _both(translator, node, scope)
    quotient: Element = left.op(
        translator.dialect.whole_division, precedence=_MULTIPLICATION, return_type=types.BigInteger()
    )(right)
    return quotient


def _negative(translator: Translator, node: Any, scope: Scope) -> Element:
    inner = only(node, "this")["this"]
    if isinstance(inner, exp.Literal) and not inner.is_string:
        # A negative number becomes one constant, so that LIMIT, frames and comparisons accept it.
        bound: Any = values.number(inner.name, translator.dialect)
        return literal(-bound.value, bound.type)
    return -operand(translator.expression(inner, scope), OperatorClass.MATH)


HANDLERS: Mapping[type[exp.Expression], Any] = {
    exp.Neg: _negative,
    exp.EQ: _compared(operators.eq),
    exp.NEQ: _compared(operators.ne),
    exp.LT: _compared(operators.lt),
    exp.LTE: _compared(operators.le),
    exp.GT: _compared(operators.gt),
    exp.GTE: _compared(operators.ge),
    exp.NullSafeEQ: _not_distinct(lambda left, right: left.is_not_distinct_from(right)),
    exp.NullSafeNEQ: _not_distinct(lambda left, right: left.is_distinct_from(right)),
    exp.Add: _arithmetic(operators.add, _SUMS),
    exp.Sub: _arithmetic(operators.sub, _SUMS),
    exp.Mul: _arithmetic(operators.mul),
    exp.Div: _divided,
    exp.IntDiv: _whole_quotient,
    exp.Mod: _arithmetic(operators.mod),
    exp.DPipe: _binary(concatenated),
    exp.BitwiseAnd: _binary(lambda left, right: operand(left, OperatorClass.BITWISE).bitwise_and(right)),
    exp.BitwiseOr: _binary(lambda left, right: operand(left, OperatorClass.BITWISE).bitwise_or(right)),
    exp.RegexpLike: _binary(lambda left, right: textual(left).regexp_match(right)),
    exp.Glob: _binary(lambda left, right: left.op("GLOB", is_comparison=True)(right)),
}
