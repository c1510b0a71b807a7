"""The functions that a text may call, and the types of computed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, type_coerce, types
from sqlalchemy.types import TypeEngine

SQLType = TypeEngine[Any]

_FRACTIONS = (types.Numeric, types.Float)  # neither is the other's base

_DIVIDES_TO: Mapping[str, SQLType] = {
    "postgresql": types.Integer(),
    "sqlite": types.Integer(),
    "duckdb": types.Double(),
}
"""What two whole numbers give; elsewhere an exact fraction."""


def common(kinds: Sequence[SQLType]) -> SQLType:
    """The type of a value that is one of several, as in CASE, COALESCE and UNION."""
    known = [kind for kind in kinds if not isinstance(kind, types.NullType)]
    numbers = [kind for kind in known if isinstance(kind, _FRACTIONS)]
    if len({_affinity(kind) for kind in known}) > 1:
        return types.NullType()  # SQLite gives a text or a number, as it comes
    if not numbers:
        wide = next((kind for kind in known if isinstance(kind, types.BigInteger)), None)
        return wide or next(iter(known), types.NullType())
    if any(not number.asdecimal for number in numbers):
        return types.Double()
    scales = {(number.precision, number.scale) for number in numbers}
    return numbers[0] if len(scales) == 1 else types.Numeric()


def _affinity(kind: SQLType) -> type[SQLType]:
    """What values of the type can stand beside each other."""
    if isinstance(kind, (*_FRACTIONS, types.Integer)):
        return types.Numeric
    return next((base for base in (types.String, types.DateTime) if isinstance(kind, base)), type(kind))


def average(kind: SQLType, dialect: str) -> SQLType:
    """What avg() and its kin give."""
    if isinstance(kind, types.Interval):
        return kind
    is_float = isinstance(kind, _FRACTIONS) and not kind.asdecimal
    return types.Double() if is_float or dialect in ("sqlite", "duckdb") else types.Numeric()


def quotient(left: SQLType, right: SQLType, dialect: str) -> SQLType:
    """What left / right gives."""
    if isinstance(left, types.Integer) and isinstance(right, types.Integer):
        return _DIVIDES_TO.get(dialect, types.Numeric())
    if not any(isinstance(kind, _FRACTIONS) for kind in (left, right)):
        return types.NullType()
    return types.Double() if dialect == "duckdb" else common([left, right])


def computed(element: ColumnElement[Any], dialect: str) -> ColumnElement[Any]:
    """The element, its type such that none of its digits is lost."""
    kind = element.type
    if not isinstance(kind, _FRACTIONS) or not kind.asdecimal:
        return element
    if dialect == "sqlite":
        return type_coerce(element, types.Double())
    return element if kind.scale is None else type_coerce(element, types.Numeric())


def one_of(element: ColumnElement[Any], values: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """The element, which is one of `values`, with the type they have in common."""
    kind = common([value.type for value in values])
    return element if repr(kind) == repr(element.type) else type_coerce(element, kind)


Result = Callable[[list[Any], str], SQLType]
"""The type of a function's result, by its arguments and the dialect."""

_WHOLE: SQLType = types.BigInteger()
_FLOATING: SQLType = types.Double()
_EXACT: SQLType = types.Numeric()
_TEXT, _TRUTH = types.String(), types.Boolean()
_DAY, _INSTANT, _CLOCK, _SPAN = types.Date(), types.DateTime(), types.Time(), types.Interval()


def _same(arguments: list[Any], _: str) -> SQLType:
    """The type of the first argument."""
    return arguments[0].type if arguments else types.NullType()


def _one_of(arguments: list[Any], _: str) -> SQLType:
    return common([found.type for found in arguments])


def _chosen(arguments: list[Any], _: str) -> SQLType:
    """Of a condition and two values."""
    return common([found.type for found in arguments[1:]])


def _average(arguments: list[Any], dialect: str) -> SQLType:
    return average(_same(arguments, dialect), dialect)


def _always(kind: SQLType) -> Result:
    return lambda *_: kind


def _named(kind: Result | SQLType, names: str) -> dict[str, Result]:
    result = kind if callable(kind) else _always(kind)
    return dict.fromkeys(names.split(), result)


_UNTYPED = types.NullType()

# On every engine, as far as it has them; what it has not, it says itself.
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

