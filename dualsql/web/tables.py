"""Tables on the pages: their rows as a result, and how many they have; and the SQL of a result."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
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
_CLAUSES = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|[()]|\s+(?P<clause>GROUP BY|HAVING|ORDER BY|LIMIT)\s"""
)
"""What a clause may not be in, and the clauses that SQLAlchemy leaves on the line of the one before."""


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
    view = server.features.get(Tables).catalogue().view_for(principal)
    address = catalogue_address(view, uri)
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
            return in_lines(str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True})))
    # The values of an IN are placeholders of the compiler until then.
    return in_lines(str(statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})))


def in_lines(sql: str) -> str:
    """SQL with a line for each clause of the whole statement: SQLAlchemy breaks lines before FROM and WHERE alone."""
    depth = 0

    def on_own_line(match: re.Match[str]) -> str:
        nonlocal depth
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        return f"\n{match['clause']} " if match["clause"] and not depth else match[0]

    return _CLAUSES.sub(on_own_line, sql)


def catalogue_address(view: CatalogueView, uri: str) -> Address:
    """The address of a table that the caller sees; raises BadParameterError for another URI."""
    address = view.catalogue.addressing.read(uri)
    if address is None or address not in view.tables:
        raise BadParameterError("There is no such table.", hint="Open the home page again.")
    return address


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
