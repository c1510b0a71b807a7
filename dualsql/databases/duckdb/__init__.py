"""DuckDB: opened read-only, without access to files and network, with its configuration locked."""

from __future__ import annotations

import asyncio
import atexit
import gc
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from sqlalchemy import ColumnElement, Engine, Text, cast, collate, event, func, literal, type_coerce, types
from sqlalchemy.engine import URL, Dialect
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import ConnectionPoolEntry

from dualsql.capabilities import Capabilities, DriverValues, KeyForm
from dualsql.columns.exact import ValueReader
from dualsql.columns.own_types import Computation, Element, SQLType
from dualsql.columns.result import DriverValue
from dualsql.databases.backends import Backend
from dualsql.databases.driver import driver_of, memory_of
from dualsql.databases.duckdb.files import DuckDBFileImport
from dualsql.databases.duckdb.in_place import allow_files, read_in_place, require_unchanged, url_of_files
from dualsql.databases.duckdb.streams import choose_stream, fetch_parsed
from dualsql.databases.expressions import grouped, parameter, raw_form, stored_in
from dualsql.databases.guard import FailureKind, Guard, SessionTerms, TableName, repeat_until_done
from dualsql.databases.strict_types import (
    as_double,
    beginning_of_bucket,
    decimal_sum,
    key_type,
    list_of_dates_as_text,
    md5_of_values,
    round_trips,
    text_parameter,
    untyped_form,
    whole_sum,
)
from dualsql.errors import ConfigurationError, QueryExecutionError
from dualsql.query_dialects import NOT_FINITE, QueryDialect, in_lower_case
from dualsql.text_dialects import FunctionResult, ResultOf, TextDialect, functions_that_give

CONNECT_ARGUMENTS: dict[str, Any] = {
    "read_only": True,
    "config": {"enable_external_access": "false", "memory_limit": "25%"},
}
"""How a database is opened that dualsql opens itself; the URL may ask for another `memory_limit`.

DuckDB runs in the server's process and takes up to 80 % of the memory by default, for example for a cross join. Two
such processes would exceed the memory. Data beyond the limit is written to files beside the database, and
`close_instance` bounds these and locks the configuration.
"""

MOST_SPILL = 16 * 1024**3
"""The most bytes that queries of one database write to files; fewer where a quarter of the free disk is less."""

_CLOSED = {"enable_external_access": "false", "lock_configuration": "true"}
_SPILL = "max_temp_directory_size"
_UNBOUNDED = "90% of available disk space"
"""What DuckDB shows of `max_temp_directory_size` where it is not set."""

_UNSUITED = frozenset({"BinderException", "InvalidTypeException", "TypeMismatchException"})
"""Names of errors of a statement whose values have no such operation; a column that is gone is "not found"."""

_PLACES: Mapping[str, FailureKind] = {
    "must appear in the GROUP BY clause": FailureKind.GROUPING,
    "cannot contain aggregates": FailureKind.GROUPING,
    "aggregate function calls cannot": FailureKind.GROUPING,
    "cannot contain window functions": FailureKind.WINDOW,
    "window function calls cannot": FailureKind.WINDOW,
}
"""Errors of where something stands in a statement, by words of their message."""

_OPERATIONS = {
    re.compile(r"given name and argument types '(\w+\(.{0,200}?\))'\."): r"function \1",
    re.compile(r"for the function call \"(\w+\(.{0,200}?\))\"\."): r"function \1",
    re.compile(
        r"Cannot compare values of type ([^\n]{1,50}?) and type ([^\n]{1,50}?) -"
    ): r"comparison of \1 and \2",
}

_INPUTS: Mapping[str, FailureKind] = {
    "Invalid Input Error: Division by zero": FailureKind.DIVISION,
    "Invalid Input Error: More than one row returned by a subquery": FailureKind.SEVERAL_ROWS,
    "Invalid Input Error: Could not parse string": FailureKind.VALUE,
    "Invalid Input Error: Malformed JSON": FailureKind.DOCUMENT,
}
"""Errors of one class, by the beginning of their message: what follows may quote the data."""

_IS_CLOSED = "dualsql_is_closed"
_IS_BEGUN = "dualsql_is_begun"
_BEGIN = "BEGIN TRANSACTION READ ONLY"
_ASK = "SELECT current_setting('enable_external_access'), current_setting('lock_configuration')"


_TABLES = """
SELECT schema_name, table_name, schema_name = current_schema() FROM duckdb_tables() AS listed
WHERE database_name = current_database() AND NOT EXISTS (
    SELECT 1 FROM duckdb_columns() AS c WHERE c.table_oid = listed.table_oid
    AND c.database_name = listed.database_name AND lower(c.column_name) = 'rowid')
"""
"""Tables whose rowid no column hides, and whether their schema is the default."""