_BY_ENGINE: Mapping[str, Mapping[str, Result]] = {
    "sqlite": {
        **_named(
            _TEXT, "date datetime format json_extract json_type printf strftime time timediff json_quote json"
        ),
        **_named(_FLOATING, "julianday"),
        **_named(_WHOLE, "json_array_length json_valid unixepoch"),
        **_named(_one_of, "max min"),
        **_named(_same, "likely unlikely likelihood"),
    },
    "postgresql": {
        **_named(_INSTANT, "date_bin date_trunc localtimestamp make_timestamp timezone"),
        **_named(types.DateTime(timezone=True), "make_timestamptz now to_timestamp transaction_timestamp"),
        **_named(_DAY, "make_date to_date"),
        **_named(_CLOCK, "make_time"),
        **_named(_SPAN, "age justify_days justify_hours justify_interval make_interval"),
        **_named(_FLOATING, "date_part"),
        **_named(
            _WHOLE,
            "array_length bit_length cardinality json_array_length jsonb_array_length regexp_count",
        ),
        **_named(_EXACT, "div to_number"),
        **_named(
            _TEXT,
            """array_to_string encode json_extract_path_text jsonb_extract_path_text json_typeof jsonb_typeof
            jsonb_pretty overlay regexp_replace regexp_substr split_part to_hex translate""",
        ),
        **_named(_TRUTH, "regexp_like starts_with jsonb_path_exists"),
        **_named(
            _UNTYPED,
            """jsonb_build_array jsonb_build_object jsonb_extract_path jsonb_path_query_first json_build_array
            json_build_object json_extract_path to_json to_jsonb""",
        ),
    },
    "duckdb": {
        **_named(_INSTANT, "date_trunc make_timestamp strptime"),
        **_named(types.DateTime(timezone=True), "now to_timestamp"),
        **_named(_DAY, "last_day make_date"),
        **_named(
            _WHOLE,
            """array_length bit_length date_diff datediff date_part day dayofmonth dayofweek dayofyear epoch hour
            isodow len list_count minute month quarter second strlen week weekday weekofyear year""",
        ),
        **_named(
            _TEXT,
            """array_to_string dayname format list_aggregate monthname printf regexp_extract regexp_replace split_part
            strftime string_split translate""",
        ),
        **_named(_TRUTH, "contains ends_with prefix regexp_full_match regexp_matches starts_with suffix"),
        **_named(_same, "arg_max arg_min first last max_by min_by quantile_cont quantile_disc"),
        **_named(_WHOLE, "approx_count_distinct count_if"),
        **_named(_UNTYPED, "list list_sort list_value"),
    },
    "mysql": {
        **_named(_DAY, "curdate current_date date last_day makedate str_to_date"),
        **_named(_INSTANT, "from_unixtime now timestamp"),
        **_named(
            _WHOLE,
            """day dayofmonth dayofweek dayofyear datediff find_in_set hour locate microsecond minute month quarter
            second time_to_sec to_days unix_timestamp week weekday weekofyear year yearweek json_length
            """,
        ),
        **_named(
            _TEXT,
            "date_format dayname elt format json_extract json_unquote json_value mid monthname substring_index",
        ),
        **_named(_UNTYPED, "json_array json_object"),
    },
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
"""Those of one engine, and the name that SQLAlchemy has for string_agg."""

_WINDOWS: Mapping[str, Result] = {
    **_named(_WHOLE, "dense_rank ntile rank row_number"),
    **_named(_FLOATING, "cume_dist percent_rank"),
    **_named(_same, "first_value lag last_value lead nth_value"),
}

TABLE_FUNCTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sqlite": {
        "json_each": ("key", "value", "type", "atom", "id", "parent", "fullkey", "path"),
        "json_tree": ("key", "value", "type", "atom", "id", "parent", "fullkey", "path"),
    },
    "postgresql": {
        "generate_series": ("generate_series",),
        "unnest": ("unnest",),
        "jsonb_array_elements": ("value",),
        "jsonb_array_elements_text": ("value",),
        "jsonb_each": ("key", "value"),
        "jsonb_each_text": ("key", "value"),
        "jsonb_object_keys": ("jsonb_object_keys",),
        "json_array_elements": ("value",),
        "json_array_elements_text": ("value",),
        "regexp_split_to_table": ("regexp_split_to_table",),
        "string_to_table": ("string_to_table",),
    },
}
"""Functions that stand in FROM, and the columns they have."""


_STATISTICS = "corr covar_pop covar_samp regr_count regr_intercept regr_r2 regr_slope"
_ABSENT: Mapping[str, frozenset[str]] = {
    "sqlite": frozenset(
        f"{_STATISTICS} any_value array_agg bit_and bit_or bool_and bool_or every median mode".split()
        + "percentile_cont percentile_disc stddev stddev_pop stddev_samp var_pop var_samp variance".split()
    ),
    "postgresql": frozenset("median total".split()),
    "mysql": frozenset(f"{_STATISTICS} array_agg bool_and bool_or every mode total".split()),
}
"""Aggregates that an engine lacks in every version: refused with a suggestion, and not by the engine's error."""


_INSTEAD = dict.fromkeys(
    ("median", "percentile_cont", "percentile_disc"),
    "Number the rows with row_number() OVER (ORDER BY x), and take those in the middle of count(*) OVER ().",
)


def absent(name: str, dialect: str) -> str | None:
    """What to write in the place of an aggregate that the engine lacks; None for one that it has."""
    engine = "mysql" if dialect == "mariadb" else dialect
    return _INSTEAD.get(name) if name in _ABSENT.get(engine, ()) else None


def result_of(name: str, dialect: str) -> Result | None:
    """What a function gives, or None when there is no such function here."""
    engine = "mysql" if dialect == "mariadb" else dialect
    if name in _ABSENT.get(engine, ()):
        return None
    own = _BY_ENGINE.get(engine, {})
    return own.get(name) or _COMMON.get(name) or _AGGREGATES.get(name) or _WINDOWS.get(name)


def is_aggregate(name: str) -> bool:
    """Whether it makes one value of many rows."""
    return name in _AGGREGATES


def gathers(name: str, arguments: int, dialect: str) -> bool:
    """Whether a call of so many arguments makes one value of many rows."""
    if dialect == "sqlite" and name in {"max", "min"}:
        return arguments < 2
    return name in _AGGREGATES or name in _OTHER_AGGREGATES


def known_functions(dialect: str) -> list[str]:
    """Every name, for suggestions."""
    engine = "mysql" if dialect == "mariadb" else dialect
    return sorted(
        {*_BY_ENGINE.get(engine, {}), *_COMMON, *_AGGREGATES, *_WINDOWS} - _ABSENT.get(engine, frozenset())
    )
