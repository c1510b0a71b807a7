"""The capabilities of PostgreSQL: sort keys, cursor values, row estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Function, Text, case, cast, func, literal, type_coerce, types
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities, KeyForm, RowEstimate
from dualsql.columns.database_types import is_single
from dualsql.columns.own_types import Computation, Element, SQLType
from dualsql.columns.result import DriverValue
from dualsql.databases.expressions import collated, grouped, parameter, stored_in
from dualsql.databases.postgresql.values import DRIVERS, CharByte, bound_as_text
from dualsql.databases.strict_types import (
    as_double,
    beginning_of_bucket,
    decimal_sum,
    key_type,
    md5_of_values,
    round_trips,
    text_parameter,
    untyped_form,
    whole_sum,
)
from dualsql.freeze.types import FUNCTIONS
from dualsql.query_dialects import NOT_FINITE, QueryDialect, first_characters, in_lower_case
from dualsql.text_dialects import FunctionResult, ResultOf, TextDialect, functions_that_give, lacking


def _key_form(expression: Element, *, is_stored: bool) -> KeyForm | None:
    """asyncpg's value if it is exact, otherwise PostgreSQL's text of it, which PostgreSQL reads back."""
    bare = type_coerce(grouped(expression), DriverValue())
    if isinstance(_stored(expression.type), _EXACT_IN_ASYNCPG):
        # Without a type, the parameter takes that of the other side: an ENUM's, a NUMERIC's.
        return KeyForm(compared=bare, read=bare, carried=expression, bind=parameter, round_trips=_accepts)
    if isinstance(expression, Function) and expression.name == _ORDERED:
        return None  # of which type a value is compared, only the database knows
    plain = key_type(_NAME, expression)
    if isinstance(plain, types.NullType):
        return untyped_form(_NAME, expression)
    return KeyForm(
        compared=bare,
        read=cast(expression, Text),
        carried=expression,
        bind=lambda value: cast(text_parameter(value), plain if is_stored else _unlimited(plain)),
    )


def _unlimited(plain: SQLType) -> SQLType:
    """The type without a length: a value that is computed may be longer than the columns it is computed of."""
    if isinstance(plain, postgresql.BIT):
        return postgresql.BIT(varying=True)
    if isinstance(plain, postgresql.TIMESTAMP | postgresql.TIME):
        return type(plain)(timezone=plain.timezone)
    return postgresql.INTERVAL() if isinstance(plain, postgresql.INTERVAL) else plain


_EXACT_IN_ASYNCPG = (
    types.Integer,
    types.Numeric,
    types.Float,
    types.String,  # Enum too
    types.Boolean,
    types.Uuid,
    # Not bytes: psycopg2 gives memoryviews.
)


def _accepts(value: Any) -> bool:
    """Whether asyncpg gives this value exactly, and accepts it for the type of the column in PostgreSQL."""
    return round_trips(value) and not isinstance(value, CharByte)


# How many groups, distinct rows or rows of a set operation there are, statistics hardly show: PostgreSQL expected
# 400,000 rows of a UNION that has 10, and 200,000 of a DISTINCT that has 7.
_MERGING = frozenset({"Aggregate", "Group", "Unique", "SetOp", "Recursive Union"})
_ASIDE = frozenset({"InitPlan", "SubPlan"})


def _rows_expected(plan: Any) -> int | None:
    """The rows in EXPLAIN (FORMAT JSON): `[{"Plan": {"Plan Rows": 12000, ...}}]`; None where rows are merged."""
    try:
        top = plan[0]["Plan"]
        return None if _merges(top) else int(top["Plan Rows"])
    except (LookupError, TypeError, ValueError):
        return None


def _merges(node: dict[str, Any]) -> bool:
    """Whether the plan merges rows, other than into a single one."""
    if node["Node Type"] in _MERGING and node.get("Strategy") != "Plain":
        return True
    return any(
        _merges(part) for part in node.get("Plans", ()) if part.get("Parent Relationship") not in _ASIDE
    )


def _sortable(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    """The expression in the database's own order, or its text where its type has none, such as json and point."""
    if _is_sortable(expression.type):
        return expression
    if not _tells_apart(expression.type) or _may_return_sets(expression):
        return cast(expression, Text)
    # SQLAlchemy does not know the type, as for func.round(n).
    ordered: ColumnElement[Any] = getattr(func, _ORDERED)(expression)
    return ordered


