"""Spark's SQL for SQLAlchemy: types, compilers and reflection."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NoReturn

from sqlalchemy import URL, ColumnElement, Connection, func, text, type_coerce, types
from sqlalchemy.dialects import registry
from sqlalchemy.engine.default import DefaultDialect, DefaultExecutionContext
from sqlalchemy.exc import CompileError, DBAPIError, NoSuchTableError
from sqlalchemy.sql.compiler import GenericTypeCompiler, IdentifierPreparer, SQLCompiler
from sqlalchemy.sql.sqltypes import _AbstractInterval
from sqlalchemy.sql.type_api import NativeForEmulated

from dualsql.columns.exact import read_document
from dualsql.columns.own_types import stored_type
from dualsql.databases.guard import FailureKind
from dualsql.databases.spark.driver import SparkConnection, SparkError, literal
from dualsql.databases.spark.jobs import job_list
from dualsql.sqlalchemy_internals import limit_clause, offset_clause


class _Driver:
    """The names that SQLAlchemy uses of a module of PEP 249."""

    paramstyle = "pyformat"
    Error = SparkError


def as_json(element: ColumnElement[Any]) -> ColumnElement[str]:
    """An object that has the element as `v`: texts and numbers alone have no JSON form."""
    return func.to_json(func.named_struct(text("'v'"), element), _OPTIONS, type_=types.String())


class SparkJSON(types.JSON):
    """An array, map, struct or text with a document, as the document."""

    def column_expression(self, column: Any) -> Any:
        return type_coerce(as_json(column), self)

    def result_processor(self, dialect: Any, coltype: object) -> Callable[[Any], Any]:
        return _document


def _document(value: Any) -> Any:
    if value is None:
        return None
    value_text = read_document(value)["v"]
    return read_document(value_text) if isinstance(value_text, str) else value_text


_FRACTION = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_OPTIONS = func.map(
    *(
        text(literal(word))
        for word in (
            "ignoreNullFields", "false", "timestampFormat", f"{_FRACTION}XXX", "timestampNTZFormat", _FRACTION,
        )
    )
)  # fmt: skip
"""NULLs in structs are kept, and so are microseconds."""


class SparkArray(types.ARRAY[Any]):
    """An array as a list."""

    def column_expression(self, column: Any) -> Any:
        return type_coerce(as_json(column), self)

    def bind_processor(self, dialect: Any) -> None:
        return None

    def result_processor(self, dialect: Any, coltype: object) -> Callable[[Any], Any]:
        read_item = _item_reader(self.item_type)
        return lambda value: None if value is None else _each(_document(value), read_item)


def _each(values: Any, read_item: Callable[[Any], Any] | None) -> Any:
    if read_item is None or not isinstance(values, list):
        return values
    return [
        _each(one, read_item) if isinstance(one, list) else None if one is None else read_item(one)
        for one in values
    ]


def _item_reader(type_: Any) -> Callable[[Any], Any] | None:
    """How an item in JSON becomes a value of its type."""
    if isinstance(type_, types.DateTime):
        return datetime.fromisoformat
    if isinstance(type_, types.Date):
        return date.fromisoformat
    if isinstance(type_, types.Float):
        return float  # "NaN" and "Infinity" are texts in JSON
    if isinstance(type_, types.Numeric):
        return lambda number: Decimal(getattr(number, "text", None) or str(number))
    if isinstance(type_, types.LargeBinary):
        return b64decode
    return None


class SparkBinary(types.LargeBinary):
    """Bytes, as the driver takes and returns them."""

    def bind_processor(self, dialect: Any) -> None:
        return None

    def result_processor(self, dialect: Any, coltype: object) -> None:
        return None


class SparkDateTime(types.DateTime):
    """A TIMESTAMP, which is an instant, or a TIMESTAMP_NTZ. The session's zone is UTC."""

    def result_processor(self, dialect: Any, coltype: object) -> Callable[[Any], Any] | None:
        return _in_utc if self.timezone else None


def _in_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


class SparkInterval(NativeForEmulated, _AbstractInterval):
    """An INTERVAL DAY TO SECOND."""

    __visit_name__ = "spark_interval"

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **kw: Any) -> SparkInterval:  # noqa: ARG003
        return cls()


class _Everything:
    def __contains__(self, _: object) -> bool:
        return True


