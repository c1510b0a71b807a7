"""MariaDB: sessions with tx_read_only and max_statement_time; KILL QUERY stops abandoned statements."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from math import prod
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    PoolProxiedConnection,
    cast,
    collate,
    func,
    type_coerce,
    types,
)
from sqlalchemy.dialects.mysql import BIT, DATETIME, INTEGER, SET, TIME
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import greenlet_spawn

from dualsql.capabilities import Capabilities, DriverValues, KeyForm, RowEstimate
from dualsql.columns.exact import Unfit, ValueReader
from dualsql.columns.own_types import Computation, Element, SQLType
from dualsql.databases.backends import Backend
from dualsql.databases.driver import driver_of, synchronous
from dualsql.databases.expressions import grouped, raw_form, stored_in
from dualsql.databases.guard import FailureKind, Guard, Refusal, SessionTerms, repeat_until_done, run_or_close
from dualsql.databases.mariadb.rights import MariaDBRights
from dualsql.databases.mariadb.text import OWN_FUNCTIONS, TEXT
from dualsql.databases.strict_types import (
    as_double,
    decimal_sum,
    key_type,
    md5_of_values,
    text_parameter,
    whole_sum,
)
from dualsql.databases.threads import ThreadedResult
from dualsql.query_dialects import QueryDialect, in_lower_case
from dualsql_client.wire_requests import Bucket

_VARIABLES = ("tx_read_only", "max_statement_time", "optimizer_switch")
# MariaDB (10.11) moves a condition on groups to the rows before they are grouped. 'a' and 'A' are one group in most
# collations, of which a condition by bytes would then leave out a part.
_WHOLE_GROUPS = "SESSION optimizer_switch = 'condition_pushdown_for_derived=off'"
_ENTER = ", ".join(f"@dualsql_{name} = @@{name}" for name in _VARIABLES)
_LEAVE = ", ".join(f"SESSION {name} = @dualsql_{name}" for name in _VARIABLES)

# https://mariadb.com/kb/en/mariadb-error-code-reference/
_FAULTS = {
    1792: FailureKind.WRITE,  # ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
    1969: FailureKind.TIMEOUT,  # ER_STATEMENT_TIMEOUT
    1317: FailureKind.TIMEOUT,  # ER_QUERY_INTERRUPTED
    1205: FailureKind.BUSY,  # ER_LOCK_WAIT_TIMEOUT
    1213: FailureKind.BUSY,  # ER_LOCK_DEADLOCK
    1040: FailureKind.BUSY,  # ER_CON_COUNT_ERROR
    1053: FailureKind.UNREACHABLE,  # ER_SERVER_SHUTDOWN
    1021: FailureKind.FULL,  # ER_DISK_FULL
    1037: FailureKind.FULL,  # ER_OUTOFMEMORY
    1041: FailureKind.FULL,  # ER_OUT_OF_RESOURCES
    1114: FailureKind.FULL,  # ER_RECORD_FILE_FULL
    2003: FailureKind.UNREACHABLE,  # CR_CONN_HOST_ERROR
    2006: FailureKind.BROKEN,  # CR_SERVER_GONE_ERROR
    2013: FailureKind.BROKEN,  # CR_SERVER_LOST
    1055: FailureKind.GROUPING,  # ER_WRONG_FIELD_WITH_GROUP
    1111: FailureKind.GROUPING,  # ER_INVALID_GROUP_FUNC_USE
    1140: FailureKind.GROUPING,  # ER_MIX_OF_GROUP_FUNC_AND_FIELDS
    4015: FailureKind.WINDOW,  # ER_WRONG_PLACEMENT_OF_WINDOW_FUNCTION
    4016: FailureKind.WINDOW,  # ER_WINDOW_FUNCTION_IN_WINDOW_SPEC
    1365: FailureKind.DIVISION,  # ER_DIVISION_BY_ZERO
    1690: FailureKind.OVERFLOW,  # ER_DATA_OUT_OF_RANGE
    1139: FailureKind.PATTERN,  # ER_REGEXP_ERROR
    1242: FailureKind.SEVERAL_ROWS,  # ER_SUBQUERY_NO_1_ROW
    1267: FailureKind.UNSUITED,  # ER_CANT_AGGREGATE_2COLLATIONS
    1271: FailureKind.UNSUITED,  # ER_CANT_AGGREGATE_NCOLLATIONS
    4078: FailureKind.UNSUITED,  # ER_ILLEGAL_PARAMETER_DATA_TYPES2_FOR_OPERATION
    4079: FailureKind.UNSUITED,  # ER_ILLEGAL_PARAMETER_DATA_TYPE_FOR_OPERATION
}


_REFUSALS = {
    1044: Refusal.USER,  # ER_DBACCESS_DENIED_ERROR
    1045: Refusal.USER,  # ER_ACCESS_DENIED_ERROR
    1698: Refusal.USER,  # ER_ACCESS_DENIED_NO_PASSWORD_ERROR
    1049: Refusal.DATABASE,  # ER_BAD_DB_ERROR
    2003: Refusal.HOST,  # CR_CONN_HOST_ERROR
}


class MariaDBGuard(Guard):
    """For asyncmy, aiomysql, and PyMySQL in a thread.

    CREATE TABLE ends a read-only transaction and then succeeds; the session's tx_read_only prevents it. Both are used,
    because a transaction may have begun before.
    """

    failures, refusals = _FAULTS, _REFUSALS
    ends_behind = True

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`. Two round trips before the block and two after it."""
        await connection.exec_driver_sql(
            f"SET {_ENTER}, SESSION tx_read_only = 1, {_WHOLE_GROUPS}, {_limit(terms)}"
        )
        await connection.exec_driver_sql("START TRANSACTION READ ONLY")
        try:
            yield
        finally:
            await _leave(connection)

    async def renew_limit(self, connection: AsyncConnection, terms: SessionTerms, *, is_new: bool) -> None:
        if is_new:
            await connection.exec_driver_sql(f"SET {_limit(terms)}")

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`. MariaDB notices a disconnected client only when it writes to it, so the query is killed."""
        statement = f"KILL QUERY {int(driver_of(connection).thread_id())}"
        async with _spare_connection(connection) as run:
            await repeat_until_done(working, lambda: run(statement))

    @contextmanager
    def without_read_ahead(self, connection: AsyncConnection) -> Iterator[None]:
        """See `Guard.without_read_ahead`. asyncmy reads even if nobody takes the rows: 200 MB in a second."""
        transport = getattr(driver_of(connection), "_transport", None)
        if transport is None or not transport.is_reading():
            yield
            return
        transport.pause_reading()
        try:
            yield
        finally:
            if not transport.is_closing():
                transport.resume_reading()

    async def close_result(self, result: Any) -> None:
        """See `Guard.close_result`. An abandoned result is not closed, because the driver would read it to its end.

        A cursor of PyMySQL would do so too when it is collected, unless it has no result.
        """
        cursor = result.driver_cursor if isinstance(result, ThreadedResult) else None
        if cursor is not None:
            cursor._result = None

    def look(self, connection: Connection) -> None:
        """See `Guard.look`. DESCRIBE, by which SQLAlchemy looks for a table, needs a right on the whole schema."""
        connection.exec_driver_sql("SHOW TABLES LIKE 'dualsql_health'")

    def codes_of(self, error: BaseException | None) -> Iterable[int]:
        code = error.args[0] if error is not None and error.args else None
        return (code,) if isinstance(code, int) else ()


def _limit(terms: SessionTerms) -> str:
    return f"SESSION max_statement_time = {terms.milliseconds / 1000:.3f}"


@asynccontextmanager
async def _spare_connection(connection: AsyncConnection) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """A function that runs statements on a new connection, made like those of the pool and closed at the end."""
    call = greenlet_spawn if connection.dialect.is_async else asyncio.to_thread
    # The engine's own pool may have none to spare, and a statement is to be stopped now.
    spare: PoolProxiedConnection = await call(synchronous(connection).engine.pool.recreate().connect)

    async def run(statement: str) -> None:
        await call(_execute, spare, statement)

    try:
        yield run
    finally:
        await call(_close, spare)


def _execute(spare: PoolProxiedConnection, statement: str) -> None:
    cursor: Any = spare.cursor()
    cursor.execute(statement)
    cursor.close()


def _close(spare: PoolProxiedConnection) -> None:
    # Returned to the pool, it would stay open unused.
    spare.detach()
    spare.close()


async def _leave(connection: AsyncConnection) -> None:
    driver = driver_of(connection)
    if getattr(getattr(driver, "_result", None), "unbuffered_active", False):
        # A driver reads a result to its end before it sends anything else, be it millions of rows, and PyMySQL's result
        # does so when it is collected.
        driver._result.unbuffered_active = False
        driver._result = None
        await connection.invalidate()
        return
    await run_or_close(connection, "ROLLBACK", f"SET {_LEAVE}")


_NAMES = ("mysql", "mariadb")
"""SQLAlchemy's names of the dialect. A type may have a variant for one of them only."""


def _key_form(expression: Element, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value, except for a float of four bytes and an ENUM."""
    plain, other = (key_type(name, expression) for name in _NAMES)
    if type(plain) is not type(other):
        return None
    if isinstance(plain, types.Enum) and plain.native_enum:
        if not is_stored:
            return None  # by number or by name, depending on the origin of the value
        # An ENUM is ordered by number, and compared with a text by name.
        return raw_form(type_coerce(grouped(expression), types.Integer) + 0, is_stored=True)
    if isinstance(plain, types.Float) and not isinstance(plain, types.Double):
        # FLOAT is written with six digits; as DOUBLE it has all that distinguish it from its neighbours.
        return raw_form(cast(expression, types.Double), is_stored=is_stored)
    if isinstance(plain, BIT):
        # The driver gives bytes, which MariaDB reads as digits beside a BIT.
        return raw_form(cast(expression, INTEGER(unsigned=True)), is_stored=is_stored)
    return raw_form(expression, is_stored=is_stored)


# What passes on as many rows as it gets: sorting, and reading a derived table again.
_PASSING = ("read_sorted_file", "filesort", "temporary_table")
_DRIVING = ("table", "read_sorted_file", "block-nl-join")


def _rows_expected(plan: Any) -> int | None:
    """The estimate in EXPLAIN FORMAT=JSON: the product of the rows of all tables, each times its filter's share.

    There is no estimate for grouping, DISTINCT and set operations.
    """
    try:
        return round(prod(_table_rows(part) for part in plan["query_block"]["nested_loop"]))
    except (LookupError, TypeError, ValueError):
        return None


def _table_rows(part: dict[str, Any]) -> float:
    node: Any = part
    while "table_name" not in node:
        node = next(node[name] for name in (*_DRIVING, *_PASSING) if name in node)
    if "materialized" in node:
        raise LookupError("a subquery that merges or cuts rows, whose number is a guess")
    return float(node["rows"]) * float(node.get("filtered", 100)) / 100


def _keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    stored = [stored_in(name, expression.type) for name in _NAMES]
    texts = [isinstance(plain, types.String) and not isinstance(plain, types.Enum) for plain in stored]
    if all(texts):
        # The default collations take 'a', 'A' and 'á' as equal.
        return [cast(expression, types.LargeBinary)]
    # 0.0 equals -0.0, 1.0 equals 1.00, and what has no type may be text.
    is_loose = any(isinstance(plain, types.Numeric | types.Float | types.NullType) for plain in stored)
    if not is_loose and not any(texts):
        return [expression]
    # Without concat(), a derived table cuts the text of a DOUBLE after 22 characters (of at most 24), and what was read
    # from it equals no row's (seen on 10.11).
    return [expression, cast(func.concat(expression), types.LargeBinary)]


def _is_bytes(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    # Numbers and dates are "binary", too, until they are texts.
    return func.charset(func.concat(expression)) == "binary"


_FORMATS: Mapping[Bucket, str] = {
    "year": "%Y-01-01",
    "month": "%Y-%m-01",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%d %H:00:00",
}


def _unpadded(element: Element) -> Element:
    # max(CAST(x AS CHAR)) of groups encodes a text of another character set twice (10.11); coalesce() prevents it.
    return collate(func.coalesce(cast(element, types.String())), "utf8mb4_nopad_bin")


def _lowered(element: Element) -> Element:
    # Of a Turkish collation, the small letter of I is another one; older collations have the letters of Unicode 3.0.
    text = collate(cast(element, types.String()), "utf8mb4_uca1400_nopad_as_cs")
    return _unpadded(in_lower_case(text))


def _beginning_of_bucket(element: Element, bucket: Bucket) -> Element:
    if bucket == "week":
        return cast(func.subdate(element, func.weekday(element)), types.Date())
    if bucket == "quarter":
        month = func.lpad(func.quarter(element, type_=types.Integer()) * 3 - 2, 2, "0")
        return cast(func.concat(func.year(element), "-", month, "-01"), types.Date())
    kind = types.DateTime() if bucket == "hour" else types.Date()
    return cast(func.date_format(element, _FORMATS[bucket]), kind)


def _bits(value: Any) -> Any:
    """BIT as a number, as MariaDB compares it."""
    return int.from_bytes(value) if isinstance(value, bytes) else value


def _time_text(value: Any) -> Any:
    """A TIME as MariaDB writes and reads it: up to 838 hours, of either sign."""
    if not isinstance(value, timedelta):
        return value
    length, sign = abs(value), "-" if value < timedelta() else ""
    minutes, seconds = divmod(length // timedelta(seconds=1), 60)
    fraction = f".{length.microseconds:06d}" if length.microseconds else ""
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{fraction}"


class _TimeOfDay(TIME):
    """A time of day. MariaDB's TIME has up to 838 hours, of which SQLAlchemy's own type leaves whole days out."""

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any]:
        """Read a time of day; any other one is an Unfit."""
        process_time: Any = super().result_processor(dialect, coltype)

        def process(value: Any) -> Any:
            is_other = isinstance(value, timedelta) and not timedelta() <= value < timedelta(days=1)
            return Unfit(_time_text(value)) if is_other else process_time(value)

        return process


class _DayReader(ValueReader):
    """Reads dates and timestamps. The driver returns an invalid one, such as 0000-00-00, as a text."""

    def __call__(self, value: Any) -> Any:
        return Unfit(value) if isinstance(value, str) else value

    def changes_any(self, values: Collection[Any]) -> bool:
        return str in set(map(type, values))


_read_day = _DayReader(None, None)


class _Day(types.Date):
    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any]:
        return _read_day


class _Instant(DATETIME):
    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any]:
        return _read_day


class _Bits(BIT):
    """A BIT as a number: SQLAlchemy's own type does not read the numbers that MariaDB groups BITs as."""

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any]:
        return _bits


class _Members(SET):
    """A SET as the text that MariaDB writes and reads: SQLAlchemy's is a Python set, which has no order."""

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], Any] | None:
        """Read a text as it is, and a number of bits as the text of its members."""
        members_of: Any = super().result_processor(dialect, coltype)
        if not self.retrieve_as_bitwise:
            return None
        return lambda value: (
            value if value is None else ",".join(sorted(members_of(value), key=self.values.index))
        )


def _in_bytes(column: str, value: str, _: SQLType) -> str:
    # 'a', 'A', 'á' and 'a ' are equal in the default collations. An index still finds them all, of which one is kept.
    column_bytes, value_bytes = (f"CAST(CONVERT({part} USING utf8mb4) AS BINARY)" for part in (column, value))
    return f"({column} = {value} AND {column_bytes} = {value_bytes})"


# https://mariadb.com/docs/server/reference/clientserver-protocol/4-server-response-packets/result-set-packets
_VALUES = DriverValues(
    processors={11: _time_text, 16: _bits},
    types={
        BIT: _Bits,
        SET: _Members,
        TIME: _TimeOfDay,
        types.Time: _TimeOfDay,
        types.Date: _Day,
        types.DateTime: _Instant,
    },
)
"""TIME, BIT, SET, and invalid dates."""

# By the code of the protocol: https://mariadb.com/kb/en/result-set-packets/. Texts and bytes share their codes.
_DESCRIBED: Mapping[int, SQLType] = {
    **dict.fromkeys((1, 2, 3, 9, 13), types.Integer()),
    8: types.BigInteger(),
    **dict.fromkeys((4, 5), types.Double()),
    **dict.fromkeys((0, 246), types.Numeric()),
    10: types.Date(),
    **dict.fromkeys((7, 12), types.DateTime()),
}


def _wide_integer(value: int, _: SQLType) -> Element | None:
    if not -(2**63) <= value < 2**64:
        raise ValueError
    # Drivers write a number of 64 bits without a sign as a decimal, or refuse it.
    return cast(text_parameter(str(value)), INTEGER(unsigned=True)) if value >= 2**63 else None


_QUERY = QueryDialect(
    exact=_unpadded,
    ordered=_unpadded,
    finds_equal_by_index=False,
    position=lambda text, part: func.locate(part, _unpadded(text), type_=types.Integer()),
    lowered=_lowered,
    bucket_start=_beginning_of_bucket,
    double=as_double,
    sum_of_integers=(whole_sum, decimal_sum),
    ranks_rows=True,  # its percentiles have windows only
    wide_integer=_wide_integer,
    shortens_reals=True,
    is_bytes=_is_bytes,
    shown_as_false=(0,),
    has_loose_comparisons=True,
    text_length=func.char_length,
    scramble=md5_of_values,
    random_share=lambda step: func.rand() * step < 1,
)

CAPABILITIES = Capabilities(
    name="MariaDB",
    nulls_last=False,
    # The process of MariaDB (10.11) ends at a sum over a window, where a subquery of the table's own name is merged and
    # the rows are ordered by a column that is not selected.
    before_windows="SET STATEMENT optimizer_switch = 'derived_merge=off' FOR ",
    groups_strictly=False,
    constraints="dualsql.databases.mariadb.constraints",
    distinguishing=_keys,
    nulls_last_by_default=(False, True),
    key_form=_key_form,
    query_dialect=lambda: _QUERY,
    text_dialect=lambda: TEXT,
    own_functions=OWN_FUNCTIONS,
    drivers=dict.fromkeys(("asyncmy", "aiomysql", "pymysql", "mysqldb"), _VALUES),
    text_equality=_in_bytes,
    computation=Computation(has_truths=False, fractions={}, reads_texts=True, reads_dates=True),
    row_estimate=RowEstimate("EXPLAIN FORMAT=JSON ", _rows_expected),
)

BACKEND = Backend(
    capabilities=CAPABILITIES,
    guard=MariaDBGuard(),
    rights=MariaDBRights(),
    driver="asyncmy",
    package="'dualsql[mariadb]'",
    # After a restart of the database, the pool has dead connections; this detects them before use.
    engine_options={"pool_pre_ping": True},
    described_type=lambda code: _DESCRIBED.get(code, types.NULLTYPE),
)
