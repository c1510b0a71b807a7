"""The functions that are allowed in a text, and the types of their results, which are those of a Select, too.

No allowed function reads a file, a catalogue, a setting or the network, waits, locks or writes. All others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import types

from dualsql.columns.computed import MOMENTS
from dualsql.columns.own_types import SQLType
from dualsql.sqlalchemy_dialects import ranges
from dualsql.text_dialects import ResultOf, TextDialect

FRACTIONS = (types.Numeric, types.Float)  # neither is a subclass of the other


def common(kinds: Sequence[SQLType]) -> SQLType:
    """The type of a value that is one of several, as in CASE, COALESCE and UNION."""
    declared = [kind for kind in kinds if not isinstance(kind, types.NullType)]
    numbers = [kind for kind in declared if isinstance(kind, FRACTIONS)]
    if numbers or any(isinstance(kind, types.Integer) for kind in declared):
        # Beside a number, a truth value is one.
        declared = [types.Integer() if isinstance(kind, types.Boolean) else kind for kind in declared]
    if len({_affinity(kind) for kind in declared}) > 1:
        return types.NullType()  # SQLite may return a text in one row and a number in the next
    if not numbers:
        wide = next((kind for kind in declared if isinstance(kind, types.BigInteger)), None)
        return wide or next(iter(declared), types.NullType())
    if any(isinstance(number, types.Float) or not number.asdecimal for number in numbers):
        return types.Double()
    scales = {(number.precision, number.scale) for number in numbers}
    return numbers[0] if len(scales) == 1 else types.Numeric()


def _affinity(kind: SQLType) -> type[SQLType]:
    """The class of types with which this type can be combined."""
    if isinstance(kind, (*FRACTIONS, types.Integer)):
        return types.Numeric
    return next((base for base in (types.String, types.DateTime) if isinstance(kind, base)), type(kind))


def is_exact(kind: Any) -> bool:
    """Whether the database computes with decimals, whatever SQLAlchemy makes of them."""
    return isinstance(kind, types.Numeric) and not isinstance(kind, types.Float)


def average(kind: SQLType, dialect: TextDialect) -> SQLType:
    """The type of avg() and similar functions."""
    if isinstance(kind, types.Interval):
        return kind
    is_float = isinstance(kind, FRACTIONS) and not is_exact(kind)
    return types.Double() if is_float or dialect.averages_in_doubles else types.Numeric()


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
    return common([argument.type for argument in arguments])


def _always(kind: SQLType) -> Result:
    return lambda *_: kind


def _results(kind: Result | SQLType, names: str) -> dict[str, Result]:
    result = kind if callable(kind) else _always(kind)
    return dict.fromkeys(names.split(), result)


_UNTYPED = types.NullType()

# Allowed on every database. If a database lacks one, its own error says so.
COMMON: Mapping[str, Result] = {
    **_results(_WHOLE, "ascii char_length character_length instr length octet_length sign strpos unicode"),
    **_results(
        _FLOATING,
        "acos asin atan atan2 cbrt cos degrees exp ln log log10 log2 pi power pow radians sin sqrt tan",
    ),
    **_results(
        _TEXT,
        """btrim chr concat concat_ws hex initcap left lower lpad ltrim md5 quote_literal repeat replace reverse
        right rpad rtrim soundex substr substring to_char trim typeof upper""",
    ),
    **_results(_same, "abs ceil ceiling floor mod nullif round trunc"),
    **_results(_one_of, "coalesce greatest ifnull least"),
    "iif": lambda arguments, dialect: _one_of(arguments[1:], dialect),
}

AGGREGATES: Mapping[str, Result] = {
    **_results(_WHOLE, "count regr_count"),
    **_results(_FLOATING, "corr covar_pop covar_samp regr_intercept regr_r2 regr_slope"),
    **_results(_FLOATING, "total"),
    **_results(
        lambda arguments, dialect: average(_same(arguments, dialect), dialect),
        "avg stddev stddev_pop stddev_samp var_pop var_samp variance",
    ),
    **_results(_TEXT, "group_concat string_agg"),
    **_results(_TRUTH, "bool_and bool_or every"),
    **_results(
        _UNTYPED,
        "array_agg json_agg jsonb_agg json_group_array json_group_object json_object_agg jsonb_object_agg",
    ),
    **_results(_same, "any_value bit_and bit_or max median min mode sum"),
    **_results(_FLOATING, "percentile_cont"),
    **_results(_UNTYPED, "percentile_disc"),
    **_results(_WHOLE, "grouping"),
}

WINDOWS: Mapping[str, Result] = {
    **_results(_WHOLE, "dense_rank ntile rank row_number"),
    **_results(_FLOATING, "cume_dist percent_rank"),
    **_results(_same, "first_value lag last_value lead nth_value"),
}


def result_of(name: str, dialect: TextDialect) -> Result | None:
    """The result type of a function, or None if this database has no such function or it is not allowed."""
    if name in dialect.absent:
        return None
    own = dialect.functions.get(name)
    if isinstance(own, ResultOf):
        result: Result | None = _OF_ARGUMENTS[own]
    elif own is not None:
        result = _always(own)
    else:
        result = COMMON.get(name) or AGGREGATES.get(name) or WINDOWS.get(name)
    return result if result is None or name in _TEXTS_OF_BYTES else _text_of_texts(result)


_TEXTS_OF_BYTES = frozenset("encode hex md5 sha1 sha2 typeof".split())
_NO_TEXTS = (types.LargeBinary, types.BINARY, types.VARBINARY, ranges.AbstractRange)


def _text_of_texts(result: Result) -> Result:
    """For texts only: for bytes the database decides the type, and lower() of a range is its bound."""

    def read(arguments: list[Any], dialect: TextDialect) -> SQLType:
        kind = result(arguments, dialect)
        has_others = any(isinstance(argument.type, _NO_TEXTS) for argument in arguments)
        return _UNTYPED if has_others and isinstance(kind, types.String) else kind

    return read


def _sum(arguments: list[Any], _: TextDialect) -> SQLType:
    kind = _same(arguments, _)
    if isinstance(kind, types.BigInteger):
        return _EXACT
    return _WHOLE if isinstance(kind, types.Integer) else kind


def _rounded(arguments: list[Any], dialect: TextDialect) -> SQLType:
    return _EXACT if len(arguments) > 1 else _middle(arguments, dialect)


def _exact_or_double(arguments: list[Any], _: TextDialect) -> SQLType:
    kinds = [argument.type for argument in arguments if isinstance(argument.type, FRACTIONS)]
    return _EXACT if kinds and all(map(is_exact, kinds)) else _FLOATING


def _logarithm(arguments: list[Any], dialect: TextDialect) -> SQLType:
    return _EXACT if len(arguments) > 1 else _exact_or_double(arguments, dialect)


def _middle(arguments: list[Any], _: TextDialect) -> SQLType:
    kind = _same(arguments, _)
    return _FLOATING if isinstance(kind, types.Integer) else kind


def _whole(arguments: list[Any], _: TextDialect) -> SQLType:
    kind = _same(arguments, _)
    return _WHOLE if is_exact(kind) else kind


def _date_part(arguments: list[Any], _: TextDialect) -> SQLType:
    part = getattr(arguments[0], "value", None) if arguments else None
    return _FLOATING if str(part).lower() in {"epoch", "julian"} else _WHOLE


def _truncated(arguments: list[Any], _: TextDialect) -> SQLType:
    kind = _same(arguments[1:], _)
    return kind if isinstance(kind, types.DateTime | types.Interval) else _INSTANT


def _truncated_in_zone(arguments: list[Any], _: TextDialect) -> SQLType:
    kind = _same(arguments[1:], _)
    if isinstance(kind, types.Date):
        return types.DateTime(timezone=True)
    return _SPAN if isinstance(kind, types.Time) else _truncated(arguments, _)


def _zoned(arguments: list[Any], _: TextDialect) -> SQLType:
    kind = _same(arguments[1:], _)
    if isinstance(kind, types.Time):
        return types.Time(timezone=True)
    return types.DateTime(timezone=isinstance(kind, types.DateTime) and not kind.timezone)


def _seconds(arguments: list[Any], _: TextDialect) -> SQLType:
    kind = _same(arguments, _)
    is_whole = isinstance(kind, MOMENTS) and not getattr(kind, "fsp", None)
    return _WHOLE if is_whole or not arguments else _EXACT


def _list(arguments: list[Any], _: TextDialect) -> SQLType:
    """A list of a type that documents can name."""
    kind = _same(arguments, _)
    is_listed = isinstance(kind, _LISTED) and not isinstance(kind, types.Enum)
    return types.ARRAY(kind) if is_listed and type(kind).__module__ == "sqlalchemy.sql.sqltypes" else _UNTYPED


_LISTED = (types.Boolean, types.Integer, types.Numeric, types.Float, types.String)


_OF_ARGUMENTS: Mapping[ResultOf, Result] = {
    ResultOf.MIDDLE: _middle,
    ResultOf.WHOLE: _whole,
    ResultOf.DATE_PART: _date_part,
    ResultOf.SECONDS: _seconds,
    ResultOf.LIST: _list,
    ResultOf.TRUNCATED: _truncated,
    ResultOf.TRUNCATED_IN_ZONE: _truncated_in_zone,
    ResultOf.ZONED: _zoned,
    ResultOf.LIST_OF_SECOND: lambda arguments, dialect: _same(arguments[1:], dialect),
    ResultOf.FIRST_ARGUMENT: _same,
    ResultOf.ARGUMENTS: _one_of,
    ResultOf.SUM: _sum,
    ResultOf.ROUNDED: _rounded,
    ResultOf.EXACT_OR_DOUBLE: _exact_or_double,
    ResultOf.LOGARITHM: _logarithm,
}


def type_of_call(name: str, arguments: Sequence[Any], dialect: TextDialect) -> SQLType:
    """The type of what a function of this database returns; NullType where none is known."""
    result = result_of(name, dialect)
    return _UNTYPED if result is None else result(list(arguments), dialect)
