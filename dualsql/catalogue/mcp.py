"""The catalogue on an MCP server: resources, and the tools list_tables, describe_table and search_catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

from pydantic import Field, SkipValidation
from typing_extensions import TypedDict

from dualsql.catalogue.addresses import HAVE_CONTENTS, Address, Kind, paged
from dualsql.catalogue.catalogue import (
    MOST_TABLES,
    Catalogue,
    CatalogueView,
    Entry,
    Visible,
    checked_tables,
    find_table,
    nearest,
    search_all,
    tables_of,
)
from dualsql.catalogue.definitions import (
    FoundForModel,
    ListedTable,
    TableForModel,
    found_for_model,
    listed_table,
    read,
    table_for_model,
)
from dualsql.catalogue.search import (
    LONGEST_TERM,
    MOST_MATCHES,
    MOST_TERMS,
    checked_terms,
    notes_about,
    notes_of,
    require_rapidfuzz,
)
from dualsql.errors import ConfigurationError, extra
from dualsql.formats import json
from dualsql.identity import principal_of_token
from dualsql.mcp.calls import PrincipalOf, publish_without
from dualsql.mcp.decorators import plain_tool
from dualsql.mcp.resource_server import register_provider, unknown_uri
from dualsql.resource import Principal

with extra("mcp"):
    from mcp_types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from dualsql.catalogue.feature import Tables

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_MIME_TYPE = "application/json"
_PAGE = 100
_MEANINGS: Mapping[Kind, str] = {
    "catalog": "A database: its schemas, tables, views and saved queries.",
    "schema": "A schema: its tables and views.",
    "table": "A table: its columns with types and comments, its keys.",
    "view": "A view: its columns with types and comments.",
    "query": "A saved query: what it answers, and the parameters it takes.",
}


class CatalogueProvider:
    """The catalogue as MCP resources; see `dualsql.mcp.resource_server.ResourceProvider`."""

    name = "catalogue"

    def __init__(self, catalogue: Catalogue, ttl: timedelta) -> None:
        self._catalogue = catalogue
        self.start = f"{catalogue.addressing.scheme}://"
        self._ttl = int(ttl.total_seconds() * 1_000)
        self.templates: Sequence[ResourceTemplate] = [
            _template(catalogue, kind, is_contents=is_contents)
            for kind in _MEANINGS
            for is_contents in ([False, True] if kind in HAVE_CONTENTS else [False])
        ]

    def owns(self, uri: str) -> bool:
        return uri.startswith(self.start)

    async def read(self, uri: str, principal: Principal | None) -> ReadResourceResult:
        address = self._catalogue.addressing.read(uri)
        seen = self._catalogue.seen_by(principal)
        found = None if address is None else read(seen, address)
        if found is None:
            raise unknown_uri(uri, [] if address is None else nearest(seen, address))
        text = json.dumps(found).decode()
        contents = TextResourceContents(uri=uri, mime_type=_MIME_TYPE, text=text)
        return ReadResourceResult(contents=[contents], ttl_ms=self._ttl, cache_scope="private")

    async def list(
        self, principal: Principal | None, cursor: str | None
    ) -> tuple[Sequence[Resource], str | None]:
        entries = self._catalogue.seen_by(principal).entries
        page, following = paged(entries, lambda entry: entry.uri, cursor=cursor, limit=_PAGE)
        return [_resource(entry) for entry in page], following

    async def complete(
        self, name: str, value: str, given: Mapping[str, str], principal: Principal | None
    ) -> Sequence[str]:
        candidates = _candidates(self._catalogue.seen_by(principal), name, given)
        beginning = [found for found in candidates if found.lower().startswith(value.lower())]
        containing = [found for found in candidates if value.lower() in found.lower()]
        return list(dict.fromkeys([*sorted(beginning), *sorted(containing)]))


def _template(catalogue: Catalogue, kind: Kind, *, is_contents: bool) -> ResourceTemplate:
    return ResourceTemplate(
        uri_template=catalogue.addressing.template(kind, is_contents=is_contents),
        name=f"{kind}_contents" if is_contents else kind,
        description=f"What is in it, as a list: {_MEANINGS[kind]}" if is_contents else _MEANINGS[kind],
        mime_type=_MIME_TYPE,
    )


def _resource(entry: Entry) -> Resource:
    return Resource(
        uri=entry.uri,
        name=entry.title,
        description=entry.comment or _MEANINGS[entry.address.kind],
        mime_type=_MIME_TYPE,
    )


def _candidates(seen: CatalogueView, name: str, given: Mapping[str, str]) -> set[str]:
    """Values of a template variable that fit the variables given already."""
    if name == "source":
        return set(seen.catalogue.sources)
    return {_variable(at, name) for at in [*seen.tables, *seen.queries] if _matches(at, given)} - {""}


def _variable(address: Address, name: str) -> str:
    if name == "schema":
        return address.schema
    return address.name if address.kind == name else ""


def _matches(address: Address, given: Mapping[str, str]) -> bool:
    return given.get("source", address.source) == address.source and (
        address.kind == "query" or given.get("schema", address.schema) == address.schema
    )


Name = Annotated[str, Field(max_length=300)]
# `checked_tables` reads them: one name may stand without a list.
TableNames = Annotated[
    list[Name],
    Field(
        description='One name or several, such as "orders" or "sales.orders".',
        min_length=1,
        max_length=MOST_TABLES,
    ),
    SkipValidation,
]
SourceName = Annotated[Name | None, Field(description="Of which database; of all by default.")]
SchemaName = Annotated[Name | None, Field(description="Of which schema.")]
Cursor = Annotated[str | None, Field(description="next_cursor of the page before.", max_length=8_192)]
Limit = Annotated[int, Field(description="Tables of a page.", ge=1, le=200)]
Matches = Annotated[int, Field(description="Matches for each term.", ge=1, le=MOST_MATCHES)]
Term = Annotated[str, Field(min_length=1, max_length=LONGEST_TERM)]
# `checked_terms` reads them, so that errors are in its words, and one term may stand without a list.
Terms = Annotated[
    list[Term],
    Field(
        description='One or several, each searched for by itself: ["enrollment", "tuition fees"].',
        min_length=1,
        max_length=MOST_TERMS,
    ),
    SkipValidation,
]


class TableList(TypedDict):
    """A page of tables. The last page has no `next_cursor`."""

    tables: list[ListedTable]
    total: int
    next_cursor: NotRequired[str]


class DescribedTables(TableForModel, total=False):
    """One table, or several in `tables`, by the names given.

    `sql_name` is the name in SQL if it is not `name`. With `rows` "filtered" you see some of the rows only.
    """

    tables: dict[str, dict[str, Any]]


class SearchResults(TypedDict):
    """Matches term by term, the best first, the operator's notes about the terms, and the terms without a match."""

    matches: list[FoundForModel]
    notes: NotRequired[list[str]]
    unmatched: list[str]


