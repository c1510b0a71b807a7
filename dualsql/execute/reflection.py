"""What tables a database has, asked of the database itself; the rule: only what was chosen, and what can be read.

What comes out is plain: columns with types, keys and comments. Defaults, checks and indexes are SQL texts of
whoever made the tables, and stay behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Inspector, MetaData, Table, inspect, select
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.exc import DBAPIError, SAWarning, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import NULLTYPE, Double, Numeric

from dualsql.errors import ConfigurationError
from dualsql.execute.failures import database_errors
from dualsql.execute.reflected import Description, Place, made_tables, without_strangers, written
from dualsql.execute.running import in_session
from dualsql.execute.source import Source
from dualsql.settings import TABLE_PREFIX

MOST_TABLES = 1_000
"""Tables and views that one selection may come to."""

_TIMEOUT = timedelta(minutes=1)
_LISTED = 40
_TRIED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which tables and views: those of one schema, those that are named, or all there are.

    Attributes:
        tables: each as "name" or "schema.name".

    Raises:
        ConfigurationError: it is none of the three, or several.
    """

    schema: str | None = None
    tables: Sequence[str] = ()
    everything: bool = False

    def __post_init__(self) -> None:
        if [self.schema is not None, bool(self.tables), self.everything].count(True) != 1:
            raise ConfigurationError(
                "Which tables are to be served?", hint="Give exactly one of --schema, --tables and --all."
            )


class Reflected(NamedTuple):
    """What was found.

    Attributes:
        metadata: the tables; a view has `info["is_view"]`, and no key.
        left_out: names of tables that cannot be read, by this user or by anyone, and of columns whose type is unknown.
    """

    metadata: MetaData
    left_out: Sequence[str]


async def reflect(source: Source, selection: Selection, *, timeout: timedelta = _TIMEOUT) -> Reflected:
    """The chosen tables of `source`, as its own user sees them.

    Raises:
        ConfigurationError: a table or schema is not there, nothing can be read, or there are too many.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the database is out of reach, or failed.
    """
    run = partial(_run, source, timeout=timeout)
    with database_errors(source, limit=timeout):
        chosen = await run(partial(_chosen, selection, has_schemas=source.capabilities.has_schemas))
        described, strangers = await _described(run, chosen), list[str]()
        if not source.capabilities.has_loose_types:
            described, strangers = without_strangers(described)
        tables = made_tables(described, views={place for place, is_view in chosen.items() if is_view})
        readable = await _readable(run, tables)
        if source.capabilities.has_loose_types:
            await run(partial(_loosen, list(readable.values())))
    if not readable:
        raise ConfigurationError(
            "None of the tables can be read.", hint="GRANT SELECT on them to the database's user."
        )
    metadata = MetaData()
    for table in readable.values():
        table.to_metadata(metadata)
    unreadable = [written(place) for place in chosen.keys() - readable.keys()]
    return Reflected(metadata, sorted([*unreadable, *strangers]))


Run = Callable[..., Any]


async def _run(source: Source, work: Callable[[Connection], Any], *, timeout: timedelta) -> Any:
    async def working(connection: AsyncConnection) -> Any:
        return await connection.run_sync(work)

    with warnings.catch_warnings():
        # Types that SQLAlchemy does not know are a matter of course here.
        warnings.simplefilter("ignore", SAWarning)
        return await in_session(source, None, working, timeout=timeout)


# --- which ---------------------------------------------------------------------------------------------------------


def _chosen(selection: Selection, connection: Connection, *, has_schemas: bool) -> dict[Place, bool]:
    """Name and schema of every chosen table, and whether it is a view."""
    inspector = inspect(connection)
    if selection.tables:
        found = _named(inspector, selection.tables)
    elif selection.schema is not None:
        found = _in_schema(inspector, _existing(inspector, selection.schema))
    else:
        found = {}
        for schema in _schemas(inspector) if has_schemas else [None]:
            found |= _in_schema(inspector, schema)
    if not found:
        raise ConfigurationError(
            "There are no tables.", hint="Check the schema, and what the database's user may see."
        )
    if len(found) > MOST_TABLES:
        raise ConfigurationError(
            f"{len(found):,} tables are more than {MOST_TABLES:,}.", hint="Choose with --schema or --tables."
        )
    return found


