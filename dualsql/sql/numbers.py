"""Of which type a computed value is; the rule: as the engine computes it, and never with fewer digits.

SQLAlchemy takes `price * (1 - discount)` for a NUMERIC(12, 2), as its columns are. On SQLite, where such a type rounds
what comes back, two digits of four would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, type_coerce, types
from sqlalchemy.types import TypeEngine

SQLType = TypeEngine[Any]

_FRACTIONS = (types.Numeric, types.Float)  # neither is the other's base

_DIVIDES_TO: Mapping[str, SQLType] = {
    "postgresql": types.Integer(),
    "sqlite": types.Integer(),
    "duckdb": types.Double(),
}
"""What two whole numbers give; elsewhere an exact fraction."""


def common(kinds: Sequence[SQLType]) -> SQLType:
    """The type of a value that is one of several, as in CASE, COALESCE and UNION."""
    known = [kind for kind in kinds if not isinstance(kind, types.NullType)]
    numbers = [kind for kind in known if isinstance(kind, _FRACTIONS)]
    if len({_affinity(kind) for kind in known}) > 1:
        return types.NullType()  # SQLite gives a text or a number, as it comes
    if not numbers:
        wide = next((kind for kind in known if isinstance(kind, types.BigInteger)), None)
        return wide or next(iter(known), types.NullType())
    if any(not number.asdecimal for number in numbers):
        return types.Double()
    scales = {(number.precision, number.scale) for number in numbers}
    return numbers[0] if len(scales) == 1 else types.Numeric()


def _affinity(kind: SQLType) -> type[SQLType]:
    """What values of the type can stand beside each other."""
    if isinstance(kind, (*_FRACTIONS, types.Integer)):
        return types.Numeric
    return next((base for base in (types.String, types.DateTime) if isinstance(kind, base)), type(kind))


def average(kind: SQLType, dialect: str) -> SQLType:
    """What avg() and its kin give."""
    if isinstance(kind, types.Interval):
        return kind
    is_float = isinstance(kind, _FRACTIONS) and not kind.asdecimal
    return types.Double() if is_float or dialect in ("sqlite", "duckdb") else types.Numeric()


def quotient(left: SQLType, right: SQLType, dialect: str) -> SQLType:
    """What left / right gives."""
    if isinstance(left, types.Integer) and isinstance(right, types.Integer):
        return _DIVIDES_TO.get(dialect, types.Numeric())
    if not any(isinstance(kind, _FRACTIONS) for kind in (left, right)):
        return types.NullType()
    return types.Double() if dialect == "duckdb" else common([left, right])


def computed(element: ColumnElement[Any], dialect: str) -> ColumnElement[Any]:
    """The element, its type such that none of its digits is lost."""
    kind = element.type
    if not isinstance(kind, _FRACTIONS) or not kind.asdecimal:
        return element
    if dialect == "sqlite":
        return type_coerce(element, types.Double())
    return element if kind.scale is None else type_coerce(element, types.Numeric())


def one_of(element: ColumnElement[Any], values: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """The element, which is one of `values`, with the type they have in common."""
    kind = common([value.type for value in values])
    return element if repr(kind) == repr(element.type) else type_coerce(element, kind)