class _SparkPreparer(IdentifierPreparer):
    reserved_words: Any = _Everything()

    def __init__(self, dialect: Any, **options: Any) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`", **options)


class _SparkTypeCompiler(GenericTypeCompiler):
    def visit_INTEGER(self, type_: Any, **_: Any) -> str:  # noqa: N802 - SQLAlchemy's names
        return "INT"

    def visit_NUMERIC(self, type_: Any, **_: Any) -> str:  # noqa: N802
        # DECIMAL alone is DECIMAL(10, 0).
        precision, scale = (38, 18) if type_.precision is None else (type_.precision, 0)
        return f"DECIMAL({precision}, {scale if type_.scale is None else type_.scale})"

    visit_DECIMAL = visit_NUMERIC  # noqa: N815

    def visit_FLOAT(self, type_: Any, **_: Any) -> str:  # noqa: N802
        # A FLOAT of Spark has four bytes, as a REAL.
        return "DOUBLE"

    visit_DOUBLE = visit_DOUBLE_PRECISION = visit_FLOAT  # noqa: N815

    def visit_REAL(self, type_: Any, **_: Any) -> str:  # noqa: N802
        return "FLOAT"

    def visit_TEXT(self, type_: Any, **_: Any) -> str:  # noqa: N802
        return "STRING"

    visit_VARCHAR = visit_CHAR = visit_NVARCHAR = visit_NCHAR = visit_CLOB = visit_TEXT  # noqa: N815
    visit_JSON = visit_TEXT  # noqa: N815

    def visit_BLOB(self, type_: Any, **_: Any) -> str:  # noqa: N802
        return "BINARY"

    visit_BINARY = visit_VARBINARY = visit_BLOB  # noqa: N815

    def visit_DATETIME(self, type_: Any, **_: Any) -> str:  # noqa: N802
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    visit_TIMESTAMP = visit_DATETIME  # noqa: N815

    def visit_TIME(self, type_: Any, **_: Any) -> NoReturn:  # noqa: N802
        raise CompileError("Spark's Thrift server has no TIME")

    def visit_ARRAY(self, type_: Any, **_: Any) -> str:  # noqa: N802
        return f"ARRAY<{self.process(type_.item_type)}>"

    def visit_spark_interval(self, type_: Any, **_: Any) -> str:
        return "INTERVAL DAY TO SECOND"


class _SparkCompiler(SQLCompiler):
    def limit_clause(self, select: Any, **kw: Any) -> str:
        parts = {"LIMIT": limit_clause(select), "OFFSET": offset_clause(select)}
        return "".join(
            f"\n {word} {self.process(part, **kw)}" for word, part in parts.items() if part is not None
        )

    def visit_empty_set_expr(self, element_types: Any, **_: Any) -> str:
        return f"SELECT {', '.join('NULL' for _ in element_types or [None])} WHERE 1 != 1"

    def visit_floordiv_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        sides = [self.process(side, **kw) for side in (binary.left, binary.right)]
        if all(
            isinstance(stored_type(side.type, self.dialect), types.Integer)
            for side in (binary.left, binary.right)
        ):
            # A double has not all digits of a BIGINT.
            return "(" + " div ".join(sides) + ")"
        return "floor(" + " / ".join(sides) + ")"


_SIMPLE: Mapping[str, Callable[[], types.TypeEngine[Any]]] = {
    "boolean": types.Boolean,
    "tinyint": types.SmallInteger,
    "smallint": types.SmallInteger,
    "int": types.Integer,
    "bigint": types.BigInteger,
    "float": types.REAL,
    "double": types.Double,
    "string": types.String,
    "date": types.Date,
    "timestamp": lambda: types.DateTime(timezone=True),
    "timestamp_ntz": types.DateTime,
    "binary": types.LargeBinary,
    "interval day to second": types.Interval,
}
_SIZED = re.compile(r"(decimal|varchar|char)\((\d+)(?:,\s*(\d+))?\)", re.IGNORECASE)


def sqlalchemy_type(name: str) -> types.TypeEngine[Any]:
    """SQLAlchemy's type for Spark's name of one; NullType where its values cannot be read."""
    name = name.strip().lower()
    sized = _SIZED.fullmatch(name)
    if sized is not None:
        numbers: Any = [int(digits) for digits in sized.groups()[1:] if digits is not None]
        return types.Numeric(*numbers) if sized[1] == "decimal" else types.String(numbers[0])
    if name.startswith("array<"):
        items = sqlalchemy_type(name[6:-1])
        return types.NullType() if isinstance(items, types.NullType) else _array_of(items)
    if name.startswith(("map<", "struct<")):
        return types.JSON() if not _ODD.search(name) else types.NullType()
    return _SIMPLE.get(name, types.NullType)()


_ODD = re.compile(r"\b(variant|void|interval|geometry|geography|binary)\b")
"""Types whose values in a map or a struct have no JSON form."""


def _array_of(items: types.TypeEngine[Any]) -> types.TypeEngine[Any]:
    if isinstance(items, types.JSON | types.Interval):
        return types.JSON() if isinstance(items, types.JSON) else types.NullType()
    if isinstance(items, types.ARRAY):
        return types.JSON()
    return types.ARRAY(items)


class _SparkExecution(DefaultExecutionContext):
    def create_cursor(self) -> Any:
        self._is_server_side = False  # the cursor fetches in parts by itself
        return self._dbapi_connection.cursor(streams=bool(self.execution_options.get("stream_results")))


class SparkDialect(DefaultDialect):
    """`hive+pyhive://`, which dualsql makes of `hive://`. It does not write: it has no DDL, and refuses statements
    that do not read on engines that dualsql made."""

    name = "hive"
    driver = "pyhive"
    execution_ctx_cls = _SparkExecution
    statement_compiler = _SparkCompiler
    type_compiler_cls = _SparkTypeCompiler
    preparer: Any = _SparkPreparer
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_alter = False
    max_identifier_length = 255
    div_is_floordiv = False
    returns_native_bytes = True
    only_reads = False
    colspecs = {  # noqa: RUF012 - as SQLAlchemy's dialects have it
        types.JSON: SparkJSON,
        types.ARRAY: SparkArray,
        types.LargeBinary: SparkBinary,
        types.DateTime: SparkDateTime,
        types.Interval: SparkInterval,
    }

    @classmethod
    def import_dbapi(cls) -> Any:
        import pyhive.hive  # noqa: F401 - an ImportError names what is missing

        return _Driver

    def create_connect_args(self, url: URL) -> Any:
        arguments: dict[str, Any] = {
            "host": url.host or "127.0.0.1",
            "port": url.port or 10_000,
            "username": url.username,
            "database": url.database or "default",
            **url.query,
        }
        if url.password is not None:
            arguments = {"auth": "LDAP", **arguments, "password": url.password}
        if "ui" in arguments:
            arguments["ui"] = job_list(str(arguments["ui"]))
        return [], arguments

    def connect(self, *_: Any, **options: Any) -> Any:
        return SparkConnection(options, only_reads=self.only_reads)

    def do_ping(self, dbapi_connection: Any) -> bool:
        dbapi_connection.ping()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, SparkError) and e.kind in (FailureKind.BROKEN, FailureKind.UNREACHABLE)

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        version = str(connection.exec_driver_sql("SELECT version()").scalar_one())
        return tuple(int(part) for part in re.findall(r"\d+", version.partition(" ")[0])[:3])

    def _get_default_schema_name(self, connection: Connection) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar_one())

    # Reflection

    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        return [row[0] for row in connection.exec_driver_sql("SHOW SCHEMAS")]

    def get_table_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        views = set(self.get_view_names(connection, schema))
        return [name for name in self._list(connection, "TABLES", schema) if name not in views]

    def get_view_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        return self._list(connection, "VIEWS", schema)

    def _list(self, connection: Connection, what: str, schema: str | None) -> list[str]:
        clause = "" if schema is None else f" IN {self._quote(schema)}"
        # Namespace, name and whether it is of this session only.
        return [row[1] for row in connection.exec_driver_sql(f"SHOW {what}{clause}") if not row[2]]

    def _quote(self, name: str) -> str:
        return self.identifier_preparer.quote_identifier(name).replace("%", "%%")

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> bool:
        try:
            self.get_columns(connection, table_name, schema)
        except NoSuchTableError:
            return False
        return True

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        table = ".".join(self._quote(part) for part in (schema, table_name) if part is not None)
        try:
            rows = connection.exec_driver_sql(f"DESCRIBE TABLE {table}").all()
        except DBAPIError as error:
            if getattr(error.orig, "state", "") == _NO_TABLE:
                raise NoSuchTableError(table_name) from error
            raise
        columns = []
        for name, kind, comment in rows:
            if not name or name.startswith("# "):
                break  # partitions and other details, whose columns were listed already
            columns.append(
                {
                    "name": name,
                    "type": sqlalchemy_type(kind),
                    "nullable": True,
                    "default": None,
                    "comment": comment,
                }
            )
        return columns

    def get_pk_constraint(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> list[Any]:
        return []

    get_indexes = get_unique_constraints = get_check_constraints = get_foreign_keys

    def get_table_comment(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> Any:
        return {"text": None}


_NO_TABLE = "42P01"

registry.register("hive.pyhive", __name__, SparkDialect.__name__)