def _in_schema(inspector: Inspector, schema: str | None) -> dict[Place, bool]:
    tables = inspector.get_table_names(schema)
    views = [*inspector.get_view_names(schema), *_materialized(inspector, schema)]
    found = {**dict.fromkeys(tables, False), **dict.fromkeys(views, True)}
    # Where results are kept beside the data, nobody may ask for them with SQL.
    return {(schema, name): view for name, view in found.items() if not name.lower().startswith(TABLE_PREFIX)}


def _materialized(inspector: Inspector, schema: str | None) -> list[str]:
    try:
        return inspector.get_materialized_view_names(schema)
    except NotImplementedError:
        return []


def _schemas(inspector: Inspector) -> list[str | None]:
    """The default one without its name, so that its tables need none; then the others."""
    own = {inspector.default_schema_name, "information_schema"}
    return [None, *(name for name in inspector.get_schema_names() if name not in own)]


def _existing(inspector: Inspector, schema: str) -> str:
    known = inspector.get_schema_names()
    if schema not in known:
        _refuse("schema", schema, known)
    return schema


def _named(inspector: Inspector, names: Sequence[str]) -> dict[Place, bool]:
    listed: dict[str | None, dict[Place, bool]] = {}
    found: dict[Place, bool] = {}
    for name in names:
        schema, _, bare = name.rpartition(".")
        place: Place = (_existing(inspector, schema) if schema else None, bare)
        if place[0] not in listed:
            listed[place[0]] = _in_schema(inspector, place[0])
        if place not in listed[place[0]]:
            _refuse("table", name, [written(known) for known in listed[place[0]]])
        found[place] = listed[place[0]][place]
    return found


def _refuse(what: str, name: str, known: Collection[str]) -> None:
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    listed = ", ".join(sorted(known)[:_LISTED]) or "none"
    raise ConfigurationError(
        f"There is no {what} {name[:60]!r}.",
        hint=f"Did you mean {' or '.join(close)}?" if close else f"There are: {listed}.",
    )


# --- what they are -------------------------------------------------------------------------------------------------


async def _described(run: Run, chosen: Mapping[Place, bool]) -> dict[Place, Description]:
    """All at once; and should one of them be broken, each by itself."""
    try:
        found: dict[Place, Description] = await run(partial(_describe, list(chosen)))
    except SQLAlchemyError:
        found = {}
        for place in chosen:
            try:
                found |= await run(partial(_describe, [place]))
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise
            except SQLAlchemyError:
                continue
    return found


def _describe(places: Sequence[Place], connection: Connection) -> dict[Place, Description]:
    inspector = inspect(connection)
    found: dict[Place, Description] = {}
    for schema in dict.fromkeys(schema for schema, _ in places):
        names = [name for known, name in places if known == schema]
        asked: Any = {"schema": schema, "filter_names": names, "kind": ObjectKind.ANY}
        columns = inspector.get_multi_columns(**asked)
        keys = inspector.get_multi_pk_constraint(**asked)
        references = inspector.get_multi_foreign_keys(**asked)
        comments: Any = (
            inspector.get_multi_table_comment(**asked) if connection.dialect.supports_comments else {}
        )
        for name in names:
            at: Any = (schema, name)
            if columns.get(at):
                found[at] = Description(
                    columns[at], keys.get(at), references.get(at, []), (comments.get(at) or {}).get("text")
                )
    return found


# --- whether they can be read --------------------------------------------------------------------------------------


async def _readable(run: Run, tables: Mapping[Place, Table]) -> dict[Place, Table]:
    """Those of which the database gives no rows rather than an error."""
    readable: dict[Place, Table] = {}
    rest = dict(tables)
    while rest:
        # A statement that fails may end its transaction: the next ones need another.
        passed: set[Place] = await run(partial(_read, rest))
        readable |= {place: rest.pop(place) for place in list(rest) if place in passed}
        if rest:
            rest.pop(next(iter(rest)))
    return readable


def _read(tables: Mapping[Place, Table], connection: Connection) -> set[Place]:
    passed: set[Place] = set()
    for place, table in tables.items():
        try:
            connection.execute(select(table).limit(0)).close()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            break
        passed.add(place)
    return passed


# --- whether their types can be believed ---------------------------------------------------------------------------


def _loosen(tables: Sequence[Table], connection: Connection) -> None:
    """Take the type of columns whose first rows are of another one: else no row with them could be read."""
    for table in tables:
        for column in table.c:
            if isinstance(column.type, Numeric) and column.type.scale is None:
                column.type = Double()  # as it is stored; a decimal would be cut at its tenth digit
        if _fits(connection, *table.c):
            continue
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
