"""How each database compares values exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, and_, cast, collate, func, types

from dualsql.capabilities import Capabilities
from dualsql.columns.instants import instant, is_instant
from dualsql.columns.own_types import SQLType, plain_type
from dualsql_client.query import Bucket

Element = ColumnElement[Any]
Transform = Callable[[Element], Element]

DECIMAL = types.Numeric(38, 0)
"""A sum of 64-bit integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDialect:
    """How one database is asked.

    Attributes:
        exact: a text as it is compared by code point, for equality and grouping.
        ordered: ... and for which of two comes first.
        finds_equal_by_index: `exact` hides the column from an index, so that equality is asked for twice.
        position: function of a text and a part of it, from 1, 0 where it is not in there.
        cut_date: the beginning of the bucket that a date, or an instant, lies in.
        double: a number as one of eight bytes.
        sum_of_integers: of numbers of 32 bits, and of 64.
        has_percentiles: percentile_cont(x) WITHIN GROUP (ORDER BY y) is an aggregate.
    """

    exact: Transform
    ordered: Transform
    finds_equal_by_index: bool
    position: Callable[[Element, Element], Element]
    cut_date: Callable[[Element, Bucket], Element]
    double: Transform
    sum_of_integers: tuple[Transform, Transform]
    has_percentiles: bool


def query_dialect_of(capabilities: Capabilities) -> QueryDialect:
    """How the database is asked."""
    return _KNOWN[capabilities.name]


def bound(value: Any, type_: SQLType) -> Element:
    """A value as a parameter."""
    return BindParameter(None, value, type_=type_, unique=True)


def _as_it_is(element: Element) -> Element:
    return element


def _as_double(element: Element) -> Element:
    return cast(element, types.Double())


def _whole_sum(element: Element) -> Element:
    return cast(func.sum(element), types.BigInteger())


def _decimal_sum(element: Element) -> Element:
    return cast(func.sum(element), DECIMAL)


_SQLITE_FORMATS: Mapping[Bucket, str] = {
    "year": "%Y-01-01",
    "month": "%Y-%m-01",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%d %H:00:00.000000",  # as SQLAlchemy keeps instants
}


def _binary(element: Element) -> Element:
    return collate(element, "BINARY")


def _sqlite_date(element: Element, bucket: Bucket) -> Element:
    if is_instant(element):
        # Without its fraction: SQLite rounds 23:59:59.9996 to the next day.
        element = func.substr(instant(element), 1, 19, type_=types.String())
    if bucket == "week":
        # Back six days, then on to the next Monday, which may be that very day.
        return func.date(element, "-6 days", "weekday 1", type_=types.Date())
    if bucket == "quarter":
        month = cast(func.strftime("%m", element), types.Integer())
        past = func.printf("-%d months", (month - 1) % 3)
        return func.date(element, "start of month", past, type_=types.Date())
    kind = types.DateTime() if bucket == "hour" else types.Date()
    return func.strftime(_SQLITE_FORMATS[bucket], element, type_=kind)


def _sqlite_sum(element: Element) -> Element:
    # An overflow is an error there, and never a wrong number.
    return func.sum(element, type_=types.BigInteger())


_SQLITE = QueryDialect(
    exact=_binary,
    ordered=_binary,
    finds_equal_by_index=True,
    position=lambda text, part: func.instr(text, part, type_=types.Integer()),
    cut_date=_sqlite_date,
    double=_as_it_is,
    sum_of_integers=(_sqlite_sum, _sqlite_sum),
    has_percentiles=False,
)


def _by_code_point(element: Element) -> Element:
    return collate(element, "C")


def _truncated(element: Element, bucket: Bucket) -> Element:
    plain: Any = plain_type(element.type)
    is_zoned = isinstance(plain, types.DateTime) and plain.timezone
    # A date alone would be taken for midnight in the session's zone.
    local = func.timezone("UTC", element) if is_zoned else cast(element, types.DateTime())
    cut = func.date_trunc(bucket, local)
    if bucket != "hour":
        return cast(cut, types.Date())
    if is_zoned:
        return func.timezone("UTC", cast(cut, types.DateTime()), type_=types.DateTime(timezone=True))
    return cast(cut, types.DateTime())


_POSTGRESQL = QueryDialect(
    exact=_as_it_is,
    ordered=_by_code_point,
    finds_equal_by_index=True,
    position=lambda text, part: func.strpos(text, part, type_=types.Integer()),
    cut_date=_truncated,
    double=_as_double,
    sum_of_integers=(_whole_sum, _decimal_sum),
    has_percentiles=True,
)
_DUCKDB = QueryDialect(
    exact=_as_it_is,
    ordered=_as_it_is,
    finds_equal_by_index=True,
    position=lambda text, part: func.instr(text, part, type_=types.Integer()),
    cut_date=_truncated,
    double=_as_double,
    sum_of_integers=(_whole_sum, _decimal_sum),
    has_percentiles=True,
)


_MARIADB_FORMATS: Mapping[Bucket, str] = {
    "year": "%Y-01-01",
    "month": "%Y-%m-01",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%d %H:00:00",
}


def _unpadded(element: Element) -> Element:
    return collate(cast(element, types.String()), "utf8mb4_nopad_bin")


def _mariadb_date(element: Element, bucket: Bucket) -> Element:
    if bucket == "week":
        return cast(func.subdate(element, func.weekday(element)), types.Date())
    if bucket == "quarter":
        month = func.lpad(func.quarter(element, type_=types.Integer()) * 3 - 2, 2, "0")
        return cast(func.concat(func.year(element), "-", month, "-01"), types.Date())
    kind = types.DateTime() if bucket == "hour" else types.Date()
    return cast(func.date_format(element, _MARIADB_FORMATS[bucket]), kind)


_MARIADB = QueryDialect(
    exact=_unpadded,
    ordered=_unpadded,
    finds_equal_by_index=False,
    position=lambda text, part: func.locate(part, _unpadded(text), type_=types.Integer()),
    cut_date=_mariadb_date,
    double=_as_double,
    sum_of_integers=(_whole_sum, _decimal_sum),
    has_percentiles=False,  # of windows only
)

_KNOWN = {"SQLite": _SQLITE, "PostgreSQL": _POSTGRESQL, "DuckDB": _DUCKDB, "MariaDB": _MARIADB}


def equal(abilities: QueryDialect, text: Element, value: Element) -> Element:
    """Equal to the letter; an index still finds all that may be."""
    exact = abilities.exact(text)
    return exact == value if abilities.finds_equal_by_index else and_(text == value, exact == value)


def one_of(abilities: QueryDialect, text: Element, values: Any) -> Element:
    """Equal to the letter with one of several."""
    exact = abilities.exact(text)
    return exact.in_(values) if abilities.finds_equal_by_index else and_(text.in_(values), exact.in_(values))
