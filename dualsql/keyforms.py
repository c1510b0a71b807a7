"""How the value of an order key leaves a database and comes back; the rule: it compares there as it did inside.

A page begins after the values of a row, so a value that comes back changed repeats rows or loses them. What an
application sees is no good for that: SQLAlchemy shows a float as a Decimal of two places, asyncpg a month as
thirty days and the date 9999-12-31 as infinity. Keys are therefore read beside the row, in a form of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, Text, cast, type_coerce, types
from sqlalchemy.sql.elements import Grouping

from dualsql.columns import CharByte, DriverValue, SQLType, plain_type

Expression = ColumnElement[Any]


def _always(_value: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForm:
    """One key, as a database takes part in it.

    Attributes:
        compared: stands in conditions.
        read: stands in the SELECT; gives the exact value.
        carried: stands for the key in a subquery's SELECT, and compares outside as it does inside.
        given: a value that was read, as an expression to compare with.
        comes_back: whether this very value compares, when it is given, as it did when it was read.
    """

    compared: Expression
    read: Expression
    carried: Expression
    given: Callable[[Any], Expression]
    comes_back: Callable[[Any], bool] = _always


def raw_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:  # noqa: ARG001 - all forms take it
    """The driver's own value, which no type of SQLAlchemy's touches."""
    bare = type_coerce(_grouped(expression), DriverValue())
    return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter)


def postgresql_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:  # noqa: ARG001 - all forms take it
    """asyncpg's own value where it is exact, else PostgreSQL's text of it, which PostgreSQL reads back."""
    plain = plain_type(expression.type)
    bare = type_coerce(_grouped(expression), DriverValue())
    if isinstance(plain, types.NullType):
        return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter, comes_back=_comes_back)
    if isinstance(plain, _EXACT_IN_ASYNCPG):
        # Without a type, the parameter takes that of the other side: an ENUM's, a NUMERIC's.
        return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter, comes_back=_is_taken)
    return KeyForm(
        compared=bare,
        read=cast(expression, Text),
        carried=expression,
        given=lambda value: cast(_text(value), plain),
    )


def duckdb_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:  # noqa: ARG001 - all forms take it
    """The driver's own value; of dates, DuckDB's text: the driver reads infinity as 9999-12-31."""
    plain = plain_type(expression.type)
    if isinstance(plain, types.JSON):
        # Ordered as its text; a parameter beside it would make it a number, or an error.
        return raw_form(cast(expression, Text), is_stored=False)
    bare = type_coerce(_grouped(expression), DriverValue())
    is_date = isinstance(plain, types.Date | types.DateTime)
    if is_date or (isinstance(plain, types.Enum) and plain.native_enum):
        # An ENUM is ordered by position; beside a text without a type it is compared as a text.
        return KeyForm(
            compared=bare,
            read=cast(expression, Text),
            carried=expression,
            given=lambda value: cast(_text(value), plain),
        )
    comes_back = _comes_back if isinstance(plain, types.NullType) else _always
    return KeyForm(compared=bare, read=bare, carried=expression, given=_parameter, comes_back=comes_back)


def mysql_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value, but for a float of four bytes and an ENUM."""
    plain = plain_type(expression.type)
    if isinstance(plain, types.Enum) and plain.native_enum:
        if not is_stored:
            return None  # by number or by name? That depends on how the value came here.
        # An ENUM is ordered by number, and compared with a text by name.
        return raw_form(type_coerce(_grouped(expression), types.Integer) + 0, is_stored=True)
    if isinstance(plain, types.Float) and not isinstance(plain, types.Double):
        # FLOAT is written with six digits; as DOUBLE it has all that tell it from its neighbours.
        return raw_form(cast(expression, types.Double), is_stored=is_stored)
    return raw_form(expression, is_stored=is_stored)


_EXACT_IN_ASYNCPG = (
    types.Integer,
    types.Numeric,
    types.Float,
    types.String,  # Enum too
    types.Boolean,
    types.Uuid,
    # Not bytes: psycopg2 gives memoryviews.
)


def _comes_back(value: Any) -> bool:
    """Whether asyncpg gives back a value of whatever type exactly as it took it."""
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        # Which stand for the infinities.
        return value not in (date.min, date.max)
    return isinstance(value, bool | int | float | Decimal | str | bytes | UUID)


def _is_taken(value: Any) -> bool:
    """Whether asyncpg takes this value for the type that the column has in PostgreSQL."""
    return not isinstance(value, CharByte)


def _parameter(value: Any, type_: SQLType = types.NULLTYPE) -> Expression:
    return BindParameter(None, value, type_=type_, unique=True)


def _text(value: Any) -> Expression:
    return _parameter(value, types.Text())


def _grouped(expression: Expression) -> Expression:
    """In parentheses, unless it is a plain column: `a IS NULL > 0` is not what it looks like."""
    return expression if getattr(expression, "table", None) is not None else Grouping(expression)
