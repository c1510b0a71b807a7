"""Operators. Their results are those of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import literal, null, tuple_, type_coerce, types
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import (
    BinaryExpression,
    BindParameter,
    Case,
    Cast,
    ColumnClause,
    Extract,
    False_,
    Grouping,
    Label,
    Null,
    Over,
    True_,
    Tuple,
    UnaryExpression,
)
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.operators import OperatorClass
from sqlalchemy.sql.selectable import ScalarSelect
from sqlalchemy.types import TypeEngine
from sqlglot import exp

from dualsql.capabilities import Capabilities, PatternError
from dualsql.columns import instants
from dualsql.columns.computed import MOMENTS
from dualsql.columns.forecast import Forecast
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import Element
from dualsql.errors import ConfigurationError, ForbiddenSQLError, InvalidSQLError
from dualsql.sql import durations, functions, values
from dualsql.sql.scope import Scope, forbid, invalid, only

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator

Two = Callable[[Any, Any], Any]

_SUMS = OperatorClass.MATH | OperatorClass.DATE_ARITHEMETIC
_MULTIPLICATION = 8
"""The precedence of * and / in SQLAlchemy."""


def _both(translator: Translator, node: Any, scope: Scope) -> tuple[Element, Element]:
    """The two operands; a constant text takes the type of the other one."""
    args = only(node, "this", "expression")
    _refuse_row_of_query(args["this"], args["expression"])
    left = translator.expression(args["this"], scope)
    right = translator.expression(args["expression"], scope)
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
    return values.in_stored_form(translator, element, other)


def _binary(apply: Two) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        left, right = _both(translator, node, scope)
        values.require_same(translator, left, right)
        result: Element = apply(left, right)
        return result

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


def enclose(element: Element) -> Element:
    """A condition as an operand, in parentheses.

    SQLAlchemy writes `flag = 0` for NOT of a Boolean where there is none, and sets a condition within BETWEEN apart by
    neither precedence: SQLite reads `x BETWEEN 1 AND y = 2` as `(x BETWEEN 1 AND y) = 2`.
    """
    is_condition = isinstance(element.type, types.Boolean) and not isinstance(element, _APART)
    return Grouping(element) if is_condition else element


_APART = (
    ColumnClause,
    BindParameter,
    FunctionElement,
    Case,
    Cast,
    Grouping,
    ScalarSelect,
    Null,
    True_,
    False_,
)
"""What is written in one piece."""


def as_output(element: Element, capabilities: Capabilities) -> Element:
    """An output of a SELECT. A condition is a number where the database has no truth values of its own."""
    if capabilities.computation.has_truths:
        return element
    value = Forecast(Meanings(computation=capabilities.computation)).of(element)
    is_condition = value.is_computed and isinstance(value.type, types.Boolean)
    return type_coerce(element, types.BigInteger()) if is_condition else element


def textual(element: Element) -> Element:
    """The element as the left side of LIKE, `~` or `||`."""
    return operand(element, OperatorClass.STRING_MATCH, types.String())


_TEXTLESS = (types.Boolean, types.Integer, types.Numeric, types.Float, types.Date, types.DateTime, types.Time)


def _concatenation(translator: Translator, node: Any, scope: Scope) -> Element:
    """`left || right`. A constant text beside a number or a date stays a text: its other side becomes one."""
    args = only(node, "this", "expression")
    left, right = (translator.expression(args[side], scope) for side in ("this", "expression"))
    if not any(isinstance(side.type, _TEXTLESS) for side in (left, right)):
        left, right = alike(translator, left, right), alike(translator, right, left)
    values.require_same(translator, left, right)
    return concatenate(left, right)


def concatenate(left: Element, right: Element) -> Element:
    """`left || right`."""
    left, right = (_in_brackets(side) for side in (left, right))
    return operand(left, OperatorClass.CONCATENABLE, types.String()).concat(right)


def _in_brackets(element: Element) -> Element:
    """An operand of `||`, which binds more than all arithmetic on SQLite. SQLAlchemy leaves its brackets out."""
    is_operation = isinstance(element, BinaryExpression) and not isinstance(element.type, types.String)
    return Grouping(element) if is_operation else element


def comparison(apply: Two, left: Element, right: Element, capabilities: Capabilities) -> Element:
    """The comparison of two elements. It is unknown (NULL) if one of them is NULL."""
    if isinstance(left, Null) or isinstance(right, Null):
        # SQLAlchemy would write IS NULL, but in SQL nothing equals NULL.
        return type_coerce(null(), types.Boolean())
    if spells_instants(capabilities, left, right):
        return instants.compared(apply, left, right)
    if isinstance(left, Tuple) and isinstance(right, Tuple):
        left, right = _alike_tuples(left, right, capabilities)
    condition: Element = apply(left, right)
    return condition


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
            left, right = instants.normalized_instant(left), instants.normalized_instant(right)
        result: Element = apply(left, right)
        return result

    return read


def _arithmetic(apply: Two, needed: OperatorClass = OperatorClass.MATH) -> Any:
    def read(translator: Translator, node: Any, scope: Scope) -> Element:
        shifted = durations.shift(translator, node, scope) if needed is _SUMS else None
        if shifted is not None:
            return shifted
        left, right = _both(translator, node, scope)
        right = durations.days(translator, left, right) if needed is _SUMS else right
        result = apply(operand(left, needed), right)
        computation = translator.capabilities.computation
        if computation.reads_dates and any(isinstance(side.type, MOMENTS) for side in (left, right)):
            return type_coerce(result, Forecast(Meanings(computation=computation)).of(result).type)
        kind = functions.result_of_arithmetic(left.type, right.type, result.type)
        with_type = result if kind is result.type else type_coerce(result, kind)
        return functions.with_computed_type(with_type, translator.dialect)

    return read


def _divided(translator: Translator, node: Any, scope: Scope) -> Element:
    left, right = _both(translator, node, scope)
    kind = functions.quotient(left.type, right.type, translator.dialect)
    if translator.dialect.extracts_exactly and (_is_extracted(left) or _is_extracted(right)):
        kind = kind if isinstance(kind, types.Float) else types.Numeric()
    # SQLAlchemy's division follows Python. This one follows the database.
    divided: Element = left.op("/", precedence=_MULTIPLICATION, return_type=kind)(right)
    return functions.with_computed_type(divided, translator.dialect)


_UNCHANGED = frozenset(
    "abs coalesce first_value greatest lag last_value lead least max min mod nullif sum".split()
)


def _is_extracted(element: Any) -> bool:
    """Whether it is a field of a date, or computed of one by operators and functions of numbers."""
    if isinstance(element, Extract):
        return True
    if isinstance(element, FunctionElement):
        return element.name in _UNCHANGED and any(map(_is_extracted, element.clauses))
    wraps = isinstance(element, BinaryExpression | UnaryExpression | Grouping | Label | Over)
    return wraps and any(map(_is_extracted, element.get_children()))


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


def require_safe_pattern(translator: Translator, pattern: Any) -> None:
    """Refuse a regular expression that the database shall not get."""
    constant = pattern.value if values.is_text(pattern) else None
    if constant is None and translator.dialect.needs_constant_patterns:
        invalid("A regular expression is not a constant.", hint="Write it as a text, or use LIKE.")
    try:
        translator.capabilities.require_pattern(constant)
    except PatternError as error:
        raise InvalidSQLError(str(error), hint="Write a simpler pattern, or LIKE.") from error
    except ConfigurationError as error:
        raise ForbiddenSQLError(error.message, hint=error.hint) from error


def require_safe_patterns(translator: Translator, name: str, arguments: Sequence[Any]) -> None:
    """Refuse a call with a regular expression that the database shall not get."""
    if name == "substring" or name.startswith("regexp_"):
        for pattern in arguments[1:2]:
            if name != "substring" or values.is_text(pattern):  # its second argument may be a number
                require_safe_pattern(translator, pattern)


def _match(translator: Translator, node: Any, scope: Scope) -> Element:
    left, right = _both(translator, node, scope)
    values.require_same(translator, left, right)
    require_safe_pattern(translator, right)
    match: Element = textual(left).regexp_match(right)
    match.type = types.Boolean()  # SQLAlchemy gives it none
    return match


def _invert(translator: Translator, node: Any, scope: Scope) -> Element:
    inner = translator.expression(only(node, "this")["this"], scope)
    complement: Element = operand(inner, OperatorClass.BITWISE).bitwise_not()
    return complement


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
    exp.DPipe: _concatenation,
    exp.BitwiseAnd: _binary(lambda left, right: operand(left, OperatorClass.BITWISE).bitwise_and(right)),
    exp.BitwiseOr: _binary(lambda left, right: operand(left, OperatorClass.BITWISE).bitwise_or(right)),
    exp.BitwiseXor: _binary(lambda left, right: operand(left, OperatorClass.BITWISE).bitwise_xor(right)),
    exp.BitwiseLeftShift: _binary(
        lambda left, right: operand(left, OperatorClass.BITWISE).bitwise_lshift(right)
    ),
    exp.BitwiseRightShift: _binary(
        lambda left, right: operand(left, OperatorClass.BITWISE).bitwise_rshift(right)
    ),
    exp.BitwiseNot: _invert,
    exp.RegexpLike: _match,
    exp.Glob: _binary(lambda left, right: left.op("GLOB", is_comparison=True)(right)),
}
