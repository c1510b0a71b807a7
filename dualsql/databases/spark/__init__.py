"""Apache Spark, through its Thrift server and PyHive.

The Thrift server has neither read-only sessions nor bound parameters. Values are written into the SQL as literals, by
`driver.literal` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Text, cast, func, type_coerce, types
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.capabilities import Capabilities, KeyForm
from dualsql.columns.own_types import Element
from dualsql.columns.result import DriverValue
from dualsql.databases.backends import Backend
from dualsql.databases.driver import driver_of
from dualsql.databases.expressions import grouped, parameter, raw_form, stored_in
from dualsql.databases.guard import FailureKind, Guard, Refusal, SessionTerms, repeat_until_done
from dualsql.databases.spark.dialect import as_json
from dualsql.databases.spark.driver import SparkConnection, SparkError
from dualsql.databases.strict_types import (
    as_double,
    decimal_sum,
    key_type,
    md5_of_values,
    round_trips,
    untyped_form,
    whole_sum,
)
from dualsql.errors import ConfigurationError
from dualsql.query_dialects import QueryDialect
from dualsql.text_dialects import FunctionResult, ResultOf, TextDialect, functions_that_give
from dualsql_client.wire_requests import Bucket

__all__ = ["BACKEND"]


class SparkGuard(Guard):
    """Through PyHive, in a thread. Sessions are not read-only: nothing but what the user may do prevents a write."""

    def prepare(self, engine: Engine) -> None:
        dialect: Any = engine.dialect
        dialect.only_reads = True

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`. Spark has no transactions; the session has its settings since it was opened."""
        driver = driver_of(connection)
        if not isinstance(driver, SparkConnection) or not driver.only_reads:
            raise ConfigurationError(
                "dualsql reads Spark over connections of its own, whose settings it knows.",
                hint="Pass the URL, hive://user@host:10000/schema, and not an engine.",
            )
        driver.begin(terms.limit.total_seconds())
        yield

    async def renew_limit(self, connection: AsyncConnection, terms: SessionTerms, *, is_new: bool) -> None:
        driver_of(connection).limit(terms.limit.total_seconds())

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        await repeat_until_done(working, driver_of(connection).stop)

    def look(self, connection: Connection) -> None:
        connection.exec_driver_sql("SHOW TABLES LIKE 'dualsql_health'")

    def refusal_of(self, error: BaseException | None) -> Refusal | None:
        if not isinstance(error, SparkError):
            return None
        if error.state == "28000":
            return Refusal.USER
        if error.state in _NO_SCHEMA:
            return Refusal.DATABASE
        return Refusal.HOST if error.kind is FailureKind.UNREACHABLE else None

    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        return error.kind if isinstance(error, SparkError) else None


_NO_SCHEMA = ("42704", "3F000")


_NAME = "hive"


