"""Functions and operators of SQL texts: which calls are allowed, and the types of arithmetic.

SQLAlchemy gives `price * (1 - discount)` the type NUMERIC(12, 2) of its columns. On SQLite such a type rounds results,
and two of four decimal digits would be lost. Computed values therefore get types without a scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, type_coerce, types

from dualsql.columns.own_types import SQLType
from dualsql.databases.functions import AGGREGATES, COMMON, FRACTIONS, WINDOWS, common, is_exact
from dualsql.text_dialects import TextDialect

_WHOLES = (types.Integer, types.Boolean)
"""Truth values are computed with only where they are the numbers 0 and 1."""


def quotient(left: SQLType, right: SQLType, dialect: TextDialect) -> SQLType:
    """The type of left / right."""
    if isinstance(left, _WHOLES) and isinstance(right, _WHOLES):
        return dialect.whole_quotient
    if not any(isinstance(kind, FRACTIONS) for kind in (left, right)):
        return types.NullType()
    return common([left, right]) if dialect.quotient is None else dialect.quotient


def result_of_arithmetic(left: SQLType, right: SQLType, kind: SQLType) -> SQLType:
    """The type of a sum, a difference or a product, where SQLAlchemy's `kind` is not the database's."""
    if any(isinstance(side, FRACTIONS) and not is_exact(side) for side in (left, right)):
        return types.Double() if isinstance(kind, FRACTIONS) and kind.asdecimal else kind
    is_span = any(isinstance(side, types.Interval) for side in (left, right))
    return types.Interval() if is_span and isinstance(kind, types.NullType) else kind


def with_computed_type(element: ColumnElement[Any], dialect: TextDialect) -> ColumnElement[Any]:
    """The element, with a type that keeps all of its digits."""
    kind = element.type
    if not isinstance(kind, FRACTIONS) or not kind.asdecimal:
        return element
    if dialect.computes_in_doubles:
        return type_coerce(element, types.Double())
    return element if kind.scale is None else type_coerce(element, types.Numeric())


def with_common_type(element: ColumnElement[Any], values: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """The element, with the common type of `values`, one of which it returns."""
    kind = common([value.type for value in values])
    return element if repr(kind) == repr(element.type) else type_coerce(element, kind)


_OTHER_AGGREGATES = frozenset(
    """aggregate_strings approx_count_distinct arg_max arg_min bit_xor count_if first json_arrayagg last list max_by
    min_by quantile_cont quantile_disc std""".split()
)
"""Functions of one database, and SQLAlchemy's name of string_agg."""

_RANKED = (
    'Select the column itself, and ask query_result for {"function": "median", "column": "x"}; or number the rows with'
    " row_number() OVER (ORDER BY x), and take those in the middle of count(*) OVER ()."
)
_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("median", "percentile_cont", "percentile_disc"), _RANKED),
    **dict.fromkeys(
        ("random", "rand", "newid", "uuid", "gen_random_uuid"),
        "Each page runs the query again, so its rows may not change by chance: order by columns.",
    ),
    **dict.fromkeys(("nvl", "isnull"), "Write coalesce(x, y)."),
    "len": "Write length(x).",
    "square": "Write x * x.",
    **dict.fromkeys(("dateadd", "date_add", "add_months", "timestampadd"), "Write x + INTERVAL '1' MONTH."),
    "date_sub": "Write x - INTERVAL '1' MONTH.",
    "eomonth": "Write last_day(x).",
    "zeroifnull": "Write coalesce(x, 0).",
    "format": "Write concat(x, y), or x || y.",
    **dict.fromkeys(("timestamp_trunc", "datetime_trunc"), "Write date_trunc('month', x)."),
    "decode": "Write CASE x WHEN a THEN b ELSE c END.",
}
"""Suggestions for databases that have no own one."""

Version = tuple[int, ...]


def absent(name: str, dialect: TextDialect, version: Version | None) -> bool:
    """Whether the database, or this version of it, lacks a function that others have."""
    since = dialect.since.get(name)
    return name in dialect.absent or (since is not None and version is not None and version < since)


def instead(name: str, dialect: TextDialect) -> str | None:
    """The replacement for a function that is not allowed; None if unknown."""
    return dialect.instead.get(name) or _INSTEAD.get(name)


def is_aggregate(name: str) -> bool:
    """Whether the function is an aggregate on at least one database."""
    return name in AGGREGATES


def is_windowed(name: str, dialect: TextDialect) -> bool:
    """Whether the database has the function only with OVER."""
    return name in dialect.windowed or (name in WINDOWS and name not in dialect.functions)


def gathers(name: str, arguments: int, dialect: TextDialect) -> bool:
    """Whether a call with this number of arguments is an aggregate."""
    if dialect.has_scalar_extremes and name in {"max", "min"}:
        return arguments < 2
    return name in AGGREGATES or name in _OTHER_AGGREGATES


def allowed_functions(dialect: TextDialect, version: Version | None = None) -> list[str]:
    """The names of all allowed functions, for suggestions."""
    names = {*dialect.functions, *COMMON, *AGGREGATES, *WINDOWS}
    return sorted(name for name in names if not absent(name, dialect, version))
