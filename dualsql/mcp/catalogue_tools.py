"""Tools that look into the catalogue; the rule: they return names and types, never a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from dualsql.catalogue import Catalogue, paged
from dualsql.catalogue.definitions import Listed, listed, table_definition
from dualsql.catalogue.describing import TableDefinition
from dualsql.catalogue.finding import Found, find_table, search_all, tables_of
from dualsql.catalogue.searching import LONGEST_TERM, MOST_MATCHES, MOST_TERMS, required_rapidfuzz
from dualsql.mcp.manners import Responder
from dualsql.mcp.tool import plain_tool
from dualsql.resource import Principal

Name = Annotated[str, Field(max_length=300)]
Cursor = Annotated[str, Field(max_length=8_192)]
Limit = Annotated[int, Field(ge=1, le=200)]
Matches = Annotated[int, Field(ge=1, le=MOST_MATCHES)]
Term = Annotated[str, Field(min_length=1, max_length=LONGEST_TERM)]
Terms = Annotated[list[Term], Field(min_length=1, max_length=MOST_TERMS)]


class TableList(TypedDict):
    """Some of the tables; `next_cursor` leads on, and is null at the end."""

    tables: list[Listed]
    total: int
    next_cursor: str | None


class SearchResults(TypedDict):
    """What the terms found, term by term and best first, and those that found nothing."""

    matches: list[Found]
    unmatched: list[str]


def add_catalogue_tools(
    dual: Responder, server: Any, catalogue: Catalogue, *, principal: Callable[[Any], Principal]
) -> None:
    """Register `list_tables`, `describe_table` and `search_catalog`.

    Raises:
        ConfigurationError: rapidfuzz is not installed.
    """
    required_rapidfuzz()

    def list_tables(
        principal: Principal | None,
        source_name: Name | None = None,
        schema_name: Name | None = None,
        cursor: Cursor | None = None,
        limit: Limit = 50,
    ) -> TableList:
        """Tables and views that can be queried, with what is said of them.

        Args:
            source_name: of one database; all of them when left out.
            schema_name: of one schema.
            cursor: next_cursor of the page before.
            limit: tables of a page.
        """
        found = tables_of(catalogue.seen_by(principal), source=source_name, schema=schema_name)
        page, following = paged(found, lambda entry: entry.uri, cursor=cursor, limit=limit)
        return TableList(tables=[listed(entry) for entry in page], total=len(found), next_cursor=following)

    def describe_table(
        principal: Principal | None,
        table: Name,
        source_name: Name | None = None,
        schema_name: Name | None = None,
    ) -> TableDefinition:
        """Columns of a table or view with types and comments, its keys, and what its foreign keys lead to.

        Call it before writing SQL for the table. Of masked columns the values are hidden.

        Args:
            table: its name, such as "orders" or "sales.orders".
            source_name: of its database.
            schema_name: of its schema.
        """
        seen = catalogue.seen_by(principal)
        return table_definition(seen, find_table(seen, table, source=source_name, schema=schema_name))

    def search_catalog(
        principal: Principal | None, terms: Terms | Term, limit: Matches = 10
    ) -> SearchResults:
        """Find tables, views, columns and saved queries by words; names need not be spelt right.

        Args:
            terms: one or several, each searched for by itself, such as ["enrollment", "tuition fees"].
            limit: matches for each term.
        """
        asked = [terms] if isinstance(terms, str) else terms
        found = search_all(catalogue.seen_by(principal), asked, limit=limit)
        matched = {match["term"] for match in found}
        return SearchResults(matches=found, unmatched=[term for term in asked if term.strip() not in matched])

    for function in (list_tables, describe_table, search_catalog):
        plain_tool(dual, server, principal=principal)(function)