# By the names of errors: the driver has neither numbers nor SQLSTATEs.
_KINDS: Mapping[str, FailureKind] = {
    "ConnectionException": FailureKind.BROKEN,
    "ConversionException": FailureKind.VALUE,
    "FatalException": FailureKind.BROKEN,
    "IOException": FailureKind.UNREACHABLE,
    "InternalException": FailureKind.BROKEN,
    "InterruptException": FailureKind.TIMEOUT,
    "OutOfMemoryException": FailureKind.FULL,
    "OutOfRangeException": FailureKind.OVERFLOW,
}


class DuckDBGuard(Guard):
    """Through duckdb-sqlalchemy, in a thread.

    A read-only transaction is not enough: `COPY ... TO` writes files and `read_csv` reads them, in any transaction.
    enable_external_access = false prevents both, and cannot be undone.
    """

    missing_operations = _OPERATIONS

    def prepare(self, engine: Engine) -> None:
        event.listen(engine, "connect", _leave_transactions)
        event.listen(engine, "checkout", _begin_read_only)

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`. DuckDB has no time limit: `stop` interrupts a statement that runs too long."""
        await _require_closed(connection)
        assert connection.sync_connection is not None
        database = connection.sync_connection.engine.url.database
        require_unchanged(database)
        if _IS_BEGUN not in memory_of(connection):
            # SQLAlchemy begins a transaction itself, which can no longer be made read-only.
            await connection.exec_driver_sql(f"ROLLBACK; {_BEGIN}")
        yield
        require_unchanged(database)

    async def row_numbers(self, connection: AsyncConnection) -> Mapping[TableName, str]:
        rows: Any = await connection.exec_driver_sql(_TABLES)
        columns: dict[TableName, str] = {}
        for schema, name, is_current in rows:
            columns[schema, name] = "rowid"
            if is_current:
                columns[None, name] = "rowid"
        return columns

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        await repeat_until_done(working, driver_of(connection).interrupt)

    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        kind = type(error).__name__
        if kind in _KINDS:
            return _KINDS[kind]
        message = str(error)
        if kind in _UNSUITED and "not found" not in message:
            return next((fault for words, fault in _PLACES.items() if words in message), FailureKind.UNSUITED)
        if kind == "InvalidInputException":
            for beginning, fault in _INPUTS.items():
                if message.startswith(beginning):
                    return fault
        return FailureKind.WRITE if "read-only mode" in message else None


def begin_once(connection: Any, record: ConnectionPoolEntry) -> None:
    """Begin the one transaction of a new connection."""
    _leave_transactions(connection, record)
    connection.execute(_BEGIN)


def begin_again(connection: Any) -> None:
    """Begin another transaction: one that has failed takes no statement, and one may hold the rows of a stream."""
    connection.rollback()
    connection.execute(_BEGIN)


def _leave_transactions(connection: Any, record: ConnectionPoolEntry) -> None:
    """Let SQLAlchemy begin no transaction on a connection: each begins when the connection leaves its pool."""
    connection.autocommit = True
    record.info[_IS_BEGUN] = True


def _begin_read_only(connection: Any, *_: Any) -> None:
    # Here, and not as a statement of its own in the session, which would be two more switches of threads.
    connection.execute(_BEGIN)


async def _require_closed(connection: AsyncConnection) -> None:
    memory = memory_of(connection)
    if _IS_CLOSED not in memory:
        row: Any = (await connection.exec_driver_sql(_ASK)).one()
        memory[_IS_CLOSED] = not row[0] and bool(row[1])
    if not memory[_IS_CLOSED]:
        raise ConfigurationError(
            "This DuckDB engine can read and write files.",
            hint=f"Pass the URL, or create the engine with connect_args={{'config': {_CLOSED}}}.",
        )


def bound_spill(connection: Any, most: int | str) -> None:
    """Bound what queries of an instance write to files, in bytes or as DuckDB writes a size.

    DuckDB 2.0 shows the value of the configuration that it was opened with, and spills more all the same.
    """
    connection.execute(f"SET {_SPILL} = '{f'{most}B' if isinstance(most, int) else most}'")


def close_instance(connection: Any, most: int | None = None) -> None:
    """Bound the spill of an instance, and lock its configuration, unless another connection has done so.

    Args:
        most: bytes; None for what the URL says, or else for `MOST_SPILL`.
    """
    from duckdb import Error

    try:
        if not _setting(connection, "lock_configuration"):
            allow_files(connection)
            bound_spill(connection, _most_spill(connection) if most is None else most)
            connection.execute("SET lock_configuration = true")
    except Error:  # unless another connection has locked it meanwhile
        if not _setting(connection, "lock_configuration"):
            raise


def _setting(connection: Any, name: str) -> Any:
    return connection.execute(f"SELECT current_setting('{name}')").fetchone()[0]


def _most_spill(connection: Any) -> int | str:
    limit = str(_setting(connection, _SPILL))
    if limit != _UNBOUNDED:
        return limit
    folder = Path(_setting(connection, "temp_directory")).absolute().parent
    return min(MOST_SPILL, shutil.disk_usage(folder).free // 4)


_NAME = "duckdb"


def _key_form(expression: Element, *, is_stored: bool) -> KeyForm | None:
    """The driver's own value; of dates, DuckDB's text: the driver reads infinity as 9999-12-31."""
    plain = key_type(_NAME, expression)
    if isinstance(plain, types.NullType):
        return untyped_form(_NAME, expression)
    if isinstance(plain, types.JSON):
        # Ordered as its text; a parameter beside it would make it a number, or an error.
        return raw_form(cast(expression, Text), is_stored=False)
    bare = type_coerce(grouped(expression), DriverValue())
    is_date = isinstance(plain, types.Date | types.DateTime)
    if is_date or (isinstance(plain, types.Enum) and plain.native_enum):
        # An ENUM is ordered by position; beside a text without a type it is compared as a text.
        return KeyForm(
            compared=bare,
            read=cast(expression, Text),
            carried=expression,
            bind=lambda value: cast(text_parameter(value), plain),
            round_trips=lambda text: text is None or not _has_nanoseconds(text),
        )
    # Beside a parameter of 64 bits, DuckDB reads UHUGEINT as one.
    is_unsigned = type(plain).__name__ == "UHugeInteger"
    return KeyForm(
        compared=bare,
        read=bare,
        carried=expression,
        bind=(lambda value: cast(text_parameter(str(value)), plain)) if is_unsigned else parameter,
        round_trips=_compares_alike,
    )


def _compares_alike(value: Any) -> bool:
    """Whether DuckDB compares the value as it did before its driver read it; a MAP would be a STRUCT."""
    if isinstance(value, list | tuple):
        return all(map(_compares_alike, value))
    return value is None or isinstance(value, time | timedelta) or round_trips(value)


def _keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    # 0.0 equals -0.0; a column may have a collation.
    plain = stored_in(_NAME, expression.type)
    is_loose = isinstance(plain, types.Numeric | types.Float | types.NullType)
    if isinstance(plain, types.String):
        # CAST to BLOB reads escapes, and refuses what is not ASCII.
        return [func.encode(cast(expression, Text), type_=types.LargeBinary())]
    return [expression, cast(expression, Text)] if is_loose else [expression]


_FUNCTIONS: Mapping[str, FunctionResult] = {
    **functions_that_give(types.DateTime(), "make_timestamp strptime"),
    "date_trunc": ResultOf.TRUNCATED,
    **functions_that_give(types.DateTime(timezone=True), "now to_timestamp"),
    **functions_that_give(types.Date(), "last_day make_date"),
    **functions_that_give(
        types.BigInteger(),
        """array_length bit_length date_diff datediff day dayofmonth dayofweek dayofyear hour
            isodow len list_count minute month quarter second strlen week weekday weekofyear year""",
    ),
    **functions_that_give(
        types.String(),
        """array_to_string dayname format monthname printf regexp_extract regexp_replace split_part
            strftime translate""",
    ),
    **functions_that_give(
        types.Boolean(), "contains ends_with prefix regexp_full_match regexp_matches starts_with suffix"
    ),
    **functions_that_give(
        ResultOf.FIRST_ARGUMENT, "arg_max arg_min first last list_sort max_by min_by quantile_disc"
    ),
    **functions_that_give(types.BigInteger(), "approx_count_distinct count_if"),
    **functions_that_give(types.Double(), "epoch"),
    **functions_that_give(ResultOf.DATE_PART, "date_part"),
    **functions_that_give(ResultOf.MIDDLE, "median percentile_cont quantile_cont"),
    **functions_that_give(ResultOf.LIST, "array_agg list list_value"),
    **functions_that_give(types.ARRAY(types.String()), "string_split"),
    **functions_that_give(types.JSON(), "json_group_array json_group_object"),
    **functions_that_give(types.NullType(), "list_aggregate"),
}

_LONGEST_TEXT = 50_000
"""DuckDB computes 2,048 rows at once, in our process, without looking at its time limit or its memory limit meanwhile:
it took 18 GB for rpad(name, 9000000, name)."""

_UNITS = ("years", "months", "weeks", "days", "hours", "minutes", "seconds")


def _interval(amounts: Sequence[int]) -> Element:
    text = " ".join(f"{amount} {unit}" for amount, unit in zip(amounts, _UNITS, strict=True) if amount)
    return cast(literal(text or "0 days", types.Text()), types.Interval())


_TEXT = TextDialect(
    parser="duckdb",
    types={"FLOAT": types.REAL},  # four bytes
    has_row_values=True,
    correlates_from=True,
    merges_in_place=True,
    sorts_row_values=True,
    longest_text=_LONGEST_TEXT,
    functions=_FUNCTIONS,
    absent=frozenset(
        """btrim every iif initcap json_agg json_object_agg jsonb_agg jsonb_object_agg quote_literal soundex to_char
        total""".split()
    ),
    instead={
        "btrim": "Write trim(x, y).",
        "every": "Write bool_and(x).",
        **dict.fromkeys(("json_agg", "jsonb_agg"), "Write json_group_array(x)."),
        **dict.fromkeys(("json_object_agg", "jsonb_object_agg"), "Write json_group_object(x, y)."),
        "to_char": "Write strftime(x, '%Y-%m').",
        "total": "Write coalesce(sum(x), 0).",
        "date_format": "Write strftime(x, '%Y-%m').",
    },
    writes_formats="strftime(:a, :b)",
    days_between="CAST(:b AS DATE) - CAST(:a AS DATE)",
    system_tables=("duckdb_", "pg_", "sqlite_"),
    whole_quotient=types.Double(),
    quotient=types.Double(),
    averages_in_doubles=True,
    whole_division="//",
    interval=_interval,
    orders_aggregates=True,
    has_distinct_on=True,
    has_lists=True,
    collations=("BINARY", "NOCASE", "NOACCENT"),
    needs_constant_patterns=True,
    comparisons_can_fail=True,
)


_DAYS = ValueReader(date.max, date.min)
_MOMENTS = ValueReader(datetime.max, datetime.min)  # noqa: DTZ901 - the very objects


class DuckDBDate(types.Date):
    """A date as DuckDB's driver returns it."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return _DAYS


class DuckDBDateTime(types.DateTime):
    """A timestamp as DuckDB's driver returns it."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return _MOMENTS


_has_nanoseconds = re.compile(r"\.\d{7}").search

_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_NANOSECONDS = re.compile(r"\bTIME(?:STAMP)?_NS\b")


def _require_whole(code: object) -> None:
    # Of any column, whatever its type in SQLAlchemy is: its own values, or those of a list or a STRUCT.
    match = _NANOSECONDS.search(_QUOTED.sub("", str(code)))
    if match is not None:
        raise QueryExecutionError(
            f"The driver of DuckDB cuts a {match[0]} to microseconds.",
            hint=f"CAST the column to {match[0].removesuffix('_NS')}, or to text, which has all digits.",
        )


_DESCRIBED_TYPES: Mapping[str, SQLType] = {
    "BOOLEAN": types.Boolean(),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"), types.Integer()),
    **dict.fromkeys(("BIGINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT"), types.BigInteger()),
    "FLOAT": types.REAL(),
    "DOUBLE": types.Double(),
    "VARCHAR": types.String(),
    "DATE": types.Date(),
    "TIME": types.Time(),
    "TIMESTAMP": types.DateTime(),
    "TIMESTAMP WITH TIME ZONE": types.DateTime(timezone=True),
    "INTERVAL": types.Interval(),
    "UUID": types.Uuid(),
    "BLOB": types.LargeBinary(),
    "JSON": types.JSON(),
}


def _described_type(kind: Any) -> SQLType:
    """The type with this name; NullType for a struct, a map and others without a form in all formats."""
    name = str(kind)
    if name.endswith("[]"):
        items = _described_type(name.removesuffix("[]"))
        return types.NULLTYPE if isinstance(items, types.NullType | types.ARRAY) else types.ARRAY(items)
    return types.Numeric() if name.startswith("DECIMAL(") else _DESCRIBED_TYPES.get(name, types.NULLTYPE)


def _in_bytes(column: str, value: str, _: SQLType) -> str:
    # A column can be declared with NOCASE or NOACCENT.
    return f"({column} = {value} AND encode({column}) = encode({value}))"


def _by_code_point(text: Element) -> Element:
    # It costs nothing beside a column without a collation: the filter is still one of the scan.
    return collate(cast(text, Text), "binary")


def _wide_integer(value: int, type_: SQLType) -> ColumnElement[Any] | None:
    # Beside a parameter of 64 bits or a HUGEINT, DuckDB compares UHUGEINT as that type, or as a double.
    is_unsigned = type(type_).__name__ == "UHugeInteger"
    if not is_unsigned and -(2**63) <= value < 2**63:
        return None
    if not (0 <= value < 2**128 if is_unsigned else -(2**127) <= value < 2**127):
        raise ValueError
    # No cast: documents have no types of other packages.
    as_wide = func.dualsql_uhugeint if is_unsigned else func.dualsql_hugeint
    return as_wide(text_parameter(str(value)), type_=types.Numeric(40, 0))


_QUERY = QueryDialect(
    exact=_by_code_point,
    ordered=_by_code_point,
    position=lambda text, part: func.instr(_by_code_point(text), part, type_=types.Integer()),
    lowered=lambda text: _by_code_point(in_lower_case(text)),
    bucket_start=partial(beginning_of_bucket, _NAME),
    double=as_double,
    sum_of_integers=(whole_sum, decimal_sum),
    ranks_rows=True,  # its percentile_cont() has other last digits than PostgreSQL's
    has_infinite_dates=True,
    odd_doubles=NOT_FINITE,
    wide_integer=_wide_integer,
    is_bytes=lambda expression: func.typeof(expression) == "BLOB",
    scramble=md5_of_values,
    approximate_distinct="approx_count_distinct",
    random_share=lambda step: func.random() * step < 1,
)

CAPABILITIES = Capabilities(
    name="DuckDB",
    nulls_last=True,
    groups_strictly=True,
    groups_before_order=True,
    constraints="dualsql.databases.duckdb.constraints",
    own_functions={
        "dualsql_hugeint": "CAST({} AS HUGEINT)".format,
        "dualsql_uhugeint": "CAST({} AS UHUGEINT)".format,
    },
    distinguishing=_keys,
    nulls_last_by_default=(True, True),
    keeps_zones=True,
    key_form=_key_form,
    query_dialect=lambda: _QUERY,
    text_dialect=lambda: _TEXT,
    drivers={
        "duckdb_sqlalchemy": DriverValues(
            types={types.Date: DuckDBDate, types.DateTime: DuckDBDateTime},
            processors={"DATE": _DAYS, "TIMESTAMP": _MOMENTS, "TIMESTAMP WITH TIME ZONE": _MOMENTS},
            require=_require_whole,
        )
    },
    bound_as_text=list_of_dates_as_text,
    text_equality=_in_bytes,
    computation=Computation(
        divides_in_doubles=True,
        floors_in_doubles=True,
        in_doubles_only=frozenset({"ceil", "ceiling", "floor"}),
        fractions=dict.fromkeys(("epoch", "julian"), types.Double()),
    ),
)


def _require_file(url: URL) -> None:
    if (url.database or ":memory:").startswith(":memory:"):
        raise ConfigurationError(
            "A DuckDB database in memory is empty for the server: each connection has one of its own.",
            hint="Give the URL of a file, such as duckdb:////data/sales.duckdb.",
        )


BACKEND = Backend(
    capabilities=CAPABILITIES,
    guard=DuckDBGuard(),
    package="'dualsql[duckdb]'",
    file_suffixes=(".duckdb",),
    open_import=DuckDBFileImport,
    read_in_place=read_in_place,
    adapt_url=url_of_files,
    engine_options={"connect_args": CONNECT_ARGUMENTS},
    require_url=_require_file,
    opened=close_instance,
    stream_backends={"duckdb_sqlalchemy": choose_stream},
    row_fetches={"duckdb_sqlalchemy": fetch_parsed},
    described_type=_described_type,
)


_EMPTIED = frozenset({"duckdb", "_duckdb", "duckdb_sqlalchemy", "dualsql"})


@atexit.register
def _end_quietly() -> None:
    """Prevent lines such as "nanobind: leaked 27 instances!" of DuckDB's binding when the process ends.

    Objects that gc.freeze() excluded are never freed. Neither is what pyarrow holds of pandas, which by way of caches
    of `typing` reaches SQLAlchemy's classes, the dialect, and the functions of DuckDB's modules. At the end, Python
    empties a module only while the module itself is referenced, and a function refers to its namespace alone. Caches of
    dualsql's modules hold types of DuckDB.
    """
    if "duckdb" not in sys.modules:
        return
    gc.unfreeze()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _EMPTIED and isinstance(module, ModuleType):
            vars(module)["_module"] = module
