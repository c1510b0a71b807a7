"""Streams from PostgreSQL by COPY or a cursor. Values without a Python class are read as text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import types
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.exact import Unfit, ValueReader, read_document, reads_for_an_application
from dualsql.columns.result import ResultColumn, is_sqlalchemys_own
from dualsql.databases.driver import DriverStatement, driver_of, require_described
from dualsql.databases.fetch import Fetch
from dualsql.databases.postgresql.csv_parser import CSVParser
from dualsql.databases.postgresql.guard import adapted_of
from dualsql.databases.streams import (
    BATCH_BYTES,
    MOST_FETCHED,
    PIECE_ROWS,
    Pace,
    Put,
    StreamBackend,
    StreamJob,
    encode,
)
from dualsql.errors import QueryExecutionError
from dualsql.formats.cells import processed
from dualsql.formats.csv import CSVWitness, DatabaseCSVWriter
from dualsql.formats.fits import fit_of
from dualsql.formats.row_objects import by_size
from dualsql.formats.writer import BatchWriter, Chunk, ExactRows, Rows
from dualsql.threads import shielded

# Texts and quoted names come first, because they may contain a dollar sign.
_PARAMETER = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\d+)""")

# SQL in which this search would be wrong: dollar quotes, escapes, comments.
_OPAQUE = re.compile(r"\$\$|\$[A-Za-z_]|\b[EeUu]&?'|--|/\*")

_MOST_VALUES = 200
_BUILT_IN_TYPES = 16_384
"""Object ids below it are PostgreSQL's own, the same on every server."""

_INSTANTS = frozenset({1082, 1114, 1184})
"""date, timestamp, timestamptz: as text, they depend on the session's DateStyle."""


def setting_of(number: int) -> str:
    """The name of the setting that holds a parameter's value."""
    return f"dualsql.value_{number}"


