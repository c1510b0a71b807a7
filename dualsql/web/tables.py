"""Tables on the pages: their rows as a result, and the columns of a result that refer to a row of another table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, FromClause, select
from sqlalchemy.exc import CompileError

from dualsql.catalogue.addresses import Address
from dualsql.catalogue.catalogue import CatalogueView
from dualsql.catalogue.feature import Tables
from dualsql.errors import BadParameterError, DualResponseError
from dualsql.resource import CountMethod, Principal, Resource
from dualsql.sql.feature import SQL
from dualsql.sql.service import ResolvedQuery
from dualsql.web.words import total_in_words

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_MOST_COUNTED = 100
"""Tables that are counted."""
_SECONDS = 3
"""After which no further table is counted."""
MOST_LABELS = 100
"""Rows whose names one request looks up."""
_LABELS = frozenset({"name", "title"})


async def rows_of_table(
    server: ResultServer, principal: Principal | None, uri: str, column: str = "", value: str = ""
) -> ResolvedQuery:
    """The Select of a table that the caller sees: all rows, or those with a value in a column.

    Args:
        uri: of the table in the catalogue.
        value: as JSON.

    Raises:
        BadParameterError: the caller sees no such table, it has no such column, or the value is no JSON.
    """
    view, address = _table_at(server, principal, uri)
    texts = server.features.get(SQL).service
    quote = server.parts.sources[address.source].engine.dialect.identifier_preparer.quote
    text = f"SELECT * FROM {view.catalogue.facts(address.source, view.tables[address]).sql_name}"  # noqa: S608 - a quoted name
    parameters: dict[str, Any] = {}
    if column:
        text += f" WHERE {quote(column)} = :value"
        try:
            parameters["value"] = json.loads(value)
        except ValueError:
            raise BadParameterError("The value is no JSON.") from None
    return await texts.read(text, parameters=parameters, source=address.source, principal=principal)


def sql_of(server: ResultServer, resource: Resource, *, has_values: bool) -> str:
    """The SQL of a stored statement for its database, without rules.

    Args:
        has_values: with its values, where each of them can be written as SQL; else with placeholders for them.
    """
    source = server.parts.sources[resource.source]
    statement, dialect = source.thaw(resource.document), source.engine.dialect
    if has_values:
        with suppress(CompileError, NotImplementedError):
            return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    # The values of an IN are placeholders of the compiler until then.
    return str(statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True}))


def references(server: ResultServer, resource: Resource, principal: Principal | None) -> Mapping[str, Any]:
    """The columns of a result that hold keys of tables that the caller sees: name -> uri, table and column."""
    view = server.features.get(Tables).catalogue().view_for(principal)
    live = server.parts.views.live(resource, principal)
    return {
        column.name: target
        for column in live.shape.columns
        if (target := _target(column.expression, view, live.source.name)) is not None
    }


def _target(element: Any, view: CatalogueView, source: str) -> Mapping[str, Any] | None:
    """The table that a plain column refers to; None for any other expression."""
    origins: Sequence[Any] = [*getattr(element, "base_columns", ())]
    if len(origins) != 1 or not isinstance(origins[0], Column):
        return None
    for key in sorted(origins[0].foreign_keys, key=lambda key: str(key.target_fullname)):
        table = view.catalogue.placed_table(key.column.table)
        if table is not None and table.at(source) in view.tables:
            uri = view.catalogue.addressing.write(table.at(source))
            label = label_column(key.column.table, str(key.column.name))
            return {
                "uri": uri,
                "table": table.name,
                "column": str(key.column.name),
                "has_labels": label is not None,
            }
    return None


def label_column(table: FromClause, key: str) -> str | None:
    """The column that names a row to a person: `name` or `title`, or the only one beside the key."""
    names = [str(column.name) for column in table.columns if column.name != key]
    named = [name for name in names if name.lower() in _LABELS]
    return named[0] if named else names[0] if len(names) == 1 else None


async def row_labels(
    server: ResultServer, principal: Principal | None, uri: str, column: str, values: Sequence[Any]
) -> Sequence[Sequence[Any]]:
    """The names of rows of a table that the caller sees, each as its key and its name; empty where none can be read.

    Args:
        uri: of the table in the catalogue.
        values: keys, of which the first ones are looked up.

    Raises:
        BadParameterError: the caller sees no such table.
    """
    view, address = _table_at(server, principal, uri)
    label = label_column(view.tables[address].table, column)
    source = server.parts.sources[address.source]
    if label is None or not values:
        return []
    quote = source.engine.dialect.identifier_preparer.quote
    parameters = {f"value_{number}": value for number, value in enumerate(values[:MOST_LABELS])}
    name = view.catalogue.facts(address.source, view.tables[address]).sql_name
    among = ", ".join(f":{each}" for each in parameters)
    names = f"{quote(column)} AS row_key, {quote(label)} AS row_label"
    text = f"SELECT {names} FROM {name} WHERE {quote(column)} IN ({among})"  # noqa: S608 - quoted names
    with suppress(DualResponseError):  # the rows are there without it
        query = await server.features.get(SQL).service.read(
            text, parameters=parameters, source=address.source, principal=principal
        )
        opened = server.parts.views.open(source, source.freeze(query.select), principal)
        sample = await opened.sample(len(parameters), CountMethod("auto"))
        return [[row["row_key"], row["row_label"]] for row in opened.records(sample.rows)]
    return []


def _table_at(server: ResultServer, principal: Principal | None, uri: str) -> tuple[CatalogueView, Address]:
    view = server.features.get(Tables).catalogue().view_for(principal)
    address = view.catalogue.addressing.read(uri)
    if address is None or address not in view.tables:
        raise BadParameterError("There is no such table.", hint="Open the home page again.")
    return view, address


async def table_counts(server: ResultServer, principal: Principal | None) -> Mapping[str, str]:
    """How many rows the caller sees of the first tables, by their URIs; without those for which the time ran out."""
    view = server.features.get(Tables).catalogue().view_for(principal)
    ends_at, counts = time.monotonic() + _SECONDS, {}
    for address in sorted(view.tables, key=lambda address: view.tables[address].name.lower())[:_MOST_COUNTED]:
        if time.monotonic() > ends_at:
            break
        source = server.parts.sources[address.source]
        with suppress(DualResponseError):  # a view that fails is found out by who opens it
            document = source.freeze(select(view.tables[address].table))
            total = await server.parts.views.open(source, document, principal).total(CountMethod("auto"))
            if total.rows is not None:
                counts[view.catalogue.addressing.write(address)] = total_in_words(total.rows, total.kind)
    return counts