def _may_return_sets(expression: ColumnElement[Any]) -> bool:
    # CASE, with which `_in_order` begins, is refused around a function that returns several rows.
    names = {part.name.lower() for part in iterate(expression) if isinstance(part, FunctionElement)}
    return not names <= FUNCTIONS - _SET_FUNCTIONS


def _in_order(x: str) -> str:
    # ORDER BY json is an error, whatever the rows are; ORDER BY ROW(json) is none where no such row is compared.
    is_without = f"CAST(pg_typeof({x}) AS TEXT) IN ({', '.join(map(repr, sorted(_WITHOUT_ORDER)))})"
    return (
        f"CASE WHEN ({x}) IS NULL THEN NULL WHEN {is_without} THEN ROW(CAST({x} AS TEXT)) ELSE ROW({x}) END"
    )


def _keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    if not _is_sortable(expression.type):
        return [cast(expression, Text)]  # json, xml, point: their texts differ wherever they do
    is_loose = _has_equals_that_differ(_stored(expression.type))
    return [expression, cast(expression, Text)] if is_loose else [expression]


_NAME = "postgresql"
_stored = partial(stored_in, _NAME)


def _has_equals_that_differ(plain: SQLType) -> bool:
    # 1.0 equals 1.00, and 0.0 equals -0.0, in a range, an array or a document too; citext takes 'a' for 'A'.
    if isinstance(plain, types.ARRAY):
        return _has_equals_that_differ(_stored(plain.item_type))
    return isinstance(
        plain,
        types.Numeric
        | types.Float
        | postgresql.JSONB
        | postgresql.ranges.AbstractRange
        | postgresql.INTERVAL
        | types.Interval
        | postgresql.CITEXT,
    )


