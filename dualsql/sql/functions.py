"""The functions that a text may call, and the types of computed values.

No allowed function reads a file, a catalogue, a setting or the network, waits, locks or writes. All others are refused.
SQLAlchemy gives `price * (1 - discount)` the type NUMERIC(12, 2) of its columns. On SQLite such a type rounds results,
and two of four decimal digits would be lost. Computed values therefore get types without a scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, type_coerce, types

from dualsql.capabilities import ResultOf, TextDialect
from dualsql.columns.own_types import SQLType

_FRACTIONS = (types.Numeric, types.Float)  # neither is a subclass of the other


def common(kinds: Sequence[SQLType]) -> SQLType:
    """The type of a value that is one of several, as in CASE, COALESCE and UNION."""
    known = [kind for kind in kinds if not isinstance(kind, types.NullType)]
    numbers = [kind for kind in known if isinstance(kind, _FRACTIONS)]
    if len({_affinity(kind) for kind in known}) > 1:
        return types.NullType()  # SQLite may return a text in one row and a number in the next
    if not numbers:
        wide = next((kind for kind in known if isinstance(kind, types.BigInteger)), None)
        return wide or next(iter(known), types.NullType())
    if any(not number.asdecimal for number in numbers):
        return types.Double()
    scales = {(number.precision, number.scale) for number in numbers}
    return numbers[0] if len(scales) == 1 else types.Numeric()


def _affinity(kind: SQLType) -> type[SQLType]:
    """The class of types with which this type can be combined."""
    if isinstance(kind, (*_FRACTIONS, types.Integer)):
        return types.Numeric
    return next((base for base in (types.String, types.DateTime) if isinstance(kind, base)), type(kind))


def average(kind: SQLType, dialect: TextDialect) -> SQLType:
    """The type of avg() and similar functions."""
    if isinstance(kind, types.Interval):
        return kind
    is_float = isinstance(kind, _FRACTIONS) and not kind.asdecimal
    return types.Double() if is_float or dialect.averages_in_doubles else types.Numeric()


def quotient(left: SQLType, right: SQLType, dialect: TextDialect) -> SQLType:
    """The type of left / right."""
    if isinstance(left, types.Integer) and isinstance(right, types.Integer):
        return dialect.whole_quotient
    if not any(isinstance(kind, _FRACTIONS) for kind in (left, right)):
        return types.NullType()
    return common([left, right]) if dialect.quotient is None else dialect.quotient


def computed(element: ColumnElement[Any], dialect: TextDialect) -> ColumnElement[Any]:
    """The element, with a type that keeps all of its digits."""
    kind = element.type
    if not isinstance(kind, _FRACTIONS) or not kind.asdecimal:
        return element
    if dialect.computes_in_doubles:
        return type_coerce(element, types.Double())
    return element if kind.scale is None else type_coerce(element, types.Numeric())


def one_of(element: ColumnElement[Any], values: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """The element, with the common type of `values`, one of which it returns."""
    kind = common([value.type for value in values])
    return element if repr(kind) == repr(element.type) else type_coerce(element, kind)


Result = Callable[[list[Any], TextDialect], SQLType]
"""The type of a function's result, by its arguments and the dialect."""

_WHOLE: SQLType = types.BigInteger()
_FLOATING: SQLType = types.Double()
_EXACT: SQLType = types.Numeric()
_TEXT, _TRUTH = types.String(), types.Boolean()
_DAY, _INSTANT, _CLOCK, _SPAN = types.Date(), types.DateTime(), types.Time(), types.Interval()


def _same(arguments: list[Any], _: TextDialect) -> SQLType:
    """The type of the first argument."""
    return arguments[0].type if arguments else types.NullType()


def _one_of(arguments: list[Any], _: TextDialect) -> SQLType:
    return common([found.type for found in arguments])


def _chosen(arguments: list[Any], _: TextDialect) -> SQLType:
    """The type of iif(condition, value, value)."""
    return common([found.type for found in arguments[1:]])


def _average(arguments: list[Any], dialect: TextDialect) -> SQLType:
    return average(_same(arguments, dialect), dialect)


def _always(kind: SQLType) -> Result:
    return lambda *_: kind


def _named(kind: Result | SQLType, names: str) -> dict[str, Result]:
    result = kind if callable(kind) else _always(kind)
    return dict.fromkeys(names.split(), result)


_UNTYPED = types.NullType()

