"""The definition at an address, in words for a model. It names only what the reader may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from dualsql.catalogue.addresses import HAVE_CONTENTS, Address, Kind
from dualsql.catalogue.catalogue import CatalogueView, Entry
from dualsql.catalogue.describe import (
    MOST_COLUMNS,
    ColumnDefinition,
    ForeignKey,
    QueryDefinition,
    TableDefinition,
    TableLink,
    brief,
)

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
    """What a thing of this kind is and is for, and where the things around it are."""

    kind: Kind
    description: str
    usage: str
    parent: NotRequired[str]
    contents: NotRequired[str]


class Reading(TypedDict):
    """The content at an address."""

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


class Content(TypedDict):
    """One entry of a list of contents."""

    uri: str
    metadata: Mapping[str, Any]


def read(seen: CatalogueView, address: Address) -> Reading | list[Content] | None:
    """The definition and metadata at an address, or the list of its members; None if nothing is visible there."""
    if not seen.has(address.thing):
        return None
    if address.is_contents:
        return _contents(seen, address.thing)
    return Reading(definition=_definition(seen, address), metadata=_metadata(seen, address))


def table_definition(seen: CatalogueView, address: Address) -> TableDefinition:
    """The definition of a visible table or view."""
    placed, sight = seen.tables[address], seen.sights[address.source]
    facts = seen.catalogue.facts(address.source, placed)
    masked = sight.masked.get(placed.key, frozenset())
    columns = [
        _masked(column) if key in masked else column
        for key, column in list(facts.columns.items())[:MOST_COLUMNS]
    ]
    return TableDefinition(
        kind=cast("Literal['table', 'view']", placed.kind),
        source=address.source,
        schema=placed.schema,
        name=placed.name,
        sql_name=facts.sql_name,
        comment=facts.comment,
        rows="filtered" if placed.key in sight.filtered else "all",
        column_count=len(facts.columns),
        columns=columns,
        primary_key=facts.primary_key,
        unique=facts.unique,
        foreign_keys=[
            found for link in facts.links if (found := _foreign_key(seen, address, link)) is not None
        ],
    )


def query_definition(seen: CatalogueView, address: Address) -> QueryDefinition:
    """The definition of a visible saved query."""
    query = seen.queries[address]
    places = (seen.catalogue.placed(table) for table in query.tables)
    write = seen.catalogue.addressing.write
    return QueryDefinition(
        kind="query",
        source=address.source,
        name=query.name,
        comment=brief(query),
        parameters=query.schema,
        reads=[write(place.at(address.source)) for place in places if place is not None],
    )


def listed(entry: Entry) -> Listed:
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


def _definition(seen: CatalogueView, address: Address) -> Mapping[str, Any]:
    if address.kind in ("table", "view"):
        return table_definition(seen, address)
    if address.kind == "query":
        return query_definition(seen, address)
    inside = [listed(entry) for entry in seen.within(address)]
    named: dict[str, Any] = {"source": address.source}
    if address.kind == "schema":
        named["schema"] = address.schema
    else:
        named["dialect"] = seen.catalogue.dialect_of(address.source)
        named["schemas"] = [item["name"] for item in inside if item["kind"] == "schema"]
    for kind, word in (("table", "tables"), ("view", "views"), ("query", "queries")):
        found = [item["name"] for item in inside if item["kind"] == kind]
        if address.kind == "catalog":
            named[f"{kind}_count"] = len(found)
        elif kind != "query":
            named[word], named[f"{kind}_count"] = found[:MOST_CONTENTS], len(found)
    return named


def _metadata(seen: CatalogueView, address: Address) -> ContentMetadata:
    description, usage = _WORDS[address.kind]
    write = seen.catalogue.addressing.write
    metadata = ContentMetadata(kind=address.kind, description=description, usage=usage)
    if address.parent is not None:
        metadata["parent"] = write(address.parent)
    if address.kind in HAVE_CONTENTS:
        metadata["contents"] = write(address.contents)
    return metadata


def _contents(seen: CatalogueView, address: Address) -> list[Content]:
    entries = seen.within(address)
    shown = [Content(uri=entry.uri, metadata=listed(entry)) for entry in entries[:MOST_CONTENTS]]
    if len(entries) > MOST_CONTENTS:
        more = {"more": len(entries) - MOST_CONTENTS, "usage": "resources/list has them all, in pages."}
        shown.append(Content(uri=seen.catalogue.addressing.write(address), metadata=more))
    return shown


def _masked(column: ColumnDefinition) -> ColumnDefinition:
    return {**column, "masked": True}


def _foreign_key(seen: CatalogueView, address: Address, link: TableLink) -> ForeignKey | None:
    target = seen.catalogue.placed(link.target)
    if target is None or target.at(address.source) not in seen.tables:
        return None
    return ForeignKey(
        columns=link.columns,
        target_schema=target.schema,
        target_table=target.name,
        target_columns=link.target_columns,
        target_uri=seen.catalogue.addressing.write(target.at(address.source)),
    )
