"""What the values of a type are: those of SQLAlchemy's types, and of the application's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from datetime import date, datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, types
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.types import TypeEngine

from dualsql import sqlalchemy_internals as internals

SQLType = TypeEngine[Any]
Element = ColumnElement[Any]
Transform = Callable[[Element], Element]
OwnCode = Callable[[Any], Any]


def implementations(type_: SQLType, dialect: Dialect) -> Iterator[SQLType]:
    """The types that make up a type on a database: each TypeDecorator, and at last the type that is stored there.

    with_variant() and load_dialect_impl() give another one for each database.
    """
    for _ in range(_DEEPEST):
        type_ = internals.type_variants(type_).get(dialect.name, type_)
        if not is_decorator(type_):
            break
        yield type_
        type_ = _below(type_, dialect)
    # Prefect's UUID has TypeEngine for its impl: on a database that it does not know, it has no type.
    yield types.NULLTYPE if type(type_) is TypeEngine or is_decorator(type_) else type_


_DEEPEST = 16
"""Decorators around each other; the code of an application may give the same one again and again."""


def is_decorator(type_: Any) -> bool:
    """Whether it is a type of the application's own; SQLAlchemy's Interval is a TypeDecorator, too."""
    return isinstance(type_, types.TypeDecorator) and not isinstance(type_, types.Interval)


def _below(type_: Any, dialect: Dialect) -> SQLType:
    declared: SQLType = type_.impl_instance
    try:
        below: SQLType = type_.load_dialect_impl(dialect)
    except Exception:  # noqa: BLE001 - the application's code may be for another database
        return declared
    return declared if below is type_ else below


def without_driver(dialect: Dialect) -> Dialect:
    """A copy under which a type stays as it is declared: a driver has types of its own, which no document can name."""
    plain: Any = copy(dialect)
    plain.colspecs = {}
    return cast(Dialect, plain)


def stored_type(type_: SQLType, dialect: Dialect) -> SQLType:
    """The type for this database, without the application's code."""
    *_, stored = implementations(type_, dialect)
    return stored


def plain_type(type_: SQLType) -> SQLType:
    """The stored type of a database that is not known."""
    return stored_type(type_, _NO_DATABASE)


_NO_DATABASE = DefaultDialect()


class Meaning(NamedTuple):
    """What is known of the values of a type.

    Attributes:
        shown: SQLAlchemy's type for the shown values; NullType if they have no common kind.
        shown_class: the class of every shown value; None for any.
        binds, reads: the application's code that converts values on their way in and out; None without such code. What
            `reads` returns is shown.
        stored: the type without the application's code.
        is_same: stored and shown values are equal.
        keeps_order: stored values have the same order as the shown ones.
        keeps_equality: stored values are equal exactly if the shown ones are.
        keeps_null: a shown value is null exactly if the stored one is NULL.
        is_zoned: whether instants have a zone; None if the database decides.
        name: the name of the type, for messages; empty for SQLAlchemy's own types.
    """

    shown: SQLType
    stored: SQLType
    shown_class: type[Any] | None = None
    binds: OwnCode | None = None
    reads: OwnCode | None = None
    is_same: bool = True
    keeps_order: bool = True
    keeps_equality: bool = True
    keeps_null: bool = True
    is_zoned: bool | None = None
    name: str = ""


_FRACTIONAL_TYPES = dict.fromkeys(("epoch", "second", "seconds", "milliseconds", "julian"), types.Numeric())


class Computation(NamedTuple):
    """How a database computes.

    Attributes:
        in_doubles: every number with a fraction that it computes is a double.
        divides_in_doubles: every quotient is a double.
        floors_in_doubles: `whole // whole` is a double.
        sums_large_exactly: the sum of 64-bit integers is a decimal.
        in_doubles_only: functions by which a whole number becomes a double.
        is_loose: a value may be of another type than the forecast, and arithmetic of dates, texts and others computes
            with the numbers that their texts begin with.
        compensates: sums of doubles are compensated for what is rounded off.
        has_truths: a comparison gives true or false, and not a number.
        fractions: the fields of extract() that are not whole, and their types. SQLAlchemy takes all for whole numbers.
        reads_texts: arithmetic of texts computes with the doubles that they begin with.
        functions: the types of what functions return for which SQLAlchemy has no type, by name and arguments.
        reads_dates: arithmetic of dates computes with the digits that they are written with.
    """

    in_doubles: bool = False
    divides_in_doubles: bool = False
    floors_in_doubles: bool = False
    sums_large_exactly: bool = False
    in_doubles_only: frozenset[str] = frozenset()
    is_loose: bool = False
    compensates: bool = False
    has_truths: bool = True
    fractions: Mapping[str, SQLType] = _FRACTIONAL_TYPES
    reads_texts: bool = False
    functions: Callable[[str, Sequence[Any]], SQLType] = lambda *_: types.NULLTYPE
    reads_dates: bool = False


def is_instance(value: Any, cls: type[Any]) -> bool:
    """Whether `value` is of the class. A bool does not count as a number, nor a datetime as a date."""
    if cls is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if cls is date:
        return isinstance(value, date) and not isinstance(value, datetime)
    return isinstance(value, cls)


def package_of(one: object) -> str:
    """The package that defines the class of an object."""
    return type(one).__module__.partition(".")[0]