def _type_name(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(func.pg_typeof(expression), Text)


def _is_sortable(type_: SQLType) -> bool:
    plain = _stored(type_)
    if isinstance(plain, types.ARRAY):
        return _is_sortable(plain.item_type)
    return isinstance(plain, _SORTABLE) or internals.type_affinity(plain) is types.Interval


# With an ordering of their own: https://www.postgresql.org/docs/current/indexes-opclass.html (btree).
_SORTABLE = (
    postgresql.BIT,
    postgresql.CIDR,
    postgresql.INET,
    postgresql.JSONB,
    postgresql.MACADDR,
    postgresql.MACADDR8,
    postgresql.MONEY,
    postgresql.OID,
    postgresql.REGCLASS,
    postgresql.TSQUERY,
    postgresql.TSVECTOR,
    postgresql.ranges.AbstractRange,
    types.String,
    types.Integer,
    types.Numeric,
    types.Float,
    types.Boolean,
    types.Date,
    types.DateTime,
    types.Time,
    types.Uuid,
    types.LargeBinary,
)


_WITHOUT_EQUALITY = frozenset(
    {"xml", "json", "jsonpath", "point", "line", "lseg", "box", "path", "polygon", "circle"}
)
"""Types of PostgreSQL that have no = or one of another meaning: boxes of one area are equal to it."""

_PLAIN_WITHOUT_ORDER = _WITHOUT_EQUALITY | {
    "aclitem",
    "cid",
    "pg_snapshot",
    "refcursor",
    "txid_snapshot",
    "xid",
}
_WITHOUT_ORDER = _PLAIN_WITHOUT_ORDER | {f"{name}[]" for name in _PLAIN_WITHOUT_ORDER}
"""Types of PostgreSQL that ORDER BY refuses."""

_ORDERED = "dualsql_ordered"
"""A function of dualsql's own: values of which SQLAlchemy does not know the type, in the order of the database."""


def _tells_apart(type_: SQLType) -> bool:
    plain = _stored(type_)
    if isinstance(plain, types.ARRAY):
        return _tells_apart(plain.item_type)
    if not isinstance(plain, types.UserDefinedType):
        return not isinstance(plain, postgresql.JSONPATH | types.JSON) or isinstance(plain, postgresql.JSONB)
    name = getattr(plain, "get_col_spec", lambda **_: "")()
    return str(name).lower() not in _WITHOUT_EQUALITY


def _compares(type_: SQLType) -> bool:
    # The name of a table that is not there is an error: a comparison would disclose which ones are.
    is_name = isinstance(_stored(type_), postgresql.REGCLASS | postgresql.REGCONFIG | postgresql.HSTORE)
    return not is_name and _tells_apart(type_)


def _by_code_point(element: Element) -> Element:
    return collated(element, "C")


def _with_blanks(element: Element) -> Element:
    """A text as it is shown: CHAR(n) has blanks at its end, which PostgreSQL leaves out where it makes a TEXT of it."""
    if not isinstance(_stored(element.type), types.CHAR):
        return element
    return case((element.is_not(None), func.format("%s", element, type_=types.Text())))


def _lowered(element: Element) -> Element:
    # The letters of ASCII first: of a Turkish collation, the small letter of I is another one.
    ascii_lower = in_lower_case(_by_code_point(_with_blanks(element)))
    return _by_code_point(in_lower_case(collated(ascii_lower, "default")))


_FUNCTIONS: Mapping[str, FunctionResult] = {
    **functions_that_give(types.DateTime(), "localtimestamp make_timestamp"),
    **functions_that_give(ResultOf.TRUNCATED_IN_ZONE, "date_bin date_trunc"),
    "timezone": ResultOf.ZONED,
    **functions_that_give(
        types.DateTime(timezone=True), "make_timestamptz now to_timestamp transaction_timestamp"
    ),
    **functions_that_give(types.Date(), "date make_date to_date"),
    **functions_that_give(types.Time(), "make_time"),
    **functions_that_give(types.Interval(), "age justify_days justify_hours justify_interval make_interval"),
    **functions_that_give(types.Double(), "date_part"),
    **functions_that_give(
        types.BigInteger(),
        """array_length array_lower array_position array_upper bit_length cardinality json_array_length
            jsonb_array_length num_nonnulls num_nulls regexp_count regexp_instr scale width_bucket""",
    ),
    # https://www.postgresql.org/docs/current/functions-math.html and functions-aggregate.html
    **functions_that_give(ResultOf.SUM, "sum"),
    **functions_that_give(ResultOf.ROUNDED, "round"),
    **functions_that_give(ResultOf.EXACT_OR_DOUBLE, "exp ln log10 pow power sign sqrt"),
    **functions_that_give(ResultOf.LOGARITHM, "log"),
    **functions_that_give(types.Numeric(), "div to_number trim_scale"),
    **functions_that_give(types.Double(), "cosh cot sinh tanh"),
    **functions_that_give(types.ARRAY(types.Text()), "regexp_match regexp_split_to_array string_to_array"),
    **functions_that_give(
        ResultOf.FIRST_ARGUMENT, "array_append array_cat array_remove array_replace bit_xor gcd lcm"
    ),
    **functions_that_give(types.ARRAY(types.Integer()), "array_positions"),
    **functions_that_give(
        types.String(),
        """array_to_string encode json_extract_path_text jsonb_extract_path_text json_typeof jsonb_typeof
            jsonb_pretty overlay regexp_replace regexp_substr split_part to_hex translate""",
    ),
    **functions_that_give(types.Boolean(), "isfinite jsonb_path_exists regexp_like starts_with"),
    **functions_that_give(ResultOf.LIST, "array_agg"),
    **functions_that_give(ResultOf.LIST_OF_SECOND, "array_prepend"),
    **functions_that_give(
        types.JSON(),
        "array_to_json json_agg json_build_array json_build_object json_extract_path json_object_agg to_json",
    ),
    **functions_that_give(
        postgresql.JSONB(),
        """jsonb_agg jsonb_build_array jsonb_build_object jsonb_extract_path jsonb_object_agg
            jsonb_path_query_first jsonb_strip_nulls to_jsonb""",
    ),
}
_TABLE_FUNCTIONS = {
    "generate_series": ("generate_series",),
    "unnest": ("unnest",),
    "jsonb_array_elements": ("value",),
    "jsonb_array_elements_text": ("value",),
    "jsonb_each": ("key", "value"),
    "jsonb_each_text": ("key", "value"),
    "jsonb_object_keys": ("jsonb_object_keys",),
    "json_array_elements": ("value",),
    "json_array_elements_text": ("value",),
    "regexp_matches": ("regexp_matches",),
    "regexp_split_to_table": ("regexp_split_to_table",),
    "string_to_table": ("string_to_table",),
}
_SET_FUNCTIONS = frozenset(_TABLE_FUNCTIONS) | {
    "generate_subscripts",
    "json_each",
    "json_each_text",
    "json_object_keys",
    "json_to_recordset",
    "jsonb_each_text",
    "jsonb_path_query",
    "jsonb_to_recordset",
}
"""Functions that may be called and return several rows; a function that `FUNCTIONS` does not name may do so, too."""


def _interval(amounts: Sequence[int]) -> Element:
    return func.make_interval(
        *(literal(amount, types.Integer()) for amount in amounts), type_=types.Interval()
    )


def _at_time_zone(zone: Element, value: Element) -> Element:
    if isinstance(value.type, types.Time):
        return func.timezone(zone, value, type_=types.Time(timezone=True))
    # A date is taken for an instant of the session's zone.
    has_zone = isinstance(value.type, types.Date) or getattr(value.type, "timezone", False)
    return func.timezone(zone, value, type_=types.DateTime(timezone=not has_zone))


_INSTEAD: Mapping[str, str] = {
    "group_concat": "Write string_agg(x, ',').",
    "json_group_array": "Write json_agg(x).",
    "json_group_object": "Write json_object_agg(x, y).",
    "hex": "Write to_hex(x).",
    "instr": "Write strpos(x, y).",
    "log2": "Write log(2, x).",
    "median": "Write percentile_cont(0.5) WITHIN GROUP (ORDER BY x).",
    "total": "Write coalesce(sum(x), 0).",
    "typeof": "describe_table has the types of columns.",
    "unicode": "Write ascii(x).",
    "any_value": "Write min(x).",
    "regexp_count": "Write x ~ 'pattern' to test, or regexp_replace().",
    "regexp_like": "Write x ~ 'pattern'.",
    "regexp_substr": "Write substring(x from 'pattern').",
    "strftime": "Write to_char(x, 'YYYY-MM').",
    "date_format": "Write to_char(x, 'YYYY-MM').",
    "datetime": "Write CAST(x AS TIMESTAMP).",
    **dict.fromkeys(("str_to_date", "strptime"), "Write to_date(x, 'DD.MM.YYYY')."),
    **dict.fromkeys(("json_extract", "json_value"), "Write x ->> 'a', or x #>> '{a,b}'."),
    "json_unquote": "Write x ->> 'a' for a part as text.",
    "array_contains": "Write y = ANY (x).",
    "from_unixtime": "Write to_timestamp(x).",
    "unix_timestamp": "Write extract(epoch FROM x).",
    **dict.fromkeys(
        ("last_day", "eomonth"), "Write CAST(date_trunc('month', x) + INTERVAL '1 month - 1 day' AS DATE)."
    ),
    "julianday": "Subtract dates: a - b is a number of days.",
    "datediff": "Subtract dates: a - b is a number of days.",
    "date_add": "Write x + INTERVAL '1 month'.",
    "date_sub": "Write x - INTERVAL '1 month'.",
    **dict.fromkeys(("dateadd", "add_months"), "Write x + INTERVAL '1 month'."),
    **dict.fromkeys(("charindex", "locate"), "Write strpos(y, x)."),
    **dict.fromkeys(("dayofweek", "datepart"), "Write extract(dow FROM x): 0 is Sunday."),
    "timestampdiff": "Subtract dates: extract(epoch FROM b - a) is a number of seconds.",
    "weekday": "Write extract(isodow FROM x): 1 is Monday.",
    "dayname": "Write to_char(x, 'FMDay').",
    "monthname": "Write to_char(x, 'FMMonth').",
}


def _at_path(document: Element, parts: Sequence[Element], sign: str) -> Element:
    as_text = sign == "#>>"
    kinds = [getattr(part, "type", None) for part in iterate(document)]
    documents = [kind for kind in kinds if isinstance(kind, types.JSON)]
    is_plain = bool(documents) and not isinstance(documents[0], postgresql.JSONB)
    name = f"{'json' if is_plain else 'jsonb'}_extract_path{'_text' if as_text else ''}"
    part: SQLType = types.JSON() if is_plain else postgresql.JSONB()
    call: Element = getattr(func, name)(document, *parts, type_=types.Text() if as_text else part)
    return call


_TEXT = TextDialect(
    parser="postgres",
    has_row_values=True,
    correlates_from=True,
    functions=_FUNCTIONS,
    types={"FLOAT": types.REAL},  # what the parser calls REAL; FLOAT is DOUBLE to it
    argument_types={
        "age": {0: types.DateTime(), 1: types.DateTime()},
        "date_bin": {0: types.Interval()},
        "justify_days": {0: types.Interval()},
        "justify_hours": {0: types.Interval()},
        "justify_interval": {0: types.Interval()},
        "jsonb_path_exists": {1: postgresql.JSONPATH()},
        "jsonb_path_query_first": {1: postgresql.JSONPATH()},
    },
    named_arguments={"make_interval": ("years", "months", "weeks", "days", "hours", "mins", "secs")},
    table_functions=_TABLE_FUNCTIONS,
    absent=frozenset(
        """group_concat hex ifnull iif instr json_group_array json_group_object log2 median soundex total typeof
        unicode""".split()
    ),
    since={
        "any_value": (16,),
        "regexp_count": (15,),
        "regexp_like": (15,),
        "regexp_instr": (15,),
        "bit_xor": (14,),
        "trim_scale": (13,),
        "regexp_substr": (15,),
        "date_bin": (14,),
    },
    instead=_INSTEAD,
    writes_formats="to_char(CAST(:a AS TIMESTAMP), :b)",
    days_between="CAST(:b AS DATE) - CAST(:a AS DATE)",
    units_passed="CAST(trunc(extract(epoch FROM CAST(:b AS TIMESTAMP) - CAST(:a AS TIMESTAMP)) / :c) AS BIGINT)",
    joins_texts_only=True,
    lacks=lacking("DISTINCT with OVER"),
    system_tables=("pg_",),
    whole_quotient=types.Integer(),
    extracts_exactly=True,
    position="strpos",
    has_btrim=True,
    interval=_interval,
    array=postgresql.array,
    at_time_zone=_at_time_zone,
    at_path=_at_path,
    orders_aggregates=True,
    has_distinct_on=True,
    reads_dates=lambda text, kind: cast(literal(text, Text), kind),
    casts_texts=lambda kind: isinstance(kind, _READ_AS_THEIR_TYPE) or is_single(kind),
    folds_names=True,
    selects_rows=True,
    operators=frozenset("@> <@ && ? ?| ?& ~* OVERLAPS".split()) | {"SIMILAR TO"},
    collations=("C", "POSIX"),
)


_READ_AS_THEIR_TYPE: tuple[type[SQLType], ...] = (
    types.ARRAY,
    types.Boolean,
    types.LargeBinary,
    postgresql.CIDR,
    postgresql.INET,
    postgresql.MACADDR,
    postgresql.MONEY,
    postgresql.ranges.AbstractRange,
)
"""Types of which a constant has to be one: PostgreSQL has no operator for them and a text."""


# A column may have a collation of its own, so none may be in use but those of C. An ICU database says "en-US".
_ASKS_CODE_POINTS = """
SELECT datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') AND to_jsonb(d)->>'datlocprovider' IS DISTINCT FROM 'i'
    AND NOT EXISTS (
        SELECT FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
        JOIN pg_namespace s ON s.oid = r.relnamespace JOIN pg_collation c ON c.oid = a.attcollation
        WHERE left(s.nspname, 3) <> 'pg_' AND s.nspname <> 'information_schema'
            AND r.relkind IN ('r', 'p', 'v', 'm', 'f')
            AND c.collname NOT IN ('default', 'C', 'POSIX', 'ucs_basic', 'C.utf8', 'C.UTF-8')
    )
FROM pg_database d WHERE datname = current_database()
"""


def _exactly(column: str, value: str, type_: SQLType) -> str:
    # An index finds what the type takes for equal, of which one is kept. Only these types: a second condition lets the
    # planner expect fewer rows.
    if not isinstance(type_, postgresql.CITEXT | types.CHAR):
        return f"{column} = {value}"
    alike = value if isinstance(type_, postgresql.CITEXT) else f"CAST({value} AS BPCHAR)"
    return f'({column} = {alike} AND CAST({column} AS TEXT) COLLATE "C" = CAST({value} AS TEXT))'


_QUERY = QueryDialect(
    ordered=_by_code_point,
    # Of a nondeterministic collation, strpos() is an error before PostgreSQL 18.
    position=lambda text, part: func.strpos(_by_code_point(_with_blanks(text)), part, type_=types.Integer()),
    beginning=lambda text, number: first_characters(_with_blanks(text), number),
    lowered=_lowered,
    bucket_start=partial(beginning_of_bucket, _NAME),
    double=as_double,
    sum_of_integers=(whole_sum, decimal_sum),
    has_infinite_dates=True,
    odd_doubles=NOT_FINITE,
    has_months=True,
    has_single_reals=True,
    tells_apart=_tells_apart,
    compares=_compares,
    type_name=_type_name,
    is_bytes=lambda expression: _type_name(expression) == "bytea",
    scramble=md5_of_values,
    random_share=lambda step: func.random() * step < 1,
)

CAPABILITIES = Capabilities(
    name="PostgreSQL",
    nulls_last=True,
    splits_statements=False,
    groups_strictly=True,
    has_schemas=True,
    sortable=_sortable,
    own_functions={_ORDERED: _in_order},
    constraints="dualsql.databases.postgresql.constraints",
    distinguishing=_keys,
    nulls_last_by_default=(True, False),
    searches_row_values=True,
    keeps_zones=True,
    key_form=_key_form,
    query_dialect=lambda: _QUERY,
    text_dialect=lambda: _TEXT,
    drivers=DRIVERS,
    bound_as_text=bound_as_text,
    text_equality=_exactly,
    computation=Computation(
        sums_large_exactly=True, in_doubles_only=frozenset({"round", "ceil", "ceiling", "floor", "trunc"})
    ),
    row_estimate=RowEstimate("EXPLAIN (FORMAT JSON) ", _rows_expected),
    asks_code_points=_ASKS_CODE_POINTS,
)
