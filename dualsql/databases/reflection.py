"""Reads the tables of a database with SQLAlchemy's inspector."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Connection,
    ForeignKeyConstraint,
    Inspector,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    inspect,
    select,
)
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.exc import DBAPIError, SAWarning, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import NULLTYPE, Double, Float, NullType, Numeric, TypeEngine

from dualsql.databases.guard import TableName
from dualsql.databases.session import DatabaseErrors, in_session
from dualsql.databases.source import Source
from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.freeze.row_number import ROW_NUMBER_OF
from dualsql.freeze.types import is_safe
from dualsql.settings import TABLE_PREFIX
from dualsql.sqlalchemy_dialects import DOMAIN


class TableDescription(NamedTuple):
    """The inspector's description of one table."""

    columns: Sequence[Any]
    key: Any
    references: Sequence[Any]
    comment: str | None


def qualified_name(table_name: TableName) -> str:
    """The name with its schema."""
    schema, name = table_name
    return name if schema is None else f"{schema}.{name}"


def without_unknown_types(
    described: Mapping[TableName, TableDescription],
) -> tuple[dict[TableName, TableDescription], list[str]]:
    """The descriptions without columns of types that cannot be read, and the names of these columns."""
    readable: dict[TableName, TableDescription] = {}
    unknown: list[str] = []
    for table_name, description in described.items():
        columns = [column for column in description.columns if _readable_type(column["type"]) is not NULLTYPE]
        names = {column["name"] for column in description.columns} - {column["name"] for column in columns}
        unknown += [f"{qualified_name(table_name)}.{name}" for name in sorted(names)]
        if columns:
            readable[table_name] = description._replace(columns=columns)
    return readable, unknown


def new_tables(
    described: Mapping[TableName, TableDescription], *, views: Collection[TableName]
) -> dict[TableName, Table]:
    """A Table for each description, with foreign keys only among them."""
    metadata = MetaData()
    tables = {
        table_name: _new_table(metadata, table_name, description, is_view=table_name in views)
        for table_name, description in described.items()
    }
    for (schema, name), description in described.items():
        for reference in description.references:
            _relate(tables, (schema, name), reference)
    return tables


def _new_table(
    metadata: MetaData, table_name: TableName, description: TableDescription, *, is_view: bool
) -> Table:
    columns = [
        Column(
            column["name"],
            _readable_type(column["type"]),
            nullable=column.get("nullable", True),
            comment=column.get("comment"),
        )
        for column in description.columns
    ]
    table = Table(
        table_name[1],
        metadata,
        *columns,
        schema=table_name[0],
        comment=description.comment,
        info={"is_view": True} if is_view else {},
    )
    key = (description.key or {}).get("constrained_columns") or []
    if key and all(name in table.c for name in key):
        table.append_constraint(PrimaryKeyConstraint(*(table.c[name] for name in key)))
    return table


