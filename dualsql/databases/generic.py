"""Parts that several databases share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Dialect,
    Text,
    cast,
    collate,
    func,
    make_url,
    type_coerce,
    types,
)
from sqlalchemy.sql.elements import Grouping

from dualsql.capabilities import KeyForm
from dualsql.columns.own_types import SQLType, plain_type, stored_type, without_driver
from dualsql.columns.result import DriverValue, database_type
from dualsql_client.wire import Bucket

Expression = ColumnElement[Any]


def raw_form(expression: Expression, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value, without SQLAlchemy's types."""
    bare = type_coerce(grouped(expression), DriverValue())
    return KeyForm(compared=bare, read=bare, carried=expression, given=parameter)


@cache
def _dialect(name: str) -> Dialect:
    return without_driver(make_url(f"{name}://").get_dialect()())


def stored_in(database: str, type_: SQLType) -> SQLType:
    """The type that a database stores for a type, by SQLAlchemy's name of the database's dialect."""
    return stored_type(type_, _dialect(database))


def key_type(database: str, expression: Expression) -> SQLType:
    """The type to compare a key with; NullType where SQLAlchemy guesses it."""
    return stored_in(database, database_type(expression) or types.NULLTYPE)


def untyped_form(database: str, expression: Expression) -> KeyForm | None:
    """The driver's own value where its type is not known; no cursors follow values that do not come back as given."""
    if isinstance(stored_in(database, expression.type), types.JSON):
        return None  # a driver reads documents: whether "1" was one or a text is not known
    bare = type_coerce(grouped(expression), DriverValue())
    return KeyForm(
        compared=bare, read=bare, carried=expression, given=parameter, comes_back=comes_back_as_given
    )


def comes_back_as_given(value: Any) -> bool:
    """Whether the driver returns a value of this type exactly as it was sent."""
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        # Which stand for the infinities.
        return value not in (date.min, date.max)
    return isinstance(value, bool | int | float | Decimal | str | bytes | UUID)


def parameter(value: Any, type_: SQLType = types.NULLTYPE) -> Expression:
    """A bound value; without a type it takes the type of the other operand."""
    return BindParameter(None, value, type_=type_, unique=True)


def text_parameter(value: Any) -> Expression:
    """A bound text."""
    return parameter(value, types.Text())


def grouped(expression: Expression) -> Expression:
    """The expression in parentheses, unless it is a plain column: `a IS NULL > 0` has another meaning."""
    return expression if getattr(expression, "table", None) is not None else Grouping(expression)


def collated(text: Expression, collation: str) -> Expression:
    """The text under a collation.

    It is no value of an application's own type any more: a document can hold such a type for its column only.
    """
    is_plain = isinstance(text.type, types.String) and not isinstance(text.type, types.Enum)
    return collate(text if is_plain else type_coerce(text, types.String()), collation)


def md5_of_values(values: Sequence[ColumnElement[Any]], seed: int) -> ColumnElement[Any]:
    """A hash of the values and the seed: the order of a random sample."""
    return func.md5(func.concat_ws("|", str(seed), *(cast(value, Text) for value in values)))


DECIMAL = types.Numeric(38, 0)
"""A sum of 64-bit integers."""


def as_double(element: Expression) -> Expression:
    """A number as a double."""
    return cast(element, types.Double())


def whole_sum(element: Expression) -> Expression:
    """The exact sum of numbers of 32 bits."""
    return cast(func.sum(element), types.BigInteger())


def decimal_sum(element: Expression) -> Expression:
    """The exact sum of numbers of 64 bits."""
    return cast(func.sum(element), DECIMAL)


def beginning_of_bucket(database: str, element: Expression, bucket: Bucket) -> Expression:
    """The beginning of the bucket of a date, by date_trunc()."""
    plain: Any = stored_in(database, element.type)
    is_zoned = isinstance(plain, types.DateTime) and plain.timezone
    # A date alone would be taken for midnight in the session's zone.
    local = func.timezone("UTC", element) if is_zoned else cast(element, types.DateTime())
    cut = func.date_trunc(bucket, local)
    if bucket != "hour":
        return cast(cut, types.Date())
    if is_zoned:
        return func.timezone("UTC", cast(cut, types.DateTime()), type_=types.DateTime(timezone=True))
    return cast(cut, types.DateTime())


def list_of_dates_as_text(type_: Any) -> str | None:
    """What a list of dates is bound as before it is cast: drivers confuse the ends of time with the infinities."""
    is_list = isinstance(type_, types.ARRAY)
    return (
        "TEXT[]" if is_list and isinstance(plain_type(type_.item_type), types.Date | types.DateTime) else None
    )
