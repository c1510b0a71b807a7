"""The definition at an address, in words for a model. It names only what the reader may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from dualsql.catalogue.addresses import HAVE_CONTENTS, Address, Kind
from dualsql.catalogue.catalogue import UNNAMED, CatalogueView, Entry
from dualsql.catalogue.describe import (
    MOST_COLUMNS,
    ColumnDefinition,
    ForeignKey,
    ForeignKeyForModel,
    QueryDefinition,
    TableDefinition,
    TableLink,
    brief,
)
from dualsql.catalogue.search import checked_terms, search

_MOST_MATCHING_COLUMNS = 10
MOST_CONTENTS = 1_000
"""Things that one list of contents names; `resources/list` has them all, in pages."""

_WORDS: Mapping[Kind, tuple[str, str]] = {
    "catalog": (
        "One database: its schemas, tables, views and saved queries, as far as you may see them.",
        "Read a schema for its tables, or search the catalogue by words.",
    ),
    "schema": (
        "A schema: tables and views with names of their own.",
        "Read a table before you query it: its columns, types and keys are there.",
    ),
    "table": (
        "A table: its columns with types and comments, its keys, and the tables its foreign keys lead to.",
        "Name it in SQL as sql_name does. Values of masked columns are hidden; filtered rows are left out.",
    ),
    "view": (
        "A view: a stored query that is read like a table.",
        "Name it in SQL as sql_name does. Values of masked columns are hidden; filtered rows are left out.",
    ),
    "query": (
        "A saved query: a question that was written and checked beforehand.",
        "Run it by its name, with a value for each parameter that has no default.",
    ),
}


class ContentMetadata(TypedDict):
    """A description of an entry of this kind, and the URIs of its neighbours."""

    kind: Kind
    description: str
    usage: str
    parent: NotRequired[str]
    contents: NotRequired[str]


class ObjectDescription(TypedDict):
    """The definition and metadata of a table, a saved query or another object."""

    definition: Mapping[str, Any]
    metadata: ContentMetadata


class Listed(TypedDict):
    """One entry of a list."""

    kind: Kind
    source: str
    name: str
    uri: str
    comment: str | None
    schema: NotRequired[str]


class ListedTable(TypedDict):
    """One table or view."""

    kind: Literal["table", "view"]
    name: str
    schema: NotRequired[str]
    source: NotRequired[str]
    comment: NotRequired[str]


class MatchForModel(TypedDict):
    """An entry that a term matches, and its matching columns."""

    term: str
    kind: Kind
    name: str
    schema: NotRequired[str]
    source: NotRequired[str]
    columns: NotRequired[list[str]]
    comment: NotRequired[str]


class ColumnForModel(TypedDict):
    """One column. `values` are those of an enumeration; the values of a `masked` one are hidden."""

    name: str
    type: str
    nullable: bool
    comment: NotRequired[str]
    values: NotRequired[list[str]]
    masked: NotRequired[bool]


class TableForModel(TypedDict, total=False):
    """A table or view: what a model needs to write SQL for it. What is not there has nothing to say.

    `sql_name` is how SQL names it, where that is not `name`; with `rows` "filtered" the caller sees some of them only.
    """

    kind: Literal["table", "view"]
    name: str
    sql_name: str
    schema: str
    source: str
    comment: str
    rows: Literal["filtered"]
    column_count: int
    columns: list[ColumnForModel]
    primary_key: list[str]
    unique: list[list[str]]
    foreign_keys: list[ForeignKeyForModel]


class Content(TypedDict):
    """One entry of a list of contents."""

    uri: str
    metadata: Mapping[str, Any]


def read(view: CatalogueView, address: Address) -> ObjectDescription | list[Content] | None:
    """The definition and metadata at an address, or the list of its members; None if nothing is visible there."""
    if not view.has(address.thing):
        return None
    if address.is_contents:
        return _contents(view, address.thing)
    return ObjectDescription(definition=_definition(view, address), metadata=_metadata(view, address))


def table_definition(view: CatalogueView, address: Address) -> TableDefinition:
    """The definition of a visible table or view."""
    table, names = view.tables[address], view.visible[address.source]
    facts = view.catalogue.facts(address.source, table)
    masked = names.masked.get(table.key, frozenset())
    columns: list[ColumnDefinition] = [
        {**column, "masked": True} if key in masked else column
        for key, column in list(facts.columns.items())[:MOST_COLUMNS]
    ]
    return TableDefinition(
        kind=cast("Literal['table', 'view']", table.kind),
        source=address.source,
        schema=table.schema,
        name=table.name,
        sql_name=facts.sql_name,
        comment=facts.comment,
        rows="filtered" if table.key in names.filtered else "all",
        column_count=len(facts.columns),
        columns=columns,
        primary_key=facts.primary_key,
        unique=facts.unique,
        foreign_keys=[key for link in facts.links if (key := _foreign_key(view, address, link)) is not None],
    )


def listed_table(view: CatalogueView, entry: Entry) -> ListedTable:
    """A table of a list for a model."""
    at = entry.address
    item = ListedTable(kind=cast("Literal['table', 'view']", at.kind), name=at.name)
    if has_named_schema(view, at):
        item["schema"] = at.schema
    if len(view.catalogue.sources) > 1:
        item["source"] = at.source
    if entry.comment is not None:
        item["comment"] = entry.comment
    return item


def has_named_schema(view: CatalogueView, address: Address) -> bool:
    """Whether SQL may name the schema of a visible table; that of a Table without one has a name in URIs alone."""
    return getattr(view.tables[address].table, "schema", None) is not None


def search_all(view: CatalogueView, terms: Sequence[str], *, limit: int) -> list[MatchForModel]:
    """The matches of each term in the names and comments of visible entries: at most `limit` each, the best first.

    Raises:
        BadParameterError: there are too many terms, or one is too long.
        ConfigurationError: rapidfuzz is not installed.
    """
    valid_terms = checked_terms(terms)
    entries = {entry.address: entry for entry in view.entries}
    index = view.catalogue.index
    return [
        _match_for_model(view, term, entries[match.address], match.columns)
        for term in valid_terms
        for match in search(term, index, entries.__contains__, limit)
    ]


def _match_for_model(view: CatalogueView, term: str, entry: Entry, columns: Sequence[str]) -> MatchForModel:
    at = entry.address
    item = MatchForModel(term=term, kind=at.kind, name=at.called)
    if at.schema and at.schema not in UNNAMED:
        item["schema"] = at.schema
    if len(view.catalogue.sources) > 1:
        item["source"] = at.source
    if columns:
        item["columns"] = list(columns[:_MOST_MATCHING_COLUMNS])
    if entry.comment is not None:
        item["comment"] = entry.comment
    return item


def table_for_model(view: CatalogueView, address: Address) -> TableForModel:
    """The answer of `table_definition` to a model."""
    whole = table_definition(view, address)
    has_schema, has_sources = has_named_schema(view, address), len(view.catalogue.sources) > 1
    description: dict[str, Any] = {
        "kind": whole["kind"],
        "name": whole["name"],
        "sql_name": whole["sql_name"] if whole["sql_name"] != whole["name"] else None,
        "schema": whole["schema"] if has_schema else None,
        "source": whole["source"] if has_sources else None,
        "comment": whole["comment"],
        "rows": "filtered" if whole["rows"] == "filtered" else None,
        "column_count": whole["column_count"] if whole["column_count"] > len(whole["columns"]) else None,
        "columns": [
            {key: value for key, value in column.items() if value is not None} for column in whole["columns"]
        ],
        "primary_key": whole["primary_key"],
        "unique": whole["unique"],
        "foreign_keys": [
            ForeignKeyForModel(
                columns=key["columns"],
                target_table=_name_of_target(view, key),
                target_columns=key["target_columns"],
            )
            for key in whole["foreign_keys"]
        ],
    }
    return cast(
        "TableForModel", {key: value for key, value in description.items() if value not in (None, [])}
    )


def _name_of_target(view: CatalogueView, key: ForeignKey) -> str:
    """The table as SQL names it: with its schema, where it has one."""
    target = view.catalogue.addressing.read(key["target_uri"])
    has_schema = target is not None and has_named_schema(view, target)
    return f"{key['target_schema']}.{key['target_table']}" if has_schema else key["target_table"]


def query_definition(view: CatalogueView, address: Address) -> QueryDefinition:
    """The definition of a visible saved query."""
    query = view.queries[address]
    tables = (view.catalogue.placed_table(table) for table in query.tables)
    write = view.catalogue.addressing.write
    return QueryDefinition(
        kind="query",
        source=address.source,
        name=query.name,
        comment=brief(query),
        parameters=query.schema,
        reads=[write(table.at(address.source)) for table in tables if table is not None],
    )


def list_item(entry: Entry) -> Listed:
    """An entry for a list."""
    at = entry.address
    item = Listed(
        kind=at.kind,
        source=at.source,
        name=at.called,
        uri=entry.uri,
        comment=entry.comment,
    )
    if at.kind in ("table", "view"):
        item["schema"] = at.schema
    return item


def _definition(view: CatalogueView, address: Address) -> Mapping[str, Any]:
    if address.kind in ("table", "view"):
        return table_definition(view, address)
    if address.kind == "query":
        return query_definition(view, address)
    inside = [list_item(entry) for entry in view.within(address)]
    definition: dict[str, Any] = {"source": address.source}
    if address.kind == "schema":
        definition["schema"] = address.schema
    else:
        definition["dialect"] = view.catalogue.dialect_of(address.source)
        definition["schemas"] = [item["name"] for item in inside if item["kind"] == "schema"]
    for kind, word in (("table", "tables"), ("view", "views"), ("query", "queries")):
        names = [item["name"] for item in inside if item["kind"] == kind]
        if address.kind == "catalog":
            definition[f"{kind}_count"] = len(names)
        elif kind != "query":
            definition[word], definition[f"{kind}_count"] = names[:MOST_CONTENTS], len(names)
    return definition


def _metadata(view: CatalogueView, address: Address) -> ContentMetadata:
    description, usage = _WORDS[address.kind]
    write = view.catalogue.addressing.write
    metadata = ContentMetadata(kind=address.kind, description=description, usage=usage)
    if address.parent is not None:
        metadata["parent"] = write(address.parent)
    if address.kind in HAVE_CONTENTS:
        metadata["contents"] = write(address.contents)
    return metadata


def _contents(view: CatalogueView, address: Address) -> list[Content]:
    entries = view.within(address)
    contents = [Content(uri=entry.uri, metadata=list_item(entry)) for entry in entries[:MOST_CONTENTS]]
    if len(entries) > MOST_CONTENTS:
        more = {"more": len(entries) - MOST_CONTENTS, "usage": "resources/list has them all, in pages."}
        contents.append(Content(uri=view.catalogue.addressing.write(address), metadata=more))
    return contents


def _foreign_key(view: CatalogueView, address: Address, link: TableLink) -> ForeignKey | None:
    target = view.catalogue.placed_table(link.target)
    # A table that the reader may not see is not named.
    if target is None or target.at(address.source) not in view.tables:
        return None
    return ForeignKey(
        columns=link.columns,
        target_schema=target.schema,
        target_table=target.name,
        target_columns=link.target_columns,
        target_uri=view.catalogue.addressing.write(target.at(address.source)),
    )