def without_parameters(sql: str, parameters: Sequence[Any], types: Sequence[Any]) -> str | None:
    """The statement with each `$n` read from its setting; None if that is not certainly correct.

    Args:
        types: the types of the parameters, from asyncpg's prepared statement.
    """
    # COPY takes no parameters. A setting holds no NULL, and a `$1` within a text looks like a parameter.
    if len(parameters) > _MOST_VALUES or any(value is None for value in parameters) or _OPAQUE.search(sql):
        return None
    numbers: set[int] = set()

    def read(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        number = int(match[1])
        numbers.add(number)
        return f"(current_setting('{setting_of(number)}')::{sql_type(types[number - 1])})"

    plain = _PARAMETER.sub(read, sql)
    return plain if numbers == set(range(1, len(parameters) + 1)) else None


def setting_statement(types: Sequence[Any]) -> str:
    """SQL that stores each parameter in its setting.

    COPY takes no parameters. So set_config() stores each value for this transaction, and the statement reads it with
    current_setting(), cast to the type that the server found for the parameter.
    """
    texts = [_as_text(f"${number}::{sql_type(type_)}", type_) for number, type_ in enumerate(types, 1)]
    settings = [f"set_config('{setting_of(n)}', {text}, true)" for n, text in enumerate(texts, 1)]
    return f"SELECT {', '.join(settings)}"


def _as_text(value: str, type_: Any) -> str:
    return f"to_json({value}) #>> '{{}}'" if type_.oid in _INSTANTS else f"({value})::text"


def sql_type(type_: Any) -> str:
    """The name of a type in SQL."""
    name = type_.name.removesuffix("[]")
    schema = "pg_catalog" if type_.oid < _BUILT_IN_TYPES else type_.schema
    return f"{_quote(schema)}.{_quote(name)}{type_.name[len(name) :]}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Object ids: https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat
_INTEGERS = (20, 21, 23)
_TEXTS = (25, 1042, 1043, 19)
_DECIMAL = 1700

_SHORT = frozenset({16, 700, 701, 1082, 1083, 1114, 1184, 1186, 1266, 2950, *_INTEGERS})
"""Types of a fixed length."""

# to_json() writes ISO 8601 whatever the session's DateStyle.
_ISO = "btrim(to_json({c})::text, '\"')"
# A zone that is an interval is not looked up for each row.
_UTC = "({c} AT TIME ZONE interval '0')"
_ZONED_ISO = f"regexp_replace(btrim(to_json({_UTC})::text, '\"'), '( BC)?$', '+00:00\\1')"
_LAST = "9999-12-31 23:59:59.999999"
# As Python holds them, and as pyarrow makes a duration of Python's in 64 bits of microseconds.
_WITHOUT_MONTHS, _OF_64_BITS = (
    f"{{c}}::interval month = interval '0' AND {{c}} BETWEEN interval '{least}' AND interval '{most}'"
    for least, most in (
        ("-999999999 days", "999999998 days"),
        ("-106751991 days -04:00:54", "106751991 days 04:00:54.775807"),
    )
)
_PARTS = " || ".join(
    f"extract({part} FROM {{c}})::text || '{sign}'"
    for part, sign in (("year", "Y"), ("month", "M"), ("day", "DT"), ("hour", "H"), ("minute", "M"))
)
# A year, or its mark, as Python has none; in what else a database writes of arrays and ranges.
_ODD = "BC|[0-9]{5,}-"

# What Python has a class for: years 1 to 9999, times of day before 24:00, durations without months.
_DATE = "{c} BETWEEN date '0001-01-01' AND date '9999-12-31'"
_MOMENT = f"{{c}} BETWEEN timestamp '0001-01-01' AND timestamp '{_LAST}'"
_INSTANT = f"{{c}} BETWEEN timestamptz '0001-01-01 00:00+00' AND timestamptz '{_LAST}+00'"

READABLE: Mapping[int, str] = {
    # The driver knows the infinities, of dates and instants alone.
    1082: f"({_DATE} OR NOT isfinite({{c}}))",
    1114: f"({_MOMENT} OR NOT isfinite({{c}}))",
    1184: f"({_INSTANT} OR NOT isfinite({{c}}))",
    1083: "{c} < time '24:00'",
    1266: "{c}::time < time '24:00'",
    1186: f"({_WITHOUT_MONTHS})",
    **dict.fromkeys((1182, 1115, 1185), f"{{c}}::text !~ '{_ODD}'"),
    **dict.fromkeys((1183, 1270), "{c}::text !~ '24:00:00'"),
    1187: "{c}::text !~ 'year|mon'",
    **dict.fromkeys((3908, 3910, 3912, 4533, 4534, 4535), f"{{c}}::text !~ '{_ODD}|infinity'"),
}
"""By PostgreSQL's number of a type that has values that asyncpg cannot read, or reads as others: whether it can."""

SPELLED: Mapping[int, str] = {
    **dict.fromkeys(READABLE, "{c}::text"),
    **dict.fromkeys((1182, 1115, 1185, 1183, 1270, 1187), "to_json({c})::text"),
    1082: _ISO,
    1114: _ISO,
    1184: f"CASE WHEN isfinite({{c}}) THEN {_ZONED_ISO} ELSE {{c}}::text END",
    1186: (
        f"CASE WHEN NOT isfinite({{c}}) THEN {{c}}::text ELSE 'P' || {_PARTS} || "
        "rtrim(rtrim(extract(second FROM {c})::numeric(20, 6)::text, '0'), '.') || 'S' END"
    ),
}
"""By the same number: its text, where it cannot."""

_DAY_TEXT = "{c}::date"  # in ISO 8601, any date has the text that to_json() writes
_MOMENT_TEXT = (
    f"CASE WHEN {{c}} >= timestamp '0001-01-01' THEN replace({{c}}::text, ' ', 'T') ELSE {_ISO} END"
)
_INSTANT_TEXT = (
    f"CASE WHEN {_INSTANT} THEN replace({_UTC}::text, ' ', 'T') || '+00:00' ELSE {SPELLED[1184]} END"
)
# Where the session's dates are not ISO, the text takes longer.
_ELSEWHERE = {_DAY_TEXT: _ISO, _MOMENT_TEXT: _ISO, _INSTANT_TEXT: SPELLED[1184]}

_MICROSECONDS = "(extract(epoch FROM {c}) * 1000000)::bigint"
# And as dualsql.formats.json writes that: P1DT2H3M4.5S, with as many digits of a second as it has.
# One call, with a format that is chosen: seven calls take PostgreSQL longer to analyse and plan.
_DIGITS = " ".join(
    f"""WHEN {{c}}::time({n}) THEN '"P"FMDD"DT"FMHH24"H"FMMI"M"FMSS{f".FF{n}" if n else ""}"S"'"""
    for n in range(7)
)
_DURATION = f"to_char(justify_hours({{c}}), CASE {{c}}::time {_DIGITS} END)"
_INTERVAL = (
    f"CASE WHEN NOT ({_WITHOUT_MONTHS}) THEN {SPELLED[1186]} WHEN {{c}} >= interval '0' THEN {_DURATION}"
    f" ELSE '-' || {_DURATION.replace('{c}', '(-{c})')} END"
)
# The quickest of several: 200,000 rows of 15 types take 0.40 s of CPU, and 0.27 in the text that PostgreSQL gives them.
_AS_IT_IS, _TEXT, _FLOAT = "{c}", "{c}::text", "{c}::float8"
_BOOLEAN = "CASE WHEN {c} THEN 'true' WHEN NOT {c} THEN 'false' END"
# 57 bytes are a line.
_LINES = "encode({c}, 'base64')"
_BASE64 = f"CASE WHEN octet_length({{c}}) < 57 THEN {_LINES} ELSE replace({_LINES}, chr(10), '') END"
_JSON = "nullif({c}::text, 'null')"
# A null has 12 bytes.
_JSONB = "CASE WHEN pg_column_size({c}) > 12 THEN {c} ELSE nullif({c}, 'null'::jsonb) END"
_ARRAY = "to_json({c})::text"
_WHOLE_NUMBERS = (
    "CASE WHEN array_ndims({c}) = 1 THEN '[' || array_to_string({c}, ',', 'null') || ']'"
    f" ELSE {_ARRAY} END"
)

_CSV: Mapping[tuple[str, int], str] = {
    **{("integer", oid): _AS_IT_IS for oid in _INTEGERS},
    **{("text", oid): _AS_IT_IS for oid in _TEXTS},
    **{("float", oid): _FLOAT for oid in (701, _DECIMAL)},
    ("float", 700): _TEXT,
    ("decimal", _DECIMAL): _AS_IT_IS,
    ("boolean", 16): _BOOLEAN,
    ("date", 1082): _DAY_TEXT,
    ("datetime", 1114): _MOMENT_TEXT,
    ("datetime", 1184): _INSTANT_TEXT,
    ("time", 1083): _AS_IT_IS,
    ("interval", 1186): _INTERVAL,
    ("uuid", 2950): _AS_IT_IS,
    ("base64", 17): _BASE64,
    ("json", 114): _JSON,
    ("json", 3802): _JSONB,
    # One-dimensional or not: int2, int4, int8; text, varchar, bool, date.
    **{("array", oid): _WHOLE_NUMBERS for oid in (1005, 1007, 1016)},
    **{("array", oid): _ARRAY for oid in (1009, 1015, 1000, 1182)},
    # A column of no declared type has the driver's own objects.
    **{("any", oid): _AS_IT_IS for oid in (*_INTEGERS, *_TEXTS, 701, _DECIMAL)},
    ("any", 700): _TEXT,
    ("any", 16): _BOOLEAN,
}

_ARROW: Mapping[tuple[str, int], str] = {
    **{key: expression for key, expression in _CSV.items() if key[0] not in {"any", "interval"}},
    ("interval", 1186): f"CASE WHEN {_OF_64_BITS} THEN {_MICROSECONDS}::text ELSE {{c}}::text END",
}


@dataclass(frozen=True, slots=True)
class TextConverter:
    """Writes the columns of one session's statement.

    The text must equal what SQLAlchemy's type and `dualsql.formats` would make of the driver's object. This is known
    for the pairs of encoding and PostgreSQL type in the tables above, if SQLAlchemy's type does not process values.

    Attributes:
        date_style: the session's.
    """

    dialect: Dialect
    date_style: str

    def for_csv(self, column: ResultColumn, type_: Any) -> str | None:
        """The SQL, with `{c}` for the column, that gives the column's text in CSV; None if there is none.

        Args:
            type_: the type in PostgreSQL, as asyncpg reports it.
        """
        return self._expression(_CSV, column, type_)

    def for_arrow(self, column: ResultColumn, type_: Any) -> str | None:
        """The SQL that gives a text for parsing into the column's Arrow type; see `for_csv`."""
        return self._expression(_ARROW, column, type_)

    def _expression(
        self, table: Mapping[tuple[str, int], str], column: ResultColumn, type_: Any
    ) -> str | None:
        encoding = column.encoding
        if not is_sqlalchemys_own(column.type, self.dialect) or (
            encoding == "json" and reads_for_an_application(self.dialect)
        ):
            return None
        if isinstance(column.type, types.Enum) and type_.oid >= _BUILT_IN_TYPES and type_.kind == "scalar":
            return _TEXT
        expression = table.get((encoding, type_.oid))
        return (
            expression if self.date_style.startswith("ISO") else _ELSEWHERE.get(expression or "", expression)
        )


_PLAIN_TEXTS = frozenset({3908, 3910, 3912, 4533, 4534, 4535})
"""Ranges of dates and instants, which are shown as text, whatever their ends."""


_DOCUMENTS = frozenset({114, 3802, 199, 3807})
"""json, jsonb and arrays of them."""

_READ_OTHERWISE = frozenset({1186, 1187}) | _PLAIN_TEXTS
"""Types whose values asyncpg changes: a month to 30 days, the end of a range to 9999-12-31."""


class ReadableStatement:
    """A statement in a form in which the driver can read every value.

    asyncpg fails at dates before the year 1 or after 9999 and at 24:00, and reads a month as 30 days. An outer
    statement replaces such values by NULL and returns their texts in a further column, which is NULL in almost every
    row. The comparisons cost a tenth of the time in which the driver makes a date.

    Attributes:
        sql: takes the same parameters.
        is_short: no value can be long.
        rows_class: of `rows`, unless one has a text in place of a value.
    """

    def __init__(self, statement: DriverStatement, attributes: Sequence[Any]) -> None:
        self._statement = statement
        self._oids = [attribute.type.oid for attribute in attributes]
        self._positions = [position for position, oid in enumerate(self._oids) if oid in READABLE]
        self.is_short = _SHORT.issuperset(self._oids)
        is_cut = _reads_floats(statement.dialect)
        self._documents = [
            position for position, oid in enumerate(self._oids) if is_cut and oid in _DOCUMENTS
        ]
        self.sql = self._sql() if self.is_rewritten else statement.sql
        self.rows_class: type[list[Sequence[Any]]] = list

    @property
    def is_rewritten(self) -> bool:
        """Whether the statement was changed."""
        return bool(self._positions or self._documents)

    def rows(self, records: Sequence[Any]) -> Rows:
        """The driver's records as processed rows of the original statement."""
        width, processors = len(self._oids), self._statement.processors(self._oids)
        if self._documents:
            lists = [list(record) for record in records]
            for row, position in product(lists, self._documents):
                row[position] = None if row[position] is None else read_document(row[position])
            records = lists
        if not self._positions:
            return self.rows_class(processed([tuple(record) for record in records], processors))
        values = processed([record[:width] for record in records], processors)
        texts = list(map(itemgetter(width), records))
        return self._with_texts(values, texts) if any(texts) else self.rows_class(values)

    def note_columns(self, columns: Sequence[ResultColumn]) -> None:
        """Find whether the rows have the classes that these columns announce, so that none is looked at."""
        pairs = zip(columns, self._oids, strict=True)
        is_known = all((column.encoding, oid) in _CSV and fit_of(column).kinds for column, oid in pairs)
        processors = self._statement.processors(self._oids)
        if is_known and all(isinstance(processor, ValueReader) for _, processor in processors):
            self.rows_class = ExactRows

    def _with_texts(self, rows: Rows, texts: Sequence[Sequence[str | None] | None]) -> Rows:
        filled = [list(row) for row in rows]
        for row, listed in zip(filled, texts, strict=True):
            for position, text in zip(self._positions, listed or (), strict=False):
                if text is not None:
                    row[position] = text if self._oids[position] in _PLAIN_TEXTS else Unfit(text)
        return filled

    def _sql(self) -> str:
        odd = [
            f"CASE WHEN {_of(READABLE[self._oids[position]], position)} THEN NULL"
            f" ELSE {_of(SPELLED[self._oids[position]], position)} END"
            for position in self._positions
        ]
        fits = " AND ".join(
            f"coalesce({_of(READABLE[self._oids[position]], position)}, true)" for position in self._positions
        )
        names = ", ".join(f"c{position}" for position in range(len(self._oids)))
        texts = [f"CASE WHEN NOT ({fits}) THEN ARRAY[{', '.join(odd)}] END"] if odd else []
        outputs = ", ".join([*self._outputs(), *texts])
        return f"SELECT {outputs} FROM ({self._statement.sql}) AS r({names})"

    def _outputs(self) -> Iterator[str]:
        for position, oid in enumerate(self._oids):
            name = f"r.c{position}"
            if position in self._documents:
                yield _of(_ARRAY, position)
            else:
                yield f"CASE WHEN {_of(READABLE[oid], position)} THEN {name} END" if oid in READABLE else name


async def prepare(connection: AsyncConnection, sql: str) -> Any:
    """Prepare a statement with asyncpg."""
    # Behind a pooler, an application gives its statements names that no other client has.
    return await driver_of(connection).prepare(sql, name=internals.statement_name(adapted_of(connection)))


async def prepare_readably(
    connection: AsyncConnection, statement: DriverStatement, prepared: Any
) -> tuple[ReadableStatement, Any]:
    """The readable form of the statement `prepared`, and that form prepared."""
    readable = ReadableStatement(statement, prepared.get_attributes())
    return readable, await prepare(connection, readable.sql) if readable.is_rewritten else prepared


def _is_read_otherwise(oids: Sequence[int], dialect: Any) -> bool:
    """Whether asyncpg changes values of these types: as `_READ_OTHERWISE` says, or floats in documents."""
    is_cut = _reads_floats(dialect) and not _DOCUMENTS.isdisjoint(oids)
    return is_cut or not _READ_OTHERWISE.isdisjoint(oids)


def _reads_floats(dialect: Any) -> bool:
    """Whether the driver parses documents by itself, with json.loads."""
    return dialect.supports_native_json_deserialization and internals.json_reader(dialect) is None


async def fetch_exactly(fetch: Fetch, connection: AsyncConnection) -> Rows:
    """All rows of a statement; where asyncpg has none of them, or others than the database, in the readable form.

    SQLAlchemy prepares the statement, once for each connection. Its rows are left out: 100 of 20 columns take 170
    microseconds of CPU in place of 240, 16 of three columns 60 in place of 97.
    """
    dialect: Any = connection.dialect
    statement: DriverStatement | None = None
    rows: Rows | None = None
    with suppress(Exception):  # of a value that its type does not accept: SQLAlchemy raises its own
        statement = fetch.statement_for(dialect)
    # ValueError, OverflowError: of a value that Python has no class for.
    with suppress(ValueError, OverflowError):
        if statement is None or internals.logs(fetch.source.engine.sync_engine):
            rows = await _rows_of_sqlalchemy(fetch, connection)
        else:
            rows = await _rows_of_driver(statement, connection)
    if rows is not None:
        return rows
    if statement is None:
        raise QueryExecutionError(
            "A value of the result cannot be read.",
            hint="If the column is a date or an interval, CAST it to text.",
        )
    # Anew: since SQLAlchemy prepared it, a column may have another type, on which the readable form depends.
    prepared = await prepare(connection, statement.sql)
    readable, prepared = await prepare_readably(connection, statement, prepared)
    return readable.rows(await prepared.fetch(*statement.parameters))


async def _rows_of_sqlalchemy(fetch: Fetch, connection: AsyncConnection) -> Rows | None:
    """The rows; None if asyncpg reads others than the database has."""
    result = await fetch.execute(connection)
    oids = [column[1] for column in result.cursor.description or ()]
    return None if _is_read_otherwise(oids, connection.dialect) else cast("Rows", result.all())


async def _rows_of_driver(statement: DriverStatement, connection: AsyncConnection) -> Rows | None:
    """The rows; None if asyncpg reads others than the database has."""
    dialect: Any = connection.dialect
    prepared, attributes = await internals.prepared(adapted_of(connection), statement.sql, dialect)
    require_described([attribute.name for attribute in attributes], statement.described)
    oids, driver = [attribute.type.oid for attribute in attributes], dialect.dbapi.asyncpg
    if _is_read_otherwise(oids, dialect):
        return None
    try:
        records = await prepared.fetch(*statement.parameters)
    except (driver.InvalidCachedStatementError, driver.InternalServerError):
        internals.forget_prepared(dialect)  # a table was changed
        raise
    return processed([*map(tuple, records)], statement.processors(oids))


def _of(expression: str, position: int) -> str:
    return expression.replace("{c}", f"r.c{position}")


async def choose_stream(
    job: StreamJob, connection: AsyncConnection, statement: DriverStatement
) -> StreamBackend:
    """The stream backend for a statement on asyncpg: COPY if it is exact, otherwise a cursor."""
    prepared = await prepare(connection, statement.sql)
    require_described([attribute.name for attribute in prepared.get_attributes()], statement.described)
    copied = by_copy(job, statement, driver_of(connection), prepared)
    if copied is not None:
        return copied
    readable, prepared = await prepare_readably(connection, statement, prepared)
    return by_asyncpg_cursor(readable, prepared, statement.parameters)


def by_asyncpg_cursor(readable: ReadableStatement, prepared: Any, parameters: Sequence[Any]) -> StreamBackend:
    """Stream with a cursor of asyncpg over a prepared statement."""

    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        readable.note_columns(job.columns)
        cursor, pace = await prepared.cursor(*parameters), Pace()
        while records := await cursor.fetch(pace.rows if readable.is_short else min(pace.rows, MOST_FETCHED)):
            for piece in by_size(records, BATCH_BYTES, PIECE_ROWS):
                chunk = await encode(job, readable.rows(piece))
                pace.note(chunk, len(piece))
                await put(chunk)

    return backend


PARSED_BYTES = 512 * 1024
"""Of CSV that are parsed at once."""

_Sink = Callable[[bytes], Any]


def by_copy(job: StreamJob, statement: DriverStatement, driver: Any, prepared: Any) -> StreamBackend | None:
    """Stream with COPY, which needs no Python objects; None if the format, a type or a value does not allow it.

    Args:
        driver: asyncpg's connection, which `prepared` the statement.
    """
    converter = TextConverter(statement.dialect, driver.get_settings().DateStyle)
    if isinstance(job.writer, CSVWitness):
        job.writer.note_csv(_csv_oids(job, statement, converter, prepared))
        return None
    if isinstance(job.writer, DatabaseCSVWriter):
        to_text, backend = converter.for_csv, by_csv_copy
    elif isinstance(job.writer, BatchWriter):
        to_text, backend = converter.for_arrow, by_arrow_copy
    else:
        return None
    attributes = prepared.get_attributes()
    texts = job.writer.arrow.texts if isinstance(job.writer, BatchWriter) else ()
    expressions = [
        (converter.for_csv if number in texts else to_text)(job.columns[position], attributes[position].type)
        for number, position in enumerate(job.positions)
    ]
    plain = without_parameters(statement.sql, statement.parameters, prepared.get_parameters())
    if plain is None or not expressions or None in expressions:
        return None
    query = _outer_statement(plain, len(job.columns), job.positions, cast("list[str]", expressions))
    return backend(query, statement, prepared.get_parameters())


def _csv_oids(
    job: StreamJob, statement: DriverStatement, converter: TextConverter, prepared: Any
) -> list[int | None]:
    """The number of the type of each column that COPY would write as CSV; else None."""
    types = [attribute.type for attribute in prepared.get_attributes()]
    if without_parameters(statement.sql, statement.parameters, prepared.get_parameters()) is None:
        return [None] * len(types)
    return [
        type_.oid if converter.for_csv(column, type_) else None
        for column, type_ in zip(job.columns, types, strict=True)
    ]


def _outer_statement(sql: str, columns: int, positions: Sequence[int], expressions: Sequence[str]) -> str:
    """The outer statement of `sql`. It keeps the order of its subquery, because it only computes from its rows."""
    if list(positions) == list(range(columns)) and all(expression == "{c}" for expression in expressions):
        return sql
    outputs = [_of(expression, n) for n, expression in zip(positions, expressions, strict=True)]
    names = ", ".join(f"c{n}" for n in range(columns))
    return f"SELECT {', '.join(outputs)} FROM ({sql}) AS r({names})"


def by_csv_copy(query: str, statement: DriverStatement, types: Sequence[Any]) -> StreamBackend:
    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        writer = cast("DatabaseCSVWriter", job.writer)

        async def pass_on(lines: bytes) -> None:
            await put(writer.text(lines))

        await _copy(job, connection, query, pass_on, statement=statement, types=types)

    return backend


def by_arrow_copy(query: str, statement: DriverStatement, types: Sequence[Any]) -> StreamBackend:
    async def backend(job: StreamJob, connection: AsyncConnection, put: Put) -> None:
        parsing = _Parsing(job, put)
        try:
            await _copy(job, connection, query, parsing.take, statement=statement, types=types)
            await parsing.finish()
        finally:
            await parsing.settle()

    return backend


async def _copy(
    job: StreamJob,
    connection: AsyncConnection,
    query: str,
    sink: _Sink,
    *,
    statement: DriverStatement,
    types: Sequence[Any],
) -> None:
    driver, dialect = driver_of(connection), cast("Any", connection.dialect)
    # A stream has its own limits. With any number, asyncpg sets two timers for each piece.
    no_timeout = dialect.dbapi.asyncpg.protocol.NO_TIMEOUT
    # As parameters of a statement of their own: values are never written into SQL.
    if statement.parameters:
        await driver.fetch(setting_statement(types), *statement.parameters)
    taker = _Taker(sink)
    copying = asyncio.ensure_future(
        driver.copy_from_query(query, output=taker.take, format="csv", timeout=no_timeout)
    )
    try:
        either: set[asyncio.Future[Any]] = {copying, taker.refused}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if taker.refused.done():
            # The reader's error ends the stream; the database is stopped, or it would send the rest to nobody.
            await job.source.guard.stop(connection, copying)
            await asyncio.wait({copying})
            copying.exception()  # that it was cancelled
            taker.refused.result()
        await copying
    except asyncio.CancelledError:
        # The caller that cancels has already tried to stop the database.
        driver.terminate()
        raise


class _Taker:
    """Passes lines to a sink. After the sink raises, all further lines are accepted and dropped.

    Otherwise asyncpg would ask the server to cancel, and wait forever if the refused piece was the last one.
    """

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def take(self, lines: bytes) -> None:
        """Take some complete lines. Never raises."""
        if self.refused.done():
            return
        try:
            await self._sink(lines)
        # The backend raises it.
        except Exception as error:  # noqa: BLE001
            self.refused.set_exception(error)


class _Parsing:
    """Collects CSV while a thread parses the part before."""

    def __init__(self, job: StreamJob, put: Put) -> None:
        self._put = put
        self._parse = CSVParser(job).parse
        self._gathered: list[bytes] = []
        self._size = 0
        self._parsed: asyncio.Future[Chunk] | None = None

    async def take(self, lines: bytes) -> None:
        """Take some complete lines."""
        self._gathered.append(lines)
        self._size += len(lines)
        if self._size >= PARSED_BYTES:
            await self._go_on()

    async def finish(self) -> None:
        """Take the remaining lines."""
        if self._gathered:
            await self._go_on()
        await self._pass_on()

    async def settle(self) -> None:
        """Wait for the parsing thread, because the writer that it uses may be needed for a last record."""
        if self._parsed is not None:
            await asyncio.wait({self._parsed})

    async def _go_on(self) -> None:
        await self._pass_on()
        gathered, self._gathered, self._size = b"".join(self._gathered), [], 0
        self._parsed = asyncio.ensure_future(asyncio.to_thread(self._parse, gathered))

    async def _pass_on(self) -> None:
        if self._parsed is not None:
            parsed, self._parsed = self._parsed, None
            await self._put(await shielded(parsed))
