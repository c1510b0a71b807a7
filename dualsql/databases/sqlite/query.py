"""How queries over results are written for SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnClause, TypeCoerce, case, cast, func, literal, type_coerce, types
from sqlalchemy.sql.functions import current_timestamp

from dualsql.columns.instants import is_instant, normalized_instant
from dualsql.columns.own_types import Element
from dualsql.databases.expressions import collated
from dualsql.query_dialects import NOT_FINITE, QueryDialect
from dualsql_client.wire_requests import Bucket

_FORMATS: Mapping[Bucket, str] = {
    "year": "%Y-01-01",
    "month": "%Y-%m-01",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%d %H:00:00.000000",  # as SQLAlchemy keeps instants
}
_DATES: Mapping[Bucket, tuple[str, Sequence[str]]] = {
    "year": ("????-??-[012][0-8] ??:??:??.000000", ["start of year"]),
    "month": ("????-??-[012][0-8] ??:??:??.000000", ["start of month"]),
    "day": ("????-??-?? ??:??:??.000000", []),
}
"""Of instants like these, date() with these modifiers gives what strftime() gives, in every version of SQLite."""
_QUARTERS = {f"{month:02}": f"-{month - (month - 1) % 3:02}-01" for month in range(1, 13)}
"""By month, what its quarter's first day has after the year."""


def _binary(element: Element) -> Element:
    return collated(element, "BINARY")


def _beginning_of_bucket(element: Element, bucket: Bucket) -> Element:
    # CURRENT_TIMESTAMP has one spelling, to whole seconds.
    operand = element.clause if isinstance(element, TypeCoerce) else element
    if isinstance(operand, current_timestamp) or not is_instant(element):
        return _beginning(element, bucket)
    # Without its fraction: SQLite rounds 23:59:59.9996 to the next day.
    beginning = _beginning(func.substr(normalized_instant(element), 1, 19, type_=types.String()), bucket)
    if not isinstance(element, ColumnClause):
        return beginning
    # Most instants are whole seconds as SQLAlchemy writes them, which need no other spelling: that takes half as long
    # again. This begins alike for every text, or it is NULL.
    is_whole = func.instr(element, ".000000") == 20
    whole = [(is_whole, _beginning(element, bucket))]
    if bucket in _DATES:
        # date() takes two thirds of the time of strftime(). Of the years before 0 and of February 30, it may give
        # another text: strftime() cuts what is not like this.
        pattern, modifiers = _DATES[bucket]
        day = func.date(element, *modifiers, type_=types.Date())
        is_like_this = element.op("GLOB", is_comparison=True)(literal(pattern, types.String()))
        whole.insert(0, (is_like_this, day))
    return func.coalesce(case(*whole), beginning)


def _beginning(element: Element, bucket: Bucket) -> Element:
    if bucket == "week":
        # Six days back, then forward to the next Monday, which may be the same day.
        return func.date(element, "-6 days", "weekday 1", type_=types.Date())
    if bucket == "quarter":
        # Flat: with arithmetic of the month, it is more than SQLite's parser takes beside another instant.
        year, month = (func.strftime(part, element, type_=types.String()) for part in ("%Y", "%m"))
        return type_coerce(year.concat(case(_QUARTERS, value=month)), types.Date())
    kind = types.DateTime() if bucket == "hour" else types.Date()
    return func.strftime(_FORMATS[bucket], element, type_=kind)


def _sum(element: Element) -> Element:
    # An overflow is an error there, and never a wrong number.
    return func.sum(element, type_=types.BigInteger())


def _to_decimal_digits(total: Element) -> Element:
    # A double has 15 decimal digits: 0.1 + 0.2 is 0.30000000000000004 there, and 0.3 to this many digits.
    rounded: Element = cast(func.printf("%.15g", total), types.REAL())
    return case((func.typeof(total) == "real", rounded), else_=total)


QUERY = QueryDialect(
    odd_doubles=NOT_FINITE[1:],  # NaN is stored as NULL
    exact=_binary,
    ordered=_binary,
    position=lambda text, part: func.instr(text, part, type_=types.Integer()),
    bucket_start=_beginning_of_bucket,
    double=lambda number: number,
    sum_of_integers=(_sum, _sum),
    ranks_rows=True,
    sum_of_decimals=_to_decimal_digits,
    random_share=lambda step: func.random(type_=types.BigInteger()) % step == 0,
    is_bytes=lambda expression: func.typeof(expression) == "blob",
    storage_class=func.typeof,
    shown_as_false=(0, "", b""),
    has_loose_comparisons=True,
)
