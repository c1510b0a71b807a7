"""What a SQL text for MariaDB may contain: functions, types, and dates that are moved by units."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import func, literal, types
from sqlalchemy.dialects import mysql

from dualsql.columns.own_types import Element
from dualsql.freeze.types import UNITS
from dualsql.text_dialects import FunctionResult, ResultOf, TextDialect, functions_that_give, lacking

_FUNCTIONS: Mapping[str, FunctionResult] = {
    **functions_that_give(
        types.Date(), "curdate current_date date from_days last_day makedate str_to_date utc_date"
    ),
    **functions_that_give(types.DateTime(), "from_unixtime now sysdate timestamp utc_timestamp"),
    **functions_that_give(types.Time(), "curtime maketime sec_to_time time timediff"),
    **functions_that_give(
        types.BigInteger(),
        """bit_count day dayofmonth dayofweek dayofyear datediff field find_in_set hour isnull json_contains
            json_depth json_length json_valid locate microsecond minute month ord period_add period_diff quarter
            regexp_instr second strcmp to_days to_seconds week weekday weekofyear year yearweek""",
    ),
    **functions_that_give(types.Double(), "cot std stddev stddev_pop stddev_samp variance var_pop var_samp"),
    **functions_that_give(
        types.String(),
        """date_format dayname elt format json_extract json_keys json_type json_unquote json_value lcase mid
            monthname regexp_replace regexp_substr sha1 sha2 substring_index time_format ucase""",
    ),
    "unhex": types.LargeBinary(),
    **functions_that_give(ResultOf.ARGUMENTS, "nvl"),
    **functions_that_give(ResultOf.FIRST_ARGUMENT, "addtime subtime truncate"),
    **functions_that_give(types.String(), "json_array json_arrayagg json_object"),
    **functions_that_give(ResultOf.SECONDS, "time_to_sec unix_timestamp"),
    **functions_that_give(ResultOf.WHOLE, "ceil ceiling floor"),
    **functions_that_give(ResultOf.MIDDLE, "median"),
}

_RANKED = frozenset({"median", "percentile_cont", "percentile_disc"})
_INSTEAD: Mapping[str, str] = {
    "median": "Write SELECT DISTINCT y, median(x) OVER (PARTITION BY y).",
    **dict.fromkeys(
        ("percentile_cont", "percentile_disc"),
        "Write SELECT DISTINCT y, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) OVER (PARTITION BY y).",
    ),
    "any_value": "Write min(x).",
    "bool_and": "Write min(x).",
    "every": "Write min(x).",
    "bool_or": "Write max(x).",
    "btrim": "Write trim(x).",
    "iif": "Write CASE WHEN x THEN y ELSE z END.",
    "strpos": "Write locate(y, x).",
    "total": "Write coalesce(sum(x), 0).",
    "trunc": "Write truncate(x, 0).",
    "len": "Write char_length(x).",
    "unicode": "Write ascii(x).",
    **dict.fromkeys(("json_agg", "jsonb_agg", "json_group_array"), "Write group_concat(x)."),
    "array_agg": "Write group_concat(x).",
    "listagg": "Write group_concat(x ORDER BY y SEPARATOR ', ').",
    "strftime": "Write date_format(x, '%Y-%m').",
    "to_char": "Write date_format(x, '%Y-%m').",
    "date_trunc": "Write date_format(x, '%Y-%m-01').",
    "julianday": "Write datediff(a, b).",
    "date_part": "Write year(x), month(x) or day(x).",
}

_OF_DAYS = frozenset({"day", "week", "month", "quarter", "year"})


def _with_unit(function: str, unit: str) -> Callable[[str], str]:
    return lambda arguments: f"{function}({unit.upper()}, {arguments})"


OWN_FUNCTIONS: Mapping[str, Callable[[str], str]] = {
    # As `x + INTERVAL n unit`: both are one item of MariaDB's parser (sql_yacc.yy: Item_date_add_interval).
    **{f"dualsql_add_{unit}s": _with_unit("TIMESTAMPADD", unit) for unit in UNITS},
    **{f"dualsql_{unit}s_between": _with_unit("TIMESTAMPDIFF", unit) for unit in UNITS},
}
"""A function's argument cannot be the name of a unit, so each unit has a function."""


def _moved(unit: str, number: Element, date: Element) -> Element:
    is_kept = isinstance(date.type, types.String) or (isinstance(date.type, types.Date) and unit in _OF_DAYS)
    kind = date.type if is_kept else types.DateTime()
    call: Element = getattr(func, f"dualsql_add_{unit}s")(number, date, type_=kind)
    return call


def _units_between(unit: str, first: Element, second: Element) -> Element:
    call: Element = getattr(func, f"dualsql_{unit}s_between")(first, second, type_=types.BigInteger())
    return call


TEXT = TextDialect(
    parser="mysql",
    functions=_FUNCTIONS,
    absent=frozenset(
        """any_value array_agg bool_and bool_or btrim cbrt corr covar_pop covar_samp every grouping iif initcap json_agg
        json_group_array json_group_object json_object_agg jsonb_agg jsonb_object_agg mode quote_literal regr_count
        regr_intercept regr_r2 regr_slope strpos total trunc typeof unicode""".split()
    ),
    since={
        "median": (10, 3, 3),
        "percentile_cont": (10, 3, 3),
        "percentile_disc": (10, 3, 3),
        "to_char": (10, 6, 1),
    },
    instead=_INSTEAD,
    lacks=lacking(
        "CUBE",
        "DISTINCT with OVER",
        "FILTER",
        "FULL JOIN",
        "GROUPING SETS",
        "GROUPS in a window",
        "LATERAL",
        "ROLLUP (x)",
    ),
    windowed=_RANKED,
    operators=frozenset({"XOR"}),
    types={"UBIGINT": lambda: mysql.BIGINT(unsigned=True)},
    days_between="datediff(:b, :a)",
    interval_hint="Write x + INTERVAL 30 DAY, or datediff(a, b).",
    units=UNITS,
    moves_date=_moved,
    units_between=_units_between,
    swaps_right_joins=True,
    reads_dates=lambda text, _: literal(text, types.Text()),
    casts_constants=True,
    doubles_with_exponent=True,
    counts_rows=True,
    sorts_rollups=False,
    trims_characters=False,
    names_value_columns=False,
    name_quotes="`",
    collations=("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_nopad_bin", "utf8mb4_unicode_ci"),
    casts_dates=True,
    has_separator_word=True,
    has_datediff=True,
    has_json_arrows=False,
)