def _key_form(expression: Element, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value; of a float of four bytes, the double that it is compared as."""
    plain = key_type(_NAME, expression)
    if isinstance(plain, types.NullType):
        return untyped_form(_NAME, expression)
    if isinstance(plain, types.JSON | types.ARRAY):
        return raw_form(_as_text(expression), is_stored=False)
    bare = type_coerce(grouped(expression), DriverValue())
    output = cast(expression, types.Double()) if isinstance(plain, types.Float) else bare
    return KeyForm(
        compared=bare, read=output, carried=expression, bind=parameter, round_trips=_compares_alike
    )


def _compares_alike(value: Any) -> bool:
    if isinstance(value, date) or value is None:
        return True  # Spark has no infinities
    return isinstance(value, timedelta) or round_trips(value)


def _as_text(expression: Element) -> Element:
    """An array, a map or a struct as the text of a document, which can be sorted and compared."""
    bare = type_coerce(expression, DriverValue())
    return as_json(bare)


def _sortable(expression: Element) -> Element:
    return (
        _as_text(expression)
        if isinstance(stored_in(_NAME, expression.type), types.JSON | types.ARRAY)
        else expression
    )


def _keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    # 0.0 equals -0.0; a map has no order.
    plain = stored_in(_NAME, expression.type)
    if isinstance(plain, types.JSON | types.ARRAY):
        return [_as_text(expression)]
    is_loose = isinstance(plain, types.Numeric | types.Float | types.NullType)
    return [expression, cast(expression, Text)] if is_loose else [expression]


def _beginning_of_bucket(element: Element, bucket: Bucket) -> Element:
    plain: Any = stored_in(_NAME, element.type)
    start = func.date_trunc(bucket, element)
    if bucket != "hour":
        return cast(start, types.Date())
    return cast(start, types.DateTime(timezone=isinstance(plain, types.DateTime) and plain.timezone))


_FUNCTIONS: Mapping[str, FunctionResult] = {
    **functions_that_give(types.Date(), "current_date date_add date_sub last_day make_date to_date"),
    **functions_that_give(types.DateTime(timezone=True), "date_trunc now to_timestamp"),
    **functions_that_give(
        types.BigInteger(),
        """bit_length datediff date_diff day dayofmonth dayofweek dayofyear hour instr locate minute month quarter
            second unix_timestamp week weekday weekofyear year""",
    ),
    **functions_that_give(
        types.String(),
        """date_format dayname elt from_unixtime monthname regexp_extract regexp_replace split_part substring_index
            translate""",
    ),
    **functions_that_give(types.Boolean(), "contains regexp_like"),
    **functions_that_give(ResultOf.FIRST_ARGUMENT, "first last max_by min_by"),
    **functions_that_give(types.BigInteger(), "approx_count_distinct count_if"),
}

_TEXT = TextDialect(
    parser="spark",
    has_row_values=True,
    sorts_row_values=True,
    functions=_FUNCTIONS,
    absent=frozenset(
        """group_concat iif json_agg json_group_array json_group_object json_object_agg jsonb_agg jsonb_object_agg
        julianday quote_literal strftime strpos total trunc""".split()
    ),
    instead={
        "group_concat": "Write string_agg(x, ',').",
        "iif": "Write CASE WHEN x THEN y ELSE z END.",
        "julianday": "Write datediff(a, b).",
        "strftime": "Write date_format(x, 'yyyy-MM').",
        "strpos": "Write instr(x, y).",
        "total": "Write coalesce(sum(x), 0).",
        "trunc": "Write floor(x), or round(x, 2).",
    },
    system_tables=("information_schema",),
    whole_quotient=types.Double(),
    averages_in_doubles=True,
    has_btrim=True,
    orders_aggregates=False,
    has_json_arrows=False,
    comparisons_can_fail=True,
)

_QUERY = QueryDialect(
    position=lambda whole, part: func.instr(whole, part, type_=types.Integer()),
    bucket_start=_beginning_of_bucket,
    double=as_double,
    sum_of_integers=(whole_sum, decimal_sum),
    shortens_reals=True,
    is_bytes=lambda expression: func.typeof(expression) == "binary",
    text_length=func.char_length,
    scramble=md5_of_values,
    approximate_distinct="approx_count_distinct",
)

CAPABILITIES = Capabilities(
    name="Spark",
    nulls_last=True,
    groups_strictly=True,
    distinguishing=_keys,
    nulls_last_by_default=(False, True),
    key_form=_key_form,
    query_dialect=lambda: _QUERY,
    text_dialect=lambda: _TEXT,
    splits_statements=False,
    has_schemas=True,
    has_indexes=False,
    keeps_zones=True,
    sortable=_sortable,
)

BACKEND = Backend(
    capabilities=CAPABILITIES,
    guard=SparkGuard(),
    has_read_only_sessions=False,
    package="'dualsql[spark]'",
    adapt_url=lambda url: url.set(drivername="hive+pyhive"),
    # After a restart of the server, the pool has dead connections; this detects them before use.
    engine_options={"pool_pre_ping": True},
)
