"""What a SQL text for SQLite may contain."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from sqlalchemy import BindParameter, ScalarSelect, func, type_coerce, types
from sqlalchemy.sql.visitors import iterate

from dualsql.columns.own_types import Element, SQLType
from dualsql.errors import InvalidSQLError
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
    "dayofweek": "Write strftime('%w', x): 0 is Sunday.",
    "weekday": "Write strftime('%w', x): 0 is Sunday.",
    "date_part": "Write strftime('%Y', x), with %m for the month, %d for the day.",
    "date_trunc": "Write date_trunc('month', x), or year, quarter, week, day, hour.",
    "week": "Write date_trunc('week', x): the Monday of each week.",
    "date_format": "Write strftime('%Y-%m', x).",
    **dict.fromkeys(("to_date", "str_to_date"), "Write date(x), where x is a text such as '2026-01-31'."),
    **dict.fromkeys(
        ("split_part", "substring_index"), "Write substr(x, 1, instr(x || ' ', ' ') - 1): the first word."
    ),
    **dict.fromkeys(("initcap", "reverse", "repeat"), "Select the column as it is."),
    **dict.fromkeys(("regexp_like", "regexp_matches"), "Write x REGEXP '^a', or x LIKE 'a%'."),
    "regexp_replace": "Write replace(x, 'a', 'b'), which replaces one text by another.",
    "mode": "Group by the column: SELECT x, count(*) FROM t GROUP BY x ORDER BY 2 DESC LIMIT 1.",
    "grouping": "Join one SELECT for each grouping by UNION ALL.",
    "width_bucket": "Write CAST((x - 0) / 20 AS INTEGER) for buckets of 20.",
    **dict.fromkeys(("last_day", "eomonth"), "Write date(x, 'start of month', '+1 month', '-1 day')."),
    "from_unixtime": "Write datetime(x, 'unixepoch').",
    **dict.fromkeys(("unix_timestamp", "epoch"), "Write strftime('%s', x)."),
    "make_date": "Write printf('%04d-%02d-%02d', 2026, 1, 31).",
    "timestampdiff": "Write (julianday(b) - julianday(a)) * 24 for hours.",
    "datediff": "Write julianday(a) - julianday(b).",
    "date_diff": "Write julianday(a) - julianday(b).",
    "date_add": "Write date(x, '+1 month').",
    "date_sub": "Write date(x, '-1 month').",
    **dict.fromkeys(("dateadd", "add_months"), "Write date(x, '+1 month')."),
    **dict.fromkeys(("charindex", "locate"), "Write instr(y, x)."),
    "quarter": "Write (strftime('%m', x) + 2) / 3.",
    "dayname": "Write strftime('%w', x): 0 is Sunday.",
    "monthname": "Write strftime('%m', x).",
    **dict.fromkeys(
        ("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"),
        _VARIANCE,
    ),
}

_IN_DAYS = {"week": 7, "day": 1}
_IN_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_LARGEST_DATE = 10
"""Elements of an expression that is moved, and written several times."""
_IN_SECONDS = {"hour": 3_600, "minute": 60, "second": 1}


def _moved(unit: str, number: Element, date: Element) -> Element:
    # printf() takes NULL for 0, and cuts a fraction.
    if not isinstance(number, BindParameter) or type(number.value) is not int:
        raise InvalidSQLError(
            "A date is moved by a constant whole number here.",
            hint="Write date(x, y || ' days') for a column y.",
        )
    if not isinstance(date.type, types.Date | types.DateTime | types.String):
        raise InvalidSQLError("What is moved in time is no date.", hint="Write date(x) + INTERVAL '1 day'.")
    if isinstance(date, ScalarSelect):
        # With its value written several times, and brought into one spelling, the statement is soon more than SQLite's
        # parser takes.
        raise InvalidSQLError(
            "A subquery is not moved in time here.",
            hint="Name its value first: WITH m AS (SELECT max(x) AS x FROM t) SELECT ... FROM t, m WHERE t.x >= m.x"
            " - INTERVAL '1 month'.",
        )
    if sum(1 for _ in islice(iterate(date), _LARGEST_DATE + 1)) > _LARGEST_DATE:
        raise InvalidSQLError(
            "What is moved in time is too large an expression.", hint="Compute it in a subquery in FROM."
        )
    if isinstance(date.type, types.Date) and unit not in _IN_SECONDS:
        return _shifted(func.date, unit, number, date, types.Date())
    # Apart from the time of day, or its fraction and zone: SQLite keeps milliseconds, and rounds 23:59:59.9996 to the
    # next day.
    function, length = (func.datetime, 19) if unit in _IN_SECONDS else (func.date, 10)
    first, rest = (func.substr(date, *part, type_=types.String()) for part in ((1, length), (length + 1,)))
    text = _shifted(function, unit, number, first, types.String()).concat(rest)
    return type_coerce(text, types.DateTime() if isinstance(date.type, types.Date) else date.type)


def _shifted(function: Any, unit: str, number: Element, date: Element, kind: SQLType) -> Element:
    if unit in _IN_DAYS or unit in _IN_SECONDS:
        amount, name = (_IN_DAYS[unit], "days") if unit in _IN_DAYS else (_IN_SECONDS[unit], "seconds")
        shifted: Element = function(date, func.printf(f"%+d {name}", number * amount), type_=kind)
        return shifted
    months = func.printf("%+d months", number * _IN_MONTHS[unit])
    # SQLite makes March 3 of January 31 and a month; other databases the last day of February.
    last = function(date, "start of month", months, "+1 month", "-1 day", type_=kind)
    return func.min(function(date, months, type_=kind), last, type_=kind)


TEXT = TextDialect(
    parser="sqlite",
    distinguishes_parameters=True,
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
    # CAST takes dates only. Without its fraction: SQLite rounds 23:59:59.9996 to the next day.
    writes_formats="strftime(:b, substr(CAST(:a AS TIMESTAMP), 1, 19))",
    days_between="CAST(julianday(substr(CAST(:b AS DATE), 1, 10))"
    " - julianday(substr(CAST(:a AS DATE), 1, 10)) AS INTEGER)",
    system_tables=("sqlite_",),
    whole_quotient=types.Integer(),
    averages_in_doubles=True,
    computes_in_doubles=True,
    # SQLAlchemy puts Python's math.floor in its place, which fails for NULL and makes integers of doubles.
    lacks_floor=True,
    correlates_from=True,
    merges_in_place=True,
    has_scalar_extremes=True,
    units=("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    moves_date=_moved,
    interval_hint="Write x + INTERVAL '30 days', or julianday(a) - julianday(b).",
    date_cast_hint="SQLite has no such type: write date(column) or strftime('%Y-%m', column).",
    has_date_modifiers=True,
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
    # strftime() takes another field for a text, which is 0 as a number.
    extract_fields=frozenset("year month day hour minute second dow doy epoch".split()),
)