def _described(seen: CatalogueView, found: Mapping[str, Address]) -> DescribedTables:
    described = {name: table_for_model(seen, address) for name, address in found.items()}
    return cast(
        "DescribedTables", {"tables": described} if len(described) > 1 else next(iter(described.values()))
    )


def _found(seen: CatalogueView, terms: Sequence[str], notes: Sequence[str], limit: int) -> SearchResults:
    found = [found_for_model(seen, match) for match in search_all(seen, terms, limit=limit)]
    noted = {term: notes_about(term, notes)[:limit] for term in terms}
    matched = {match["term"] for match in found} | {term for term, about in noted.items() if about}
    results = SearchResults(matches=found, unmatched=[term for term in terms if term not in matched])
    about = list(dict.fromkeys(note for found in noted.values() for note in found))
    return SearchResults(**results, notes=about) if about else results


def add_catalogue_tools(
    dual: ResultServer, server: Any, catalogue: Catalogue, *, principal: PrincipalOf, notes: str = ""
) -> None:
    """Register `list_tables`, `describe_table` and `search_catalog`, which also finds what `notes` say.

    Raises:
        ConfigurationError: rapidfuzz is not installed.
    """
    require_rapidfuzz()
    noted = notes_of(notes)

    def list_tables(
        principal: Principal | None,
        source_name: SourceName = None,
        schema_name: SchemaName = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> TableList:
        """Tables and views that can be queried, with their comments."""
        seen = catalogue.seen_by(principal)
        found = tables_of(seen, source=source_name, schema=schema_name)
        page, following = paged(found, lambda entry: entry.uri, cursor=cursor, limit=limit)
        listed = TableList(tables=[listed_table(seen, entry) for entry in page], total=len(found))
        return listed if following is None else TableList(**listed, next_cursor=following)

    def describe_table(
        principal: Principal | None,
        table: TableNames,
        source_name: SourceName = None,
        schema_name: SchemaName = None,
    ) -> DescribedTables:
        """Columns of a table or view with types and comments, its keys, and the tables that its foreign keys refer to.

        Call it before writing SQL for the table. The values of masked columns are hidden.
        """
        seen = catalogue.seen_by(principal)
        found = {
            name: find_table(seen, name, source=source_name, schema=schema_name)
            for name in checked_tables(table)
        }
        return _described(seen, found)

    def search_catalog(principal: Principal | None, terms: Terms, limit: Matches = 10) -> SearchResults:
        """Find tables, views, columns and saved queries by words; names need not be spelt right."""
        return _found(catalogue.seen_by(principal), checked_terms(terms), noted, limit)

    for function in (list_tables, describe_table, search_catalog):
        if len(catalogue.sources) == 1:
            publish_without(function, "source_name")
        plain_tool(dual, server, principal=principal)(function)


def add_catalogue(
    dual: ResultServer,
    server: Any,
    *,
    visible: Visible | None = None,
    scheme: str = "catalog",
    has_tools: bool = True,
    notes: str = "",
    ttl: timedelta = timedelta(minutes=1),
    principal: PrincipalOf = principal_of_token,
) -> Catalogue:
    """Show callers the tables, views and saved queries that they may see.

    Serves resources at `{scheme}://{source}/catalog` and below, listed in pages and with completion, and the tools
    `list_tables`, `describe_table` and `search_catalog`. Call it after the server's own completion handler is set.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        visible: hides tables besides those that the hooks deny; see `dualsql.catalogue.Visible`.
        has_tools: register the tools too.
        notes: what the schema does not say: terms, units, which table to use. `search_catalog` finds its paragraphs and
            list items. Every caller may read them.
        ttl: how long a client may cache what it has read, for this caller only.
        principal: gives the principal of a verified access token, as for `dual.tool`.

    Raises:
        ConfigurationError: `server` is not of a supported and installed SDK, or the scheme cannot be used.
    """
    if scheme == dual.settings.uri_scheme:
        raise ConfigurationError(
            f"The URI scheme {scheme!r} is that of results.", hint='add_catalogue(..., scheme="catalog")'
        )
    catalogue = dual.features.get(Tables).catalogue(visible=visible, scheme=scheme)
    register_provider(server, CatalogueProvider(catalogue, ttl), principal)
    if has_tools:
        add_catalogue_tools(dual, server, catalogue, principal=principal, notes=notes)
    return catalogue
