"""The capabilities of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, func, types

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import Computation, SQLType
from dualsql.databases.expressions import collated, raw_form, stored_in
from dualsql.databases.sqlite.callbacks import MATCH, require_pattern
from dualsql.databases.sqlite.values import VALUES

if TYPE_CHECKING:
    from dualsql.query_dialects import QueryDialect
    from dualsql.text_dialects import TextDialect


def _keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    plain = stored_in("sqlite", expression.type)
    if isinstance(plain, types.String):
        # A NOCASE column compares 'a' equal to 'A'.
        return [collated(expression, "BINARY")]
    # 1 equals 1.0, and a column without a type can hold both.
    return [expression, func.typeof(expression)] if isinstance(plain, types.NullType) else [expression]


def _query_dialect() -> QueryDialect:
    from dualsql.databases.sqlite.query import QUERY

    return QUERY


def _text_dialect() -> TextDialect:
    from dualsql.databases.sqlite.text import TEXT

    return TEXT


def _in_bytes(column: str, value: str, _: SQLType) -> str:
    # A column can be declared with NOCASE or RTRIM. An index still finds them all, of which one is kept.
    return f"({column} = {value} AND {column} COLLATE BINARY = {value})"


_CANONICAL = "'????-??-?? ??:??:??.[0-9][0-9][0-9][0-9][0-9][0-9]'"
_OF_CURRENT_TIMESTAMP = "'????-??-?? ??:??:??'"
_SECONDS = "'%Y-%m-%d %H:%M:%S'"
_BEGINS_WITH_DATE = "'[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'"


def _one_spelling(x: str) -> str:
    """SQL for the normalized spelling of the instant in `x`, which is SQL."""
    zone = f"ltrim(substr({x}, 12), '.:0123456789')"
    digits = f"CASE WHEN substr({x}, 20, 1) = '.' THEN substr({x}, 21, length({x}) - 20 - length({zone})) ELSE '' END"
    local = f"substr({x}, 1, CASE substr({x}, 17, 1) WHEN ':' THEN 19 ELSE 16 END)"
    # As Python reads a zone: in hours, minutes or seconds, with colons or without. SQLite reads +02:00 alone.
    sign, rest = f"substr({zone}, 1, 1)", f"replace(substr({zone}, 2), ':', '')"
    parts = f"substr({rest}, 1, 2) || ':' || substr({rest} || '00', 3, 2) || ':' || substr({rest} || '0000', 5, 2)"
    shift = f"CASE {sign} WHEN '+' THEN '-' WHEN '-' THEN '+' END || {parts}"
    # Without a shift, SQLite keeps the 30th of February.
    seconds = (
        f"CASE WHEN {zone} IN ('', 'Z') THEN strftime({_SECONDS}, {local})"
        f" WHEN length({rest}) IN (2, 4, 6) THEN strftime({_SECONDS}, {local}, {shift}) END"
    )
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
    splits_statements=False,
    groups_strictly=False,
    has_loose_types=True,
    constraints="dualsql.databases.sqlite.constraints",
    distinguishing=_keys,
    nulls_last_by_default=(False, True),
    searches_row_values=True,
    key_form=raw_form,
    query_dialect=_query_dialect,
    text_dialect=_text_dialect,
    has_sized_integers=False,
    own_functions=_OWN_FUNCTIONS,
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