def _readable_type(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    if isinstance(type_, NullType) or (isinstance(type_, ARRAY) and isinstance(type_.item_type, NullType)):
        return NULLTYPE
    if isinstance(type_, Float) and type_.asdecimal:
        return Double()  # MySQL's dialects would cut its digits at the tenth
    if isinstance(type_, DOMAIN):
        return _readable_type(type_.data_type)
    if is_safe(type_):
        return type_
    try:
        generic = type_.as_generic()
    except NotImplementedError:
        return NULLTYPE
    return generic if is_safe(generic) else NULLTYPE


def _relate(tables: Mapping[TableName, Table], table_name: TableName, reference: Mapping[str, Any]) -> None:
    """Add a foreign key if its target is among the tables."""
    table = tables[table_name]
    schema, name = reference["referred_schema"], reference["referred_table"]
    other = tables.get((schema, name))
    if other is None:
        other = tables.get((table_name[0], name)) if schema is None else None
    near, far = reference["constrained_columns"], reference["referred_columns"]
    if other is None or not all(column in other.c for column in far) or not all(c in table.c for c in near):
        return
    table.append_constraint(ForeignKeyConstraint(near, [other.c[column] for column in far]))


MOST_TABLES = 1_000
"""Tables and views that one selection may come to."""

_TIMEOUT = timedelta(minutes=1)
_LISTED = 40
_MOST_SCHEMAS = 50
"""Schemas in which a name without one is looked for, for a suggestion."""
_TRIED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A selection of tables and views: those of one schema, the named ones, or all.

    Attributes:
        tables: each as "name" or "schema.name".
        row_number: the column that numbers the rows of each table and view, which is their key; `*` is the others.

    Raises:
        ConfigurationError: none of the three is given, or several.
    """

    schema: str | None = None
    tables: Sequence[str] = ()
    everything: bool = False
    row_number: str | None = None

    def __post_init__(self) -> None:
        choices = {
            "--schema": self.schema is not None,
            "--tables": bool(self.tables),
            "--all": self.everything,
        }
        flags = [flag for flag, is_given in choices.items() if is_given]
        if not flags:
            raise ConfigurationError(
                "The tables to serve must be selected.", hint="Give --schema, --tables or --all."
            )
        if len(flags) > 1:
            raise ConfigurationError(
                f"{' and '.join(flags)} cannot be combined: each selects the tables to serve.",
                hint="Give one of them.",
            )


class ReflectedTables(NamedTuple):
    """The result of reflection.

    Attributes:
        metadata: the tables; a view has `info["is_view"]` and no key.
        left_out: the names of tables that cannot be read, and of columns with an unknown type.
    """

    metadata: MetaData
    left_out: Sequence[str]


async def reflect(source: Source, selection: Selection) -> ReflectedTables:
    """Reflect the selected tables of `source`, as its user sees them.

    They have columns with types, keys and comments. A driver's own types become the nearest type of SQLAlchemy.
    Defaults, checks and indexes are left out, because they are SQL texts of the tables' authors.

    Raises:
        ConfigurationError: a table or schema does not exist, no table can be read, or there are too many.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the database is out of reach, or failed.
    """
    run = partial(_run, source)
    with DatabaseErrors(source, limit=_TIMEOUT):
        selected = await run(partial(_select, selection, has_schemas=source.capabilities.has_schemas))
        described, unknown = await _describe_all(run, selected), list[str]()
        if not source.capabilities.has_loose_types:
            described, unknown = without_unknown_types(described)
        if selection.row_number is not None:
            described = {
                table_name: _with_row_number(description, selection.row_number)
                for table_name, description in described.items()
            }
        tables = new_tables(
            described, views={table_name for table_name, is_view in selected.items() if is_view}
        )
        for table in tables.values() if selection.row_number is not None else ():
            table.info[ROW_NUMBER_OF] = selection.row_number
        await _note_full_keys(source, tables)
        if source.capabilities.has_loose_types:
            readable = await run(partial(_loosen_all, tables))
        else:
            readable = await _readable(run, tables)
    if not readable:
        raise ConfigurationError(
            "The database user cannot read any of the tables.",
            hint="GRANT SELECT on the tables to that user.",
        )
    metadata = MetaData()
    for table in readable.values():
        table.to_metadata(metadata)
    unreadable = [qualified_name(table_name) for table_name in selected.keys() - readable.keys()]
    return ReflectedTables(metadata, sorted([*unreadable, *unknown]))


def _with_row_number(description: TableDescription, name: str) -> TableDescription:
    number = {"name": name, "type": BigInteger(), "nullable": False, "comment": _ROW_NUMBER_COMMENT}
    columns = [column for column in description.columns if column["name"] != name]
    return description._replace(columns=[*columns, number], key={"constrained_columns": [name]})


async def _note_full_keys(source: Source, tables: Mapping[TableName, Table]) -> None:
    """Note that a key of SQLite is never NULL, of which its driver tells only what the columns declare."""
    numbered = await in_session(source, None, source.guard.row_numbers, timeout=_TIMEOUT)
    # None at all: it is another database, or a SQLite that does not tell.
    for name in tables.keys() - numbered.keys() if numbered else ():
        for column in tables[name].primary_key:
            column.nullable = False


_ROW_NUMBER_COMMENT = "The position of the row in its file, from 0. SELECT * leaves it out: name it."

Run = Callable[..., Any]


async def _run(source: Source, work: Callable[[Connection], Any]) -> Any:
    async def working(connection: AsyncConnection) -> Any:
        return await connection.run_sync(work)

    with warnings.catch_warnings():
        # SQLAlchemy warns of unknown types, which are handled here.
        warnings.simplefilter("ignore", SAWarning)
        try:
            return await in_session(source, None, working, timeout=_TIMEOUT)
        except DualResponseError as error:
            if isinstance(error.__cause__, SQLAlchemyError):  # perhaps of one table, which is left out
                raise error.__cause__ from None
            raise


def _select(selection: Selection, connection: Connection, *, has_schemas: bool) -> dict[TableName, bool]:
    """Name and schema of each selected table, and whether it is a view."""
    inspector = inspect(connection)
    if selection.tables:
        selected = _with_names(inspector, selection.tables)
    elif selection.schema is not None:
        selected = _in_schema(inspector, _existing(inspector, selection.schema))
    else:
        selected = {}
        for schema in _schemas(inspector) if has_schemas else [None]:
            selected |= _in_schema(inspector, schema)
    if not selected:
        if any(map(_is_own, inspector.get_table_names(selection.schema))):
            raise ConfigurationError(
                f"The database has only tables whose names begin with {TABLE_PREFIX}, which are not served: "
                "results may be stored in them.",
                hint="Rename your tables, or select others with --schema.",
            )
        raise ConfigurationError(
            "The database user sees no tables.",
            hint="Check the database name (or the file's path) in the URL, the schema, and the rights of the user.",
        )
    if len(selected) > MOST_TABLES:
        raise ConfigurationError(
            f"The database has {len(selected):,} tables; at most {MOST_TABLES:,} can be served.",
            hint="Select some with --schema or --tables.",
        )
    return selected


def _in_schema(inspector: Inspector, schema: str | None) -> dict[TableName, bool]:
    tables = inspector.get_table_names(schema)
    views = [*inspector.get_view_names(schema), *_materialized_views(inspector, schema)]
    names = {**dict.fromkeys(tables, False), **dict.fromkeys(views, True)}
    # If results are stored in the same database, SQL must not read them.
    return {(schema, name): is_view for name, is_view in names.items() if not _is_own(name)}


def _is_own(name: str) -> bool:
    return name.lower().startswith(TABLE_PREFIX)


def _materialized_views(inspector: Inspector, schema: str | None) -> list[str]:
    try:
        return inspector.get_materialized_view_names(schema)
    except NotImplementedError:
        return []


def _schemas(inspector: Inspector) -> list[str | None]:
    """The schemas: None for the default one, so that its tables need no schema; then the others."""
    own = {inspector.default_schema_name, "information_schema"}
    return [None, *(name for name in inspector.get_schema_names() if name not in own)]


def _existing(inspector: Inspector, schema: str) -> str:
    schemas = inspector.get_schema_names()
    if schema not in schemas:
        _refuse("schema", schema, schemas)
    return schema


def _with_names(inspector: Inspector, names: Sequence[str]) -> dict[TableName, bool]:
    listed: dict[str | None, dict[TableName, bool]] = {}
    selected: dict[TableName, bool] = {}
    for name in names:
        prefix, _, bare = name.rpartition(".")
        schema = _existing(inspector, prefix) if prefix else None
        if schema not in listed:
            listed[schema] = _in_schema(inspector, schema)
        if (schema, bare) not in listed[schema]:
            places = [schema] if prefix else _schemas(inspector)[:_MOST_SCHEMAS]
            tables = [table for place in places for table in _in_schema(inspector, place)]
            _refuse("table", name, list(map(qualified_name, tables)))
        selected[schema, bare] = listed[schema][schema, bare]
    return selected


def _refuse(what: str, name: str, names: Collection[str]) -> None:
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    listed = ", ".join(sorted(names)[:_LISTED]) or "none"
    raise ConfigurationError(
        f"The database has no {what} {name[:60]!r}.",
        hint=f"Did you mean {' or '.join(close)}?" if close else f"It has: {listed}.",
    )


async def _describe_all(run: Run, selected: Mapping[TableName, bool]) -> dict[TableName, TableDescription]:
    """Describe all tables at once; if one of them fails, each separately."""
    try:
        descriptions: dict[TableName, TableDescription] = await run(partial(_describe, list(selected)))
    except SQLAlchemyError:
        descriptions = {}
        for table_name in selected:
            try:
                descriptions |= await run(partial(_describe, [table_name]))
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise
            except SQLAlchemyError:
                continue
    return descriptions


def _describe(table_names: Sequence[TableName], connection: Connection) -> dict[TableName, TableDescription]:
    inspector = inspect(connection)
    descriptions: dict[TableName, TableDescription] = {}
    for schema in dict.fromkeys(schema for schema, _ in table_names):
        names = [name for schema_of_table, name in table_names if schema_of_table == schema]
        filters: Any = {"schema": schema, "filter_names": names, "kind": ObjectKind.ANY}
        # On PostgreSQL, one query for all tables, where get_columns() takes one for each.
        columns = inspector.get_multi_columns(**filters)
        keys = inspector.get_multi_pk_constraint(**filters)
        references = inspector.get_multi_foreign_keys(**filters)
        comments: Any = (
            inspector.get_multi_table_comment(**filters) if connection.dialect.supports_comments else {}
        )
        for name in names:
            at: Any = (schema, name)
            if columns.get(at):
                descriptions[at] = TableDescription(
                    columns[at], keys.get(at), references.get(at, []), (comments.get(at) or {}).get("text")
                )
    return descriptions


async def _readable(run: Run, tables: Mapping[TableName, Table]) -> dict[TableName, Table]:
    """The tables from which the user may select."""
    readable: dict[TableName, Table] = {}
    rest = dict(tables)
    while rest:
        # A statement that fails may end its transaction: the next ones need another.
        passed: set[TableName] = await run(partial(_read, rest))
        readable |= {table_name: rest.pop(table_name) for table_name in list(rest) if table_name in passed}
        if rest:
            # The first one left is the one that failed.
            rest.pop(next(iter(rest)))
    return readable


def _read(tables: Mapping[TableName, Table], connection: Connection) -> set[TableName]:
    passed: set[TableName] = set()
    for table_name, table in tables.items():
        try:
            # It checks the right to each column, and reads no row.
            connection.execute(select(table).limit(0)).close()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            break
        passed.add(table_name)
    return passed


def _loosen_all(tables: Mapping[TableName, Table], connection: Connection) -> dict[TableName, Table]:
    """The tables that can be read, without the types of columns whose first rows do not fit them.

    Otherwise the rows of these columns could not be read. The first rows also show whether the table can be.
    """
    readable: dict[TableName, Table] = {}
    for table_name, table in tables.items():
        try:
            _loosen(table, connection)
        except DBAPIError as error:
            if error.connection_invalidated or _read({table_name: table}, connection):
                raise
            continue
        readable[table_name] = table
    return readable


def _loosen(table: Table, connection: Connection) -> None:
    for column in table.c:
        if isinstance(column.type, Numeric) and column.type.scale is None:
            column.type = Double()  # as it is stored; a decimal would be cut at its tenth digit
    if _fits(connection, *table.c):
        return
    for column in table.c:
        if not _fits(connection, column):
            column.type = NULLTYPE


def _fits(connection: Connection, *columns: Column[Any]) -> bool:
    try:
        connection.execute(select(*columns).limit(_TRIED)).all()
    except DBAPIError:
        raise
    # Whatever the type's own processor makes of a value that it does not expect.
    except Exception:  # noqa: BLE001
        return False
    return True
