"""The catalogue on an MCP server: resources, and the tools list_tables, describe_table and search_catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

from pydantic import Field, SkipValidation, WithJsonSchema
from typing_extensions import TypedDict

from dualsql.catalogue.addresses import HAVE_CONTENTS, Address, Kind, page_of
from dualsql.catalogue.catalogue import (
    MOST_TABLES,
    Catalogue,
    CatalogueView,
    Entry,
    Visible,
    checked_tables,
    find_tables,
    nearest,
    tables_of,
)
from dualsql.catalogue.definitions import (
    ColumnForModel,
    ListedTable,
    MatchForModel,
    TableForModel,
    listed_table,
    read,
    search_all,
    table_for_model,
)
from dualsql.catalogue.describe import ForeignKeyForModel
from dualsql.catalogue.search import (
    MOST_MATCHES,
    MOST_TERMS,
    checked_terms,
    notes_about,
    require_rapidfuzz,
    split_notes,
)
from dualsql.errors import ConfigurationError
from dualsql.formats import json
from dualsql.formats.samples import without_links
from dualsql.identity import principal_of_token
from dualsql.mcp.calls import PrincipalOf, publish_without
from dualsql.mcp.decorators import plain_tool
from dualsql.mcp.resource_server import register_provider, unknown_uri
from dualsql.packages import extra
from dualsql.resource import Principal
from dualsql.settings import require_duration

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
        self._ttl = int(require_duration("ttl", ttl).total_seconds() * 1_000)
        self.templates: Sequence[ResourceTemplate] = [
            _template(catalogue, kind, is_contents=is_contents)
            for kind in _MEANINGS
            for is_contents in ([False, True] if kind in HAVE_CONTENTS else [False])
        ]

    def owns(self, uri: str) -> bool:
        return uri.startswith(self.start)

    async def read(self, uri: str, principal: Principal | None) -> ReadResourceResult:
        address = self._catalogue.addressing.read(uri)
        view = self._catalogue.view_for(principal)
        content = None if address is None else read(view, address)
        if content is None:
            raise unknown_uri(uri, [] if address is None else nearest(view, address))
        text = json.dumps(content).decode()
        contents = TextResourceContents(uri=uri, mime_type=_MIME_TYPE, text=text)
        return ReadResourceResult(contents=[contents], ttl_ms=self._ttl, cache_scope="private")

    async def list(
        self, principal: Principal | None, cursor: str | None
    ) -> tuple[Sequence[Resource], str | None]:
        entries = self._catalogue.view_for(principal).entries
        page, following = page_of(entries, lambda entry: entry.uri, cursor=cursor, limit=_PAGE)
        return [_resource(entry) for entry in page], following

    async def complete(
        self, name: str, value: str, arguments: Mapping[str, str], principal: Principal | None
    ) -> Sequence[str]:
        candidates = _candidates(self._catalogue.view_for(principal), name, arguments)
        beginning = [candidate for candidate in candidates if candidate.lower().startswith(value.lower())]
        containing = [candidate for candidate in candidates if value.lower() in candidate.lower()]
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


def _candidates(view: CatalogueView, name: str, arguments: Mapping[str, str]) -> set[str]:
    """Values of a template variable that fit the variables given already."""
    if name == "source":
        return set(view.catalogue.sources)
    return {_variable(at, name) for at in [*view.tables, *view.queries] if _matches(at, arguments)} - {""}


def _variable(address: Address, name: str) -> str:
    if name == "schema":
        return address.schema
    return address.name if address.kind == name else ""


def _matches(address: Address, arguments: Mapping[str, str]) -> bool:
    return arguments.get("source", address.source) == address.source and (
        address.kind == "query" or arguments.get("schema", address.schema) == address.schema
    )


_TEXT = WithJsonSchema({"type": "string"})
_OBJECTS = WithJsonSchema({"type": "array", "items": {"type": "object"}})

Name = Annotated[str, Field(max_length=300), _TEXT]
# `checked_tables` reads them: one name may stand without a list.
TableNames = Annotated[
    list[str],
    Field(description=f"Up to {MOST_TABLES}, such as sales.orders."),
    SkipValidation,
]
SourceName = Annotated[Name | None, Field(description="Of which database; of all by default.")]
SchemaName = Name | None
Cursor = Annotated[
    Annotated[str, Field(max_length=8_192), _TEXT] | None,
    Field(description="The last next_cursor."),
]
Limit = Annotated[int, Field(ge=1, le=200), WithJsonSchema({"type": "integer", "maximum": 200})]
Matches = Annotated[
    int,
    Field(ge=1, le=MOST_MATCHES),
    WithJsonSchema({"type": "integer", "maximum": MOST_MATCHES, "description": "For each term."}),
]
# `checked_terms` reads them, so that errors are in its words, and one term may stand without a list.
Terms = Annotated[
    list[str],
    Field(description=f"Up to {MOST_TERMS}, such as tuition fees."),
    SkipValidation,
]


class TableList(TypedDict):
    """The last page has no `next_cursor`."""

    tables: Annotated[list[ListedTable], _OBJECTS]
    total: int
    next_cursor: NotRequired[str]


class DescribedTables(TableForModel, total=False):
    """Several tables are in `tables`. `sql_name` is the name in SQL if it is not `name`."""

    columns: Annotated[list[ColumnForModel], _OBJECTS]
    foreign_keys: Annotated[list[ForeignKeyForModel], _OBJECTS]
    tables: Annotated[dict[str, dict[str, Any]], WithJsonSchema({"type": "object"})]


class SearchResults(TypedDict):
    """The best matches first, and the operator's notes."""

    matches: Annotated[list[MatchForModel], _OBJECTS]
    notes: NotRequired[list[str]]
    unmatched: list[str]