# Allowed on every database. If a database lacks one, its own error says so.
_COMMON: Mapping[str, Result] = {
    **_named(_WHOLE, "ascii char_length character_length instr length octet_length sign strpos unicode"),
    **_named(
        _FLOATING,
        "acos asin atan atan2 cbrt cos degrees exp ln log log10 log2 pi power pow radians sin sqrt tan",
    ),
    **_named(
        _TEXT,
        """btrim chr concat concat_ws hex initcap left lower lpad ltrim md5 quote_literal repeat replace reverse
        right rpad rtrim soundex substr substring to_char trim typeof upper""",
    ),
    **_named(_same, "abs ceil ceiling floor mod nullif round trunc"),
    **_named(_one_of, "coalesce greatest ifnull least"),
    **_named(_chosen, "iif"),
}

_AGGREGATES: Mapping[str, Result] = {
    **_named(_WHOLE, "count"),
    **_named(_FLOATING, "corr covar_pop covar_samp regr_count regr_intercept regr_r2 regr_slope"),
    **_named(_FLOATING, "total"),
    **_named(_average, "avg stddev stddev_pop stddev_samp var_pop var_samp variance"),
    **_named(_TEXT, "group_concat string_agg"),
    **_named(_TRUTH, "bool_and bool_or every"),
    **_named(
        _UNTYPED,
        "array_agg json_agg jsonb_agg json_group_array json_group_object json_object_agg jsonb_object_agg",
    ),
    **_named(_same, "any_value bit_and bit_or max median min mode sum"),
    **_named(_FLOATING, "percentile_cont"),
    **_named(_UNTYPED, "percentile_disc"),
    **_named(_WHOLE, "grouping"),
}

_OTHER_AGGREGATES = frozenset(
    """aggregate_strings approx_count_distinct arg_max arg_min count_if first last list max_by min_by quantile_cont
    quantile_disc""".split()
)
"""Functions of one database, and SQLAlchemy's name of string_agg."""

_WINDOWS: Mapping[str, Result] = {
    **_named(_WHOLE, "dense_rank ntile rank row_number"),
    **_named(_FLOATING, "cume_dist percent_rank"),
    **_named(_same, "first_value lag last_value lead nth_value"),
}

_RANKED = (
    "Number the rows with row_number() OVER (ORDER BY x), and take those in the middle of count(*) OVER ()."
)
_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("median", "percentile_cont", "percentile_disc"), _RANKED),
    **dict.fromkeys(
        ("random", "rand", "newid", "uuid", "gen_random_uuid"),
        "Each page runs the query again, so its rows may not change by chance: order by columns.",
    ),
    **dict.fromkeys(("nvl", "isnull"), "Write coalesce(x, y)."),
    "len": "Write length(x).",
}
"""Suggestions for databases that have no own one."""

Version = tuple[int, ...]


def absent(name: str, dialect: TextDialect, version: Version | None) -> bool:
    """Whether the database, or this version of it, lacks a function that others have."""
    since = dialect.since.get(name)
    return name in dialect.absent or (since is not None and version is not None and version < since)


def instead(name: str, dialect: TextDialect) -> str | None:
    """What to write instead of a function that is not allowed; None if unknown."""
    return dialect.instead.get(name) or _INSTEAD.get(name)


def result_of(name: str, dialect: TextDialect, version: Version | None = None) -> Result | None:
    """The result type of a function, or None if this database has no such function or it is not allowed."""
    if absent(name, dialect, version):
        return None
    own = dialect.functions.get(name)
    if own is not None:
        return _OF_ARGUMENTS[own] if isinstance(own, ResultOf) else _always(own)
    return _COMMON.get(name) or _AGGREGATES.get(name) or _WINDOWS.get(name)


_OF_ARGUMENTS: Mapping[ResultOf, Result] = {ResultOf.FIRST_ARGUMENT: _same, ResultOf.ARGUMENTS: _one_of}


def is_aggregate(name: str) -> bool:
    """Whether the function is an aggregate on at least one database."""
    return name in _AGGREGATES


def is_windowed(name: str, dialect: TextDialect) -> bool:
    """Whether the database has the function only with OVER."""
    return name in dialect.windowed or (name in _WINDOWS and name not in dialect.functions)


def gathers(name: str, arguments: int, dialect: TextDialect) -> bool:
    """Whether a call with this number of arguments is an aggregate."""
    if dialect.has_scalar_extremes and name in {"max", "min"}:
        return arguments < 2
    return name in _AGGREGATES or name in _OTHER_AGGREGATES


def known_functions(dialect: TextDialect, version: Version | None = None) -> list[str]:
    """The names of all allowed functions, for suggestions."""
    named = {*dialect.functions, *_COMMON, *_AGGREGATES, *_WINDOWS}
    return sorted(name for name in named if not absent(name, dialect, version))
