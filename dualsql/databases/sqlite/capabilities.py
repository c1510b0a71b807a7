"""The capabilities of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnClause, ColumnElement, case, cast, func, literal, types

from dualsql.capabilities import Capabilities, QueryDialect, unchanged
from dualsql.columns.own_types import Computation, SQLType
from dualsql.databases.generic import Expression, collated, raw_form, stored_in
from dualsql.databases.sqlite.callbacks import MATCH, require_pattern
from dualsql.databases.sqlite.values import VALUES
from dualsql_client.wire import Bucket

if TYPE_CHECKING:
    from dualsql.text_dialects import TextDialect


def _keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    plain = stored_in("sqlite", expression.type)
    if isinstance(plain, types.String):
        # A NOCASE column compares 'a' equal to 'A'.
        return [collated(expression, "BINARY")]
    # 1 equals 1.0, and a column without a type can hold both.
    return [expression, func.typeof(expression)] if isinstance(plain, types.NullType) else [expression]


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


def _binary(element: Expression) -> Expression:
    return collated(element, "BINARY")


def _beginning_of_bucket(element: Expression, bucket: Bucket) -> Expression:
    from dualsql.columns.instants import instant, is_instant

    if not is_instant(element):
        return _beginning(element, bucket)
    # Without its fraction: SQLite rounds 23:59:59.9996 to the next day.
    found = _beginning(func.substr(instant(element), 1, 19, type_=types.String()), bucket)
    if not isinstance(element, ColumnClause):
        return found
    # Most instants are whole seconds as SQLAlchemy writes them, which need no other spelling: that takes half as long
    # again. This begins alike for every text, or it is NULL.
    is_whole = func.instr(element, ".000000") == 20
    whole = [(is_whole, _beginning(element, bucket))]
    if bucket in _DATES:
        # date() takes two thirds of the time of strftime(). Of the years before 0 and of February 30, it may give
        # another text: strftime() cuts what is not like this.
        pattern, modifiers = _DATES[bucket]
        cut = func.date(element, *modifiers, type_=types.Date())
        is_like_this = element.op("GLOB", is_comparison=True)(literal(pattern, types.String()))
        whole.insert(0, (is_like_this, cut))
    return func.coalesce(case(*whole), found)


def _beginning(element: Expression, bucket: Bucket) -> Expression:
    if bucket == "week":
        # Six days back, then forward to the next Monday, which may be the same day.
        return func.date(element, "-6 days", "weekday 1", type_=types.Date())
    if bucket == "quarter":
        month = cast(func.strftime("%m", element), types.Integer())
        past = func.printf("-%d months", (month - 1) % 3)
        # Newer versions of SQLite read February 30 as a day of March, but not before a modifier: date() comes first.
        return func.date(func.date(element), "start of month", past, type_=types.Date())
    kind = types.DateTime() if bucket == "hour" else types.Date()
    return func.strftime(_FORMATS[bucket], element, type_=kind)


def _sum(element: Expression) -> Expression:
    # An overflow is an error there, and never a wrong number.
    return func.sum(element, type_=types.BigInteger())


def _to_decimal_digits(total: Expression) -> Expression:
    # A double has 15 decimal digits: 0.1 + 0.2 is 0.30000000000000004 there, and 0.3 to this many digits.
    rounded: Expression = cast(func.printf("%.15g", total), types.REAL())
    return case((func.typeof(total) == "real", rounded), else_=total)


_QUERY = QueryDialect(
    exact=_binary,
    ordered=_binary,
    position=lambda text, part: func.instr(text, part, type_=types.Integer()),
    cut_date=_beginning_of_bucket,
    double=unchanged,
    sum_of_integers=(_sum, _sum),
    ranks_rows=True,
    sum_of_decimals=_to_decimal_digits,
)


def _text_dialect() -> TextDialect:
    from dualsql.databases.sqlite.text import TEXT

    return TEXT


def _in_bytes(column: str, value: str, _: SQLType) -> str:
    # A column can be declared with NOCASE or RTRIM. An index still finds them all, of which one is kept.
    return f"({column} = {value} AND {column} COLLATE BINARY = {value})"


_CANONICAL = "'????-??-?? ??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]'"
_OF_CURRENT_TIMESTAMP = "'????-??-?? ??:??:??'"
_BEGINS_WITH_DATE = "'[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'"


def _one_spelling(x: str) -> str:
    """SQL for the normalized spelling of the instant in `x`, which is SQL."""
    zone = f"ltrim(substr({x}, 20), '.0123456789')"
    digits = f"CASE WHEN substr({x}, 20, 1) = '.' THEN substr({x}, 21, length({x}) - 20 - length({zone})) ELSE '' END"
    seconds = f"strftime('%Y-%m-%d %H:%M:%S', substr({x}, 1, 19) || {zone})"
    return (
        f"CASE WHEN {x} GLOB {_CANONICAL} THEN {x}"
        f" WHEN {x} GLOB {_OF_CURRENT_TIMESTAMP} THEN {x} || '.000000'"
        f" WHEN {x} GLOB {_BEGINS_WITH_DATE}"
        f" THEN coalesce({seconds} || '.' || substr({digits} || '000000', 1, 6), {x}) ELSE {x} END"
    )


def _day(x: str, days: str, otherwise: str) -> str:
    shifted = f"coalesce(date(substr({x}, 1, 10), '{days}'), {otherwise})"
    return f"CASE WHEN {x} GLOB {_BEGINS_WITH_DATE} THEN {shifted} ELSE {otherwise} END"


_OWN_FUNCTIONS: Mapping[str, Callable[[str], str]] = {
    "dualsql_instant": _one_spelling,
    # Two dates in local time are at most two days apart, whatever their zones.
    "dualsql_days_before": lambda x: _day(x, "-2 days", "''"),
    "dualsql_days_after": lambda x: _day(x, "+3 days", "char(1114111)"),  # after every other text
}
"""The functions of `dualsql.columns.instants`, which SQLite does not have, and the SQL that is sent for them."""

CAPABILITIES = Capabilities(
    name="SQLite",
    nulls_last=True,
    random_share=lambda step: func.random(type_=types.BigInteger()) % step == 0,
    splits_statements=False,
    groups_strictly=False,
    has_loose_types=True,
    distinguishing=_keys,
    nulls_last_by_default=(False, True),
    searches_row_values=True,
    key_form=raw_form,
    query=_QUERY,
    text_dialect=_text_dialect,
    has_sized_integers=False,
    own_functions=_OWN_FUNCTIONS,
    is_bytes=lambda expression: func.typeof(expression) == "blob",
    storage_class=func.typeof,
    shown_as_false=(0, "", b""),
    has_loose_comparisons=True,
    spells_instants=True,
    computation=Computation(
        in_doubles=True,
        in_doubles_only=frozenset({"mod", "round"}),
        compensates=sqlite3.sqlite_version_info >= (3, 43),
        is_loose=True,
        has_truths=False,
        fractions={},
    ),
    drivers=dict.fromkeys(("pysqlite", "aiosqlite"), VALUES),
    text_equality=_in_bytes,
    match_function=MATCH,
    require_pattern=require_pattern,
    asks_code_points="SELECT count(*) = 0 FROM sqlite_master WHERE instr(lower(sql), 'collate')",
)
