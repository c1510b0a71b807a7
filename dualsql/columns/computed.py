"""The types of values that a statement computes of others, as databases compute them.

SQLAlchemy's type for such a value is that of one operand, which the value need not have (the sum of truth values, the
quotient of an application's own type). Where the tables here say nothing, no type is announced, and the value is shown
as the driver returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import UnaryExpression, types
from sqlalchemy.sql import elements, operators
from sqlalchemy.sql.functions import FunctionElement

from dualsql.columns.kinds import (
    AVERAGING,
    DECIMAL,
    DOUBLE,
    LARGE,
    NUMBERS,
    WHOLE,
    Value,
    family,
    function_name,
    is_null,
    is_of_argument,
    number_of,
    operand_of,
)  # fmt: skip
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import SQLType, is_decorator
from dualsql.sqlalchemy_dialects import JSONB


class _Argument(NamedTuple):
    """An argument of a function, and its value where it is a constant."""

    type: SQLType
    value: Any


# By function: the narrowest type of what it computes of numbers; it is wider if an argument is.
_COMPUTING = {"sum": WHOLE, "total": DOUBLE, "abs": WHOLE, "mod": WHOLE, "ceil": WHOLE, "ceiling": WHOLE,
              "floor": WHOLE, "round": WHOLE, "trunc": WHOLE, "bit_and": WHOLE, "bit_or": WHOLE,
              "pow": DOUBLE, "power": DOUBLE}  # fmt: skip
_COUNTING = frozenset({"count", "row_number", "rank", "dense_rank"})
"""SQLAlchemy takes these large integers for integers."""
_SHARES = frozenset({"percent_rank", "cume_dist"})
"""SQLAlchemy takes these doubles for decimals."""
MOMENTS = (types.Date, types.DateTime, types.Time)
_SPELLED_BITWISE = {
    "&": operators.bitwise_and_op, "|": operators.bitwise_or_op, "<<": operators.bitwise_lshift_op,
    ">>": operators.bitwise_rshift_op,
}  # fmt: skip
_SPELLED = {
    "+": operators.add, "-": operators.sub, "*": operators.mul, "%": operators.mod, **_SPELLED_BITWISE
}  # fmt: skip
"""What `x.op("+")(y)` is, if x and y are numbers."""
_BITWISE = frozenset({*_SPELLED_BITWISE.values(), operators.bitwise_xor_op})
_COMPUTED = frozenset({*_SPELLED.values(), *_BITWISE, operators.truediv, operators.floordiv})
_OF_THEIR_LEFT_SIDE = frozenset({"||", "->", "#>", "#-"})
"""Operators whose values have the type of their left side, on every engine that has them."""
_WITH_TEXTS = frozenset({types.Numeric, types.DateTime, types.Date, types.Time, types.Uuid})
"""Families of values that `||` takes as texts."""


class ComputedTypes:
    """The types of computed expressions of one statement; those of their operands are a Forecast's."""

    def __init__(self, meanings: Meanings, value_of: Callable[[Any], Value]) -> None:
        self._computation = meanings.computation
        self._stored = meanings.stored_type
        self._value_of = value_of

    def of(self, expression: Any) -> Value:
        """What is known of the values of an operator or a function that computes."""
        if isinstance(expression, elements.WithinGroup):
            return self._of_ordered_set(expression)
        return Value(self._of(expression), is_computed=True)

    def _of(self, expression: Any) -> SQLType:
        if isinstance(expression, elements.BinaryExpression):
            return self._of_operator(expression)
        if isinstance(expression, UnaryExpression) and expression.operator is operators.neg:
            operand = self._term(expression.element, expression.element)
            if operand is None:
                return self._of_others(operators.neg, [expression.element], expression.type)
            return self._number(max(WHOLE, operand))
        if isinstance(expression, UnaryExpression) and expression.operator is operators.distinct_op:
            return self._value_of(expression.element).type
        if isinstance(expression, elements.Extract):
            return self._computation.fractions.get(expression.field.lower(), expression.type)
        if isinstance(expression, FunctionElement):
            return self._of_function(expression)
        return expression.type if isinstance(expression.type, types.Boolean) else self._bare(expression.type)

    def _of_ordered_set(self, aggregate: Any) -> Value:
        """What is known of an aggregate with WITHIN GROUP."""
        name, kind = function_name(aggregate.element), aggregate.type
        if name not in {"percentile_cont", "percentile_disc", "mode"}:
            return self._value_of(aggregate.element)
        if name == "percentile_cont":
            number = self._place(kind)
            if family(self._stored(kind)) is types.Time:
                kind = types.Interval()
            elif number is not None and number < DECIMAL:
                kind = NUMBERS[DOUBLE]
        return Value(kind, is_computed=True)

    def _bare(self, type_: SQLType) -> SQLType:
        """The type without the application's code, and without the words of an enum."""
        stored = self._stored(type_)
        return types.String() if isinstance(stored, types.Enum) else stored

    def _number(self, place: int) -> SQLType:
        return NUMBERS[DOUBLE if place == DECIMAL and self._computation.in_doubles else place]

    def _place(self, type_: SQLType) -> int | None:
        return number_of(self._stored(type_))

    def _operand(self, expression: Any) -> SQLType:
        return self._value_of(operand_of(expression)).type

    def _number_of(self, expression: Any) -> int | None:
        return self._place(self._operand(expression))

    def _term(self, side: Any, other: Any) -> int | None:
        """The number that a side of an operation is taken for; NULL is one of the kind of the other side."""
        if is_null(side):
            return self._number_of(other)
        is_read = self._computation.reads_texts and isinstance(
            self._stored(self._operand(side)), types.String
        )
        return DOUBLE if is_read else self._number_of_digits(side) or self._number_of(side)

    def _number_of_digits(self, side: Any) -> int | None:
        """The number that a date or an instant of a table is computed with; None for any other value."""
        kind = self._stored(self._operand(side))
        if not self._computation.reads_dates or not isinstance(kind, MOMENTS):
            return None
        has_fraction = bool(getattr(kind, "fsp", None))
        is_known = isinstance(kind, types.Date) or has_fraction or not self._value_of(side).is_computed
        return (DECIMAL if has_fraction else LARGE) if is_known else None

    def _of_operator(self, expression: Any) -> SQLType:
        sign, declared = expression.operator, expression.type
        if operators.is_comparison(sign) and isinstance(declared, types.NullType):
            return types.Boolean() if self._computation.has_truths else types.Integer()
        if sign is operators.concat_op:
            return self._of_texts(expression)
        is_guess = (sign in _BITWISE or states_no_type(sign)) and repr(declared) == repr(expression.left.type)
        operation = _SPELLED.get(getattr(sign, "opstring", ""), sign) if is_guess else sign
        if operation not in _COMPUTED and not is_guess:
            return self._bare(declared)
        left = self._term(expression.left, expression.right)
        right = self._term(expression.right, expression.left)
        if operation in _COMPUTED and left is not None and right is not None:
            return self._of_sign(operation, left, right, declared)
        if operation in _COMPUTED or (is_guess and left is None):
            return self._of_others(operation, [expression.left, expression.right], declared)
        return types.NULLTYPE

    def _of_sign(self, sign: Any, left: int, right: int, declared: SQLType) -> SQLType:
        """The type of an operation on two numbers."""
        widest = max(WHOLE, left, right)
        if sign in _BITWISE:
            return NUMBERS[LARGE if LARGE in {left, right} else WHOLE]
        if sign is operators.truediv:
            return self._number(DOUBLE if self._computation.divides_in_doubles else max(DECIMAL, widest))
        if sign is operators.floordiv and self._computation.floors_in_doubles:
            return NUMBERS[DOUBLE]
        return self._exact_number(declared, widest)

    def _of_texts(self, expression: Any) -> SQLType:
        """The type of `left || right`, for which SQLAlchemy takes that of the left side."""
        kind = self._bare(expression.type)
        if self._computation.is_loose or family(kind) in _WITH_TEXTS or isinstance(kind, types.Interval):
            return types.String()
        is_document = isinstance(kind, types.JSON) and not isinstance(kind, JSONB)
        return types.NULLTYPE if is_document else kind  # text on some databases

    def _of_others(self, sign: Any, operands: Sequence[Any], declared: SQLType) -> SQLType:
        """The type of what an operator makes of operands that are not all numbers."""
        if not self._computation.has_truths or isinstance(declared, types.Boolean):
            # These databases compute with the number that a text or a date begins with.
            return types.NULLTYPE
        kinds = [self._stored(self._operand(one)) for one in operands]
        families = {family(one) for one in kinds}
        if isinstance(sign, operators.custom_op) and types.Time in families:
            return types.NULLTYPE
        if types.Interval in families and not families & {types.Time, types.Date, types.DateTime}:
            return types.Interval()
        if sign is operators.sub and families == {types.Date, types.DateTime}:
            return types.Interval()  # SQLAlchemy takes an instant less a date for an instant
        if types.Time in families and sign in {operators.neg, operators.mul, operators.truediv}:
            return types.Interval()
        if families == {types.Time, types.DateTime}:
            return next(one for one in kinds if isinstance(one, types.DateTime))
        return self._bare(declared)

    def _of_function(self, expression: Any) -> SQLType:
        name, arguments = function_name(expression), list(expression.clauses)
        declared: SQLType = expression.type
        is_untyped = isinstance(declared, types.NullType)
        if is_untyped:
            typed_arguments = [
                _Argument(self._stored(self._operand(one)), getattr(one, "value", None)) for one in arguments
            ]
            declared = self._bare(self._computation.functions(name, typed_arguments))
        if name in _SHARES:
            return NUMBERS[DOUBLE]
        if name in _COUNTING and self._place(declared) == WHOLE:
            return NUMBERS[LARGE]
        if not arguments or (name not in _COMPUTING and name not in AVERAGING):
            return declared
        first = self._operand(arguments[0])
        is_inherited = repr(declared) == repr(self._bare(first)) or (
            not is_untyped and is_of_argument(declared, arguments[0])
        )
        if not is_inherited and not isinstance(declared, types.NullType):
            return self._of_stated(name, first, declared)
        number = self._term(arguments[0], arguments[0])
        if number is None:
            # PostgreSQL adds up times as durations.
            return self._of_others(operators.mul if name == "sum" else None, arguments[:1], declared)
        if name in AVERAGING:
            return declared
        if isinstance(declared, types.NullType) and name != "sum":
            return declared
        return self._of_numbers(name, number, declared)

    def _of_stated(self, name: str, first: SQLType, declared: SQLType) -> SQLType:
        """The type of a function that is stated, by its author or for each database."""
        number, argument = self._place(declared), self._place(first)
        if name in AVERAGING and argument is None and number is not None:
            return types.NULLTYPE  # PostgreSQL's average of times is a duration
        is_cut = number in {WHOLE, LARGE} and argument is not None and name in {"pow", "power"}
        return NUMBERS[DOUBLE] if is_cut else declared

    def _of_numbers(self, name: str, number: int, declared: SQLType) -> SQLType:
        if name in self._computation.in_doubles_only and number < DECIMAL:
            return NUMBERS[DOUBLE]
        if name == "sum" and number == LARGE and self._computation.sums_large_exactly:
            return NUMBERS[DECIMAL]
        widest = max(_COMPUTING[name], number)
        if name == "sum":
            widest = max(LARGE, widest)
        return self._exact_number(declared, widest)

    def _exact_number(self, declared: SQLType, number: int) -> SQLType:
        """SQLAlchemy's type of a computed number, if it says the same and changes no digits."""
        is_own = is_decorator(declared) or isinstance(declared, types.Enum)
        is_same = self._place(declared) == number and not is_own
        is_rounded = (number == DECIMAL and self._computation.in_doubles) or (
            number == DOUBLE and getattr(self._stored(declared), "asdecimal", False)
        )
        return declared if is_same and not is_rounded else self._number(number)


def states_no_type(sign: Any) -> bool:
    """Whether it is an operator such as `x.op("<<")`, of which SQLAlchemy guesses that it gives the type of x."""
    if not isinstance(sign, operators.custom_op):
        return False
    is_stated = sign.return_type is not None or sign.is_comparison
    return not is_stated and sign.opstring not in _OF_THEIR_LEFT_SIDE