def _describe(view: CatalogueView, addresses: Mapping[str, Address]) -> DescribedTables:
    tables = {name: table_for_model(view, address) for name, address in addresses.items()}
    described = {"tables": tables} if len(tables) > 1 else next(iter(tables.values()))
    return cast("DescribedTables", without_links(described))


def _search(view: CatalogueView, terms: Sequence[str], notes: Sequence[str], limit: int) -> SearchResults:
    matches = search_all(view, terms, limit=limit)
    notes_of_terms = {term: notes_about(term, notes)[:limit] for term in terms}
    matched_terms = {match["term"] for match in matches} | {
        term for term, about in notes_of_terms.items() if about
    }
    results = SearchResults(matches=matches, unmatched=[term for term in terms if term not in matched_terms])
    about = list(dict.fromkeys(note for term_notes in notes_of_terms.values() for note in term_notes))
    return without_links(SearchResults(**results, notes=about) if about else results)


def add_catalogue_tools(
    dual: ResultServer, server: Any, catalogue: Catalogue, *, principal: PrincipalOf, notes: str = ""
) -> None:
    """Register `list_tables`, `describe_table` and `search_catalog`, which also finds what `notes` say.

    Raises:
        ConfigurationError: rapidfuzz is not installed.
    """
    require_rapidfuzz()
    all_notes = split_notes(notes)

    def list_tables(
        principal: Principal | None,
        source_name: SourceName = None,
        schema_name: SchemaName = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> TableList:
        """Tables and views, with comments."""
        view = catalogue.view_for(principal)
        tables = tables_of(view, source=source_name, schema=schema_name)
        page, following = page_of(tables, lambda entry: entry.uri, cursor=cursor, limit=limit)
        listed = [without_links(listed_table(view, entry)) for entry in page]
        table_list = TableList(tables=listed, total=len(tables))
        return table_list if following is None else TableList(**table_list, next_cursor=following)

    def describe_table(
        principal: Principal | None,
        table: TableNames,
        source_name: SourceName = None,
        schema_name: SchemaName = None,
    ) -> DescribedTables:
        """Columns, types, comments and keys of tables. Call it before writing SQL."""
        view = catalogue.view_for(principal)
        addresses: dict[str, Address] = {}
        for name in checked_tables(table):
            matches = find_tables(view, name, source=source_name, schema=schema_name)
            for at in matches:
                addresses[name if len(matches) == 1 else f"{at.schema}.{at.name}"] = at
        return _describe(view, addresses)

    def search_catalog(principal: Principal | None, terms: Terms, limit: Matches = 10) -> SearchResults:
        """Find tables, columns and saved queries by words, also misspelt."""
        return _search(catalogue.view_for(principal), checked_terms(terms), all_notes, limit)

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
