"""What a SQL text for SQLite may contain."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import types

from dualsql.text_dialects import (
    WITHOUT_CONSTRUCT,
    FunctionResult,
    ResultOf,
    TextDialect,
    functions_that_give,
    lacking,
)

_FUNCTIONS: Mapping[str, FunctionResult] = {
    **functions_that_give(
        types.String(),
        "char date datetime format json_extract json_type printf strftime time timediff json_quote json",
    ),
    **functions_that_give(types.Double(), "julianday"),
    **functions_that_give(types.BigInteger(), "json_array_length json_valid unixepoch"),
    **functions_that_give(ResultOf.ARGUMENTS, "max min"),
    **functions_that_give(ResultOf.FIRST_ARGUMENT, "likely unlikely"),
}
_JSON_ROWS = ("key", "value", "type", "atom", "id", "parent", "fullkey", "path")

_VARIANCE = "Compute it: avg(x * x) - avg(x) * avg(x) is the variance, and its sqrt() the standard deviation."
_INSTEAD: Mapping[str, str] = {
    "concat": "Write a || b.",
    "concat_ws": "Write a || ', ' || b.",
    "left": "Write substr(x, 1, n).",
    "right": "Write substr(x, -n).",
    "greatest": "Write max(a, b).",
    "least": "Write min(a, b).",
    "ascii": "Write unicode(x).",
    "strpos": "Write instr(x, y).",
    "position": "Write instr(x, y).",
    "character_length": "Write length(x).",
    "btrim": "Write trim(x, y).",
    "any_value": "Write min(x).",
    "bool_and": "Write min(x).",
    "every": "Write min(x).",
    "bool_or": "Write max(x).",
    "array_agg": "Write json_group_array(x).",
    "json_agg": "Write json_group_array(x).",
    "jsonb_agg": "Write json_group_array(x).",
    "json_object_agg": "Write json_group_object(x, y).",
    "jsonb_object_agg": "Write json_group_object(x, y).",
    "to_char": "Write strftime('%Y-%m', x) for a date, printf('%.2f', x) for a number.",
    "lpad": "Write printf('%5d', x), or substr('     ' || x, -5).",
    "year": "Write strftime('%Y', x).",
    "month": "Write strftime('%m', x).",
    "day": "Write strftime('%d', x).",
    "hour": "Write strftime('%H', x).",
    "dayofweek": "Write strftime('%w', x): 0 is Sunday.",
    "weekday": "Write strftime('%w', x): 0 is Sunday.",
    "date_part": "Write strftime('%Y', x), with %m for the month, %d for the day.",
    "date_trunc": "Write strftime('%Y-%m-01', x) for months, date(x) for days.",
    "date_format": "Write strftime('%Y-%m', x).",
    "to_date": "Write date(x).",
    "datediff": "Write julianday(a) - julianday(b).",
    "date_diff": "Write julianday(a) - julianday(b).",
    "date_add": "Write date(x, '+1 month').",
    "date_sub": "Write date(x, '-1 month').",
    "now": "Write datetime('now'), or datetime('now', '-1 day').",
    "dateadd": "Write date(x, '+1 month').",
    "charindex": "Write instr(y, x).",
    "quarter": "Write (strftime('%m', x) + 2) / 3.",
    "dayname": "Write strftime('%w', x): 0 is Sunday.",
    "monthname": "Write strftime('%m', x).",
    "curdate": "Write date('now').",
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"),
        _VARIANCE,
    ),
}


TEXT = TextDialect(
    parser="sqlite",
    functions=_FUNCTIONS,
    table_functions={"json_each": _JSON_ROWS, "json_tree": _JSON_ROWS},
    absent=frozenset(
        """any_value array_agg ascii bit_and bit_or bool_and bool_or btrim cbrt character_length chr corr covar_pop
        covar_samp every greatest grouping initcap json_agg json_object_agg jsonb_agg jsonb_object_agg least left lpad
        md5 median mode percentile_cont percentile_disc quote_literal regr_count regr_intercept regr_r2 regr_slope
        repeat reverse right rpad stddev stddev_pop stddev_samp strpos to_char var_pop var_samp variance""".split()
    ),
    since={
        "concat": (3, 44),
        "concat_ws": (3, 44),
        "octet_length": (3, 43),
        "timediff": (3, 43),
        "format": (3, 38),
        "unixepoch": (3, 38),
    },
    instead=_INSTEAD,
    system_tables=("sqlite_",),
    whole_quotient=types.Integer(),
    averages_in_doubles=True,
    computes_in_doubles=True,
    # SQLAlchemy puts Python's math.floor in its place, which fails for NULL and makes integers of doubles.
    lacks_floor=True,
    correlates_from=True,
    merges_in_place=True,
    has_scalar_extremes=True,
    interval_hint="Write date(column, '+3 months').",
    date_cast_hint="SQLite has no such type: write date(column) or strftime('%Y-%m', column).",
    has_default_separator=True,
    orders_joined_texts=False,
    has_superaggregates=False,
    lacks=lacking(
        "ALL of a subquery",
        "ANY of a subquery",
        "CUBE",
        "DISTINCT with OVER",
        "DIV",
        "EXCEPT ALL",
        "GROUPING SETS",
        "INTERSECT ALL",
        "LATERAL",
        "XOR of bits",
    )
    | {"ROLLUP (x)": WITHOUT_CONSTRUCT["CUBE"]},
    names_value_columns=False,
    quoted_words_are_texts=True,
    collations=("BINARY", "NOCASE", "RTRIM"),
    folds_quoted_names=True,
    # strftime() takes another field for a text, which is 0 as a number.
    extract_fields=frozenset("year month week day hour minute second dow doy epoch".split()),
)
