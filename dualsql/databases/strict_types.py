"""Parts that databases share whose columns hold values of their own type alone: sort keys, sums, buckets of dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Text, cast, func, type_coerce, types

from dualsql.capabilities import KeyForm
from dualsql.columns.database_types import database_type
from dualsql.columns.own_types import Element, SQLType, plain_type
from dualsql.columns.result import DriverValue
from dualsql.databases.expressions import grouped, parameter, stored_in
from dualsql_client.wire_requests import Bucket


def key_type(database: str, expression: Element) -> SQLType:
    """The type to compare a key with; NullType where SQLAlchemy guesses it."""
    return stored_in(database, database_type(expression) or types.NULLTYPE)


def untyped_form(database: str, expression: Element) -> KeyForm | None:
    """The driver's own value where its type is not known; no cursors follow values that do not come back as given."""
    if isinstance(stored_in(database, expression.type), types.JSON):
        return None  # a driver reads documents: whether "1" was one or a text is not known
    bare = type_coerce(grouped(expression), DriverValue())
    return KeyForm(compared=bare, read=bare, carried=expression, bind=parameter, round_trips=round_trips)


def round_trips(value: Any) -> bool:
    """Whether the driver returns a value of this type exactly as it was sent."""
    if isinstance(value, datetime):
        value = value.date()
    if isinstance(value, date):
        # Which stand for the infinities.
        return value not in (date.min, date.max)
    return isinstance(value, bool | int | float | Decimal | str | bytes | UUID)


def text_parameter(value: Any) -> Element:
    """A bound text."""
    return parameter(value, types.Text())


def md5_of_values(values: Sequence[ColumnElement[Any]], seed: int) -> ColumnElement[Any]:
    """A hash of the values and the seed: the order of a random sample."""
    return func.md5(func.concat_ws("|", str(seed), *(cast(value, Text) for value in values)))


DECIMAL = types.Numeric(38, 0)
"""A sum of 64-bit integers."""


def as_double(element: Element) -> Element:
    """A number as a double."""
    return cast(element, types.Double())


def whole_sum(element: Element) -> Element:
    """The exact sum of numbers of 32 bits."""
    return cast(func.sum(element), types.BigInteger())


def decimal_sum(element: Element) -> Element:
    """The exact sum of numbers of 64 bits."""
    return cast(func.sum(element), DECIMAL)


def beginning_of_bucket(database: str, element: Element, bucket: Bucket) -> Element:
    """The beginning of the bucket of a date, by date_trunc()."""
    plain: Any = stored_in(database, element.type)
    is_zoned = isinstance(plain, types.DateTime) and plain.timezone
    # A date alone would be taken for midnight in the session's zone.
    local = func.timezone("UTC", element) if is_zoned else cast(element, types.DateTime())
    start = func.date_trunc(bucket, local)
    if bucket != "hour":
        return cast(start, types.Date())
    if is_zoned:
        return func.timezone("UTC", cast(start, types.DateTime()), type_=types.DateTime(timezone=True))
    return cast(start, types.DateTime())


def list_of_dates_as_text(type_: Any) -> str | None:
    """The type of a list of dates before its CAST, text: drivers confuse the ends of time with the infinities."""
    is_list = isinstance(type_, types.ARRAY)
    return (
        "TEXT[]" if is_list and isinstance(plain_type(type_.item_type), types.Date | types.DateTime) else None
    )
