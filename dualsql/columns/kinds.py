"""Kinds of types, and of expressions whose types follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Label, TypeCoerce, types
from sqlalchemy.sql import elements

from dualsql.columns.own_types import SQLType, plain_type


class Value(NamedTuple):
    """What is known of the values of an expression.

    Attributes:
        is_computed: they are not values of a column of a table.
    """

    type: SQLType
    is_computed: bool


# From the narrowest to the widest. What is wider holds the values of what is narrower.
TRUTH, WHOLE, LARGE, DECIMAL, DOUBLE = range(5)
NUMBERS: Sequence[SQLType] = [
    kind() for kind in (types.Boolean, types.Integer, types.BigInteger, types.Numeric, types.Double)
]

AVERAGING = frozenset(
    {"avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "median"}
)


def function_name(expression: Any) -> str:
    """The name of a function in lower case; empty for what has none."""
    return str(getattr(expression, "name", "")).lower()


def number_of(type_: SQLType) -> int | None:
    """The position of a type of numbers in `NUMBERS`; None for another type."""
    plain = plain_type(type_)
    if isinstance(plain, types.Boolean):
        return TRUTH
    if isinstance(plain, types.Integer):
        return LARGE if isinstance(plain, types.BigInteger) else WHOLE
    if isinstance(plain, types.Float):
        return DOUBLE  # also where SQLAlchemy makes decimals of them
    if isinstance(plain, types.Numeric):
        return DECIMAL if plain.asdecimal else DOUBLE
    return None


def family(type_: SQLType) -> type[Any]:
    """The class of SQLAlchemy's that the type is a kind of; Numeric for all numbers and truth values."""
    if number_of(type_) is not None:
        return types.Numeric
    kinds = (types.String, types.DateTime, types.Date, types.Time, types.LargeBinary, types.Uuid, types.JSON)
    return next((kind for kind in kinds if isinstance(type_, kind)), type(type_))


def is_null(part: Any) -> bool:
    """Whether it is NULL, which is a value of every type."""
    bare = part.element if isinstance(part, Label) else part
    return isinstance(bare, elements.Null) or (
        isinstance(bare, BindParameter) and bare.value is None and not bare.required
    )


def is_of_argument(declared: SQLType, argument: Any) -> bool:
    """Whether SQLAlchemy took the type of a function from its argument."""
    return declared is argument.type or repr(declared) == repr(argument.type)


def operand_of(expression: Any) -> Any:
    """The expression without a coercion to NullType, by which SQL texts use operators that SQLAlchemy's types lack."""
    while isinstance(expression, TypeCoerce) and isinstance(expression.type, types.NullType):
        expression = expression.clause
    return expression
