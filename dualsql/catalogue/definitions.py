"""The definition at an address, in words for a model. It names only what the reader may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from dualsql.catalogue.addresses import HAVE_CONTENTS, Address, Kind
from dualsql.catalogue.catalogue import UNNAMED, CatalogueView, Entry, Found
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


class ListedTable(TypedDict):
    """One table or view."""

    kind: Literal["table", "view"]
    name: str
    schema: NotRequired[str]
    source: NotRequired[str]
    comment: NotRequired[str]


class FoundForModel(TypedDict):
    """What a term found, and the columns that match."""

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


class ForeignKeyForModel(TypedDict):
    """Columns that refer to columns of another table."""

    columns: list[str]
    target_table: str
    target_columns: list[str]


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


def read(seen: CatalogueView, address: Address) -> Reading | list[Content] | None:
    """The definition and metadata at an address, or the list of its members; None if nothing is visible there."""
    if not seen.has(address.thing):
        return None
    if address.is_contents:
        return _contents(seen, address.thing)
    return Reading(definition=_definition(seen, address), metadata=_metadata(seen, address))


def table_definition(seen: CatalogueView, address: Address) -> TableDefinition:
    """The definition of a visible table or view."""
    placed, names = seen.tables[address], seen.visible[address.source]
    facts = seen.catalogue.facts(address.source, placed)
    masked = names.masked.get(placed.key, frozenset())
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
        rows="filtered" if placed.key in names.filtered else "all",
        column_count=len(facts.columns),
        columns=columns,
        primary_key=facts.primary_key,
        unique=facts.unique,
        foreign_keys=[
            found for link in facts.links if (found := _foreign_key(seen, address, link)) is not None
        ],
    )


def listed_table(seen: CatalogueView, entry: Entry) -> ListedTable:
    """A table of a list for a model."""
    at = entry.address
    item = ListedTable(kind=cast("Literal['table', 'view']", at.kind), name=at.name)
    if has_named_schema(seen, at):
        item["schema"] = at.schema
    if len(seen.catalogue.sources) > 1:
        item["source"] = at.source
    if entry.comment is not None:
        item["comment"] = entry.comment
    return item


def has_named_schema(seen: CatalogueView, address: Address) -> bool:
    """Whether SQL may name the schema of a visible table; that of a Table without one has a name in URIs alone."""
    return getattr(seen.tables[address].table, "schema", None) is not None


def found_for_model(seen: CatalogueView, found: Found) -> FoundForModel:
    """A match of a search."""
    item = FoundForModel(term=found["term"], kind=found["kind"], name=found["name"])
    if found["schema"] is not None and found["schema"] not in UNNAMED:
        item["schema"] = found["schema"]
    if len(seen.catalogue.sources) > 1:
        item["source"] = found["source"]
    if found["columns"]:
        item["columns"] = found["columns"]
    if found["comment"] is not None:
        item["comment"] = found["comment"]
    return item


def table_for_model(seen: CatalogueView, address: Address) -> TableForModel:
    """What `table_definition` has to say to a model."""
    whole = table_definition(seen, address)
    has_schema, has_sources = has_named_schema(seen, address), len(seen.catalogue.sources) > 1
    said: dict[str, Any] = {
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
                target_table=f"{key['target_schema']}.{key['target_table']}"
                if key["target_schema"] != whole["schema"]
                else key["target_table"],
                target_columns=key["target_columns"],
            )
            for key in whole["foreign_keys"]
        ],
    }
    return cast("TableForModel", {key: value for key, value in said.items() if value not in (None, [])})


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
    # A table that the reader may not see is not named.
    if target is None or target.at(address.source) not in seen.tables:
        return None
    return ForeignKey(
        columns=link.columns,
        target_schema=target.schema,
        target_table=target.name,
        target_columns=link.target_columns,
        target_uri=seen.catalogue.addressing.write(target.at(address.source)),
    )
