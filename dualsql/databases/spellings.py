"""What databases that have no file here write in other ways than the SQL standard: one row for each dialect.

From their manuals, which `make test-dialects` repeats as lists of functions. A database without a row gets the words of
the standard, and no buckets of dates, for which the standard has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

from sqlalchemy import cast, extract, false, func, literal_column, types

from dualsql.columns.own_types import Element, Transform
from dualsql.databases.expressions import stored_in
from dualsql.databases.strict_types import DECIMAL, as_double, beginning_of_bucket
from dualsql.query_dialects import DatabaseAggregate, QueryDialect, first_characters
from dualsql_client.wire_requests import Bucket

Truncation = Callable[[Element, Bucket], Element]
OwnFunctions = Mapping[str, Callable[[str], str]]


def _position(text: Element, part: Element) -> Element:
    return func.position(part.op("IN")(text), type_=types.Integer())


def _substring(text: Element, characters: int) -> Element:
    # SQLAlchemy writes FROM and FOR in the dialects that need them.
    return func.substring(text, 1, characters, type_=types.String())


def _added_as(type_: Any) -> Transform:
    """The sum of numbers that are converted first: many databases return a sum in the type of its numbers."""
    return lambda element: cast(func.sum(cast(element, type_)), type_)


def _without_buckets(_element: Element, _bucket: Bucket) -> Element | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectSpelling(QueryDialect):
    """How one database writes queries over results: in the words of the SQL standard, unless its row has others.

    Attributes:
        truncate: the beginning of the bucket of a date, and of an instant without a zone.
        own_functions: see `Capabilities.own_functions`.
    """

    beginning: Callable[[Element, int], Element] = _substring
    position: Callable[[Element, Element], Element] = _position
    text_length: Transform = func.char_length
    bucket_start: Callable[[Element, Bucket], Element | None] = _without_buckets
    double: Transform = as_double
    sum_of_integers: tuple[Transform, Transform] = (_added_as(types.BigInteger()), _added_as(DECIMAL))
    aggregates: dict[str, DatabaseAggregate | None] = field(
        default_factory=lambda: {"median": None, "percentile": None}
    )
    is_bytes: Transform = lambda _: false()
    truncate: Truncation | None = None
    own_functions: OwnFunctions = field(default_factory=dict)


def _start_without_zones(
    database: str, truncate: Truncation, element: Element, bucket: Bucket
) -> Element | None:
    plain: Any = stored_in(database, element.type)
    if isinstance(plain, types.DateTime) and plain.timezone:
        return None
    return cast(truncate(element, bucket), types.DateTime() if bucket == "hour" else types.Date())


def _cutting(write: Callable[[str, str], str], **parts: str) -> tuple[OwnFunctions, Truncation]:
    """The functions for the buckets whose part of a date is a word, which no parameter and no column can stand for.

    Args:
        write: makes SQL from the part and the SQL of the date.
        parts: by bucket, where the database has another word for it.
    """
    words: dict[str, str] = {bucket: parts.get(bucket, bucket) for bucket in get_args(Bucket)}
    functions = {f"dualsql_cut_{bucket}": partial(write, word) for bucket, word in words.items()}
    return functions, lambda element, bucket: getattr(func, f"dualsql_cut_{bucket}")(element)


def _moving(*units: str) -> OwnFunctions:
    """By unit, the function that adds a number of it to a date."""

    return {f"dualsql_add_{unit}s": partial("dateadd({}, {})".format, unit) for unit in units}


def _date_trunc(element: Element, bucket: Bucket) -> Element:
    return func.date_trunc(literal_column(f"'{bucket}'"), element)


def _snowflake_start(element: Element, bucket: Bucket) -> Element:
    if bucket != "week":
        return _date_trunc(element, bucket)
    # A session's WEEK_START says on which day a week begins for date_trunc().
    return func.dualsql_add_days(1 - func.dayofweekiso(element, type_=types.Integer()), element)


def _firebird_start(element: Element, bucket: Bucket) -> Element:
    day = cast(element, types.Date())
    if bucket == "hour":
        return func.dualsql_add_hours(extract("hour", element), cast(day, types.DateTime()))
    if bucket == "day":
        return day
    if bucket == "week":
        # Sunday is 0.
        return func.dualsql_add_days(-func.mod(extract("weekday", day) + 6, 7, type_=types.Integer()), day)
    if bucket == "year":
        return func.dualsql_add_days(-extract("yearday", day), day)
    first = func.dualsql_add_days(1 - extract("day", day), day)
    months = func.mod(extract("month", day) - 1, 3, type_=types.Integer())
    return first if bucket == "month" else func.dualsql_add_months(-months, first)


# A WEEK begins on Sunday.
_bigquery_words, _bigquery_start = _cutting(
    lambda part, date: f"datetime_trunc({date}, {part})", week="isoweek"
)
# Since SQL Server 2022. When a `week` begins depends on @@DATEFIRST.
_sql_server_words, _sql_server_start = _cutting(
    lambda part, date: f"datetrunc({part}, {date})", week="iso_week"
)
_oracle_words, _oracle_start = _cutting(
    lambda part, date: f"trunc({date}, '{part}')",
    year="YYYY", quarter="Q", month="MM", week="IW", day="DDD", hour="HH24",
)  # fmt: skip

_CLICKHOUSE = DialectSpelling(
    # substring() counts bytes.
    beginning=lambda text, characters: func.substringUTF8(text, 1, characters, type_=types.String()),
    position=lambda text, part: func.position(text, part, type_=types.Integer()),
    truncate=_date_trunc,
    # CAST refuses NULL, and a sum of Int64 that does not fit begins again at the lowest number.
    double=lambda element: func.toFloat64(element, type_=types.Double()),
    sum_of_integers=(
        lambda element: func.sum(func.toInt64(element), type_=types.BigInteger()),
        lambda element: func.sum(func.toDecimal128(element, literal_column("0")), type_=DECIMAL),
    ),
)

SPELLINGS: Mapping[str, DialectSpelling] = {
    "bigquery": DialectSpelling(
        beginning=first_characters,
        position=lambda text, part: func.strpos(text, part, type_=types.Integer()),
        own_functions=_bigquery_words,
        truncate=lambda element, bucket: _bigquery_start(cast(element, types.DateTime()), bucket),
        # NUMERIC has 29 digits before the point, and with a precision no more.
        sum_of_integers=(
            lambda element: func.sum(element, type_=types.BigInteger()),
            lambda element: func.sum(cast(element, types.Numeric()), type_=DECIMAL),
        ),
    ),
    "chdb": _CLICKHOUSE,
    "clickhouse": _CLICKHOUSE,
    "clickhousedb": _CLICKHOUSE,
    "databricks": DialectSpelling(truncate=_date_trunc),
    "firebird": DialectSpelling(
        # A parameter has no type beside IN.
        position=lambda text, part: func.position(
            cast(part, types.String(8191)), text, type_=types.Integer()
        ),
        own_functions=_moving("hour", "day", "month"),
        truncate=_firebird_start,
        double=lambda element: cast(element, types.DOUBLE_PRECISION()),
        # Numbers have 18 digits before Firebird 4; a sum that has more is an error.
        sum_of_integers=(_added_as(types.BigInteger()), _added_as(types.BigInteger())),
    ),
    "mssql": DialectSpelling(
        position=lambda text, part: func.charindex(part, text, type_=types.Integer()),
        # LEN() leaves blanks at the end out.
        text_length=lambda text: func.len(text.concat(literal_column("'x'")), type_=types.Integer()) - 1,
        own_functions=_sql_server_words,
        truncate=_sql_server_start,
    ),
    "oracle": DialectSpelling(
        beginning=first_characters,
        position=lambda text, part: func.instr(text, part, type_=types.Integer()),
        own_functions=_oracle_words,
        truncate=_oracle_start,
    ),
    "redshift": DialectSpelling(bucket_start=partial(beginning_of_bucket, "redshift")),
    "snowflake": DialectSpelling(
        text_length=func.length, own_functions=_moving("day"), truncate=_snowflake_start
    ),
    "trino": DialectSpelling(
        beginning=first_characters,
        position=lambda text, part: func.strpos(text, part, type_=types.Integer()),
        text_length=func.length,
        truncate=_date_trunc,
    ),
}
"""By SQLAlchemy's name of the dialect (`engine.dialect.name`)."""


def spelling_of(name: str) -> DialectSpelling:
    """The spelling of a dialect, or the SQL standard's."""
    spelling = SPELLINGS.get(name) or DialectSpelling()
    if spelling.truncate is None:
        return spelling
    return replace(spelling, bucket_start=partial(_start_without_zones, name, spelling.truncate))
