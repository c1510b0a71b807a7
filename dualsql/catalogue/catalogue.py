"""All tables and saved queries, and those that one principal may see. Denied and unknown look the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from sqlalchemy.engine import Dialect

from dualsql.catalogue.addresses import Address, Addressing, Kind
from dualsql.catalogue.describe import ColumnDefinition, TableFacts, brief, comment_of, facts_of, is_view
from dualsql.catalogue.search import Index, index_of
from dualsql.errors import BadParameterError, UnknownTableError
from dualsql.freeze import Registry
from dualsql.resource import Principal
from dualsql.saved_queries import SavedQuery
from dualsql.tenancy.visibility import VisibleNames

Visible = Callable[[Principal | None, Any], bool]
"""The operator's function that hides tables from a principal. It can only hide more than the rules do.

It has to be fast, because it is called for every table at every request of the catalogue."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the catalogue, as lists show it."""

    address: Address
    uri: str
    comment: str | None

    @property
    def title(self) -> str:
        """The name that a list shows."""
        address = self.address
        return {"catalog": f"Catalog of {address.source}", "schema": f"Schema {address.schema}"}.get(
            address.kind, address.name
        )


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """A registered table and its address."""

    key: str
    table: Any
    kind: Kind
    schema: str
    name: str

    def at(self, source: str) -> Address:
        """Its address in one of the databases."""
        return Address(source=source, kind=self.kind, schema=self.schema, name=self.name)


class Catalogue:
    """The tables and saved queries of a server.

    Args:
        dialects: of each source, by its name.
        queries: one without a source belongs to the first source.
        visible_names: the tables that the rules let a principal query on a source.
        visible: see `Visible`; its exceptions are not caught.
        scheme: of the URIs.

    Raises:
        ConfigurationError: the scheme cannot be used.
    """

    def __init__(
        self,
        registry: Registry,
        dialects: Mapping[str, Dialect],
        visible_names: Callable[[Principal | None, str], VisibleNames],
        *,
        queries: Iterable[SavedQuery] = (),
        visible: Visible | None = None,
        scheme: str = "catalog",
    ) -> None:
        self.addressing = Addressing(scheme)
        self.sources = tuple(dialects)
        self._dialects = dialects
        self._visible_names = visible_names
        self._visible = visible
        self._tables = list(_read_tables(registry))
        self._names = {id(table.table): table for table in self._tables}
        self._queries = {
            Address(source=query.source or self.sources[0], kind="query", name=query.name): query
            for query in queries
        }
        self._facts: dict[tuple[str, str], TableFacts] = {}

    def view_for(self, principal: Principal | None) -> CatalogueView:
        """The catalogue as `principal` sees it now."""
        visible = {source: self._visible_names(principal, source) for source in self.sources}
        allowed_tables = [table for table in self._tables if self._shows(principal, table)]
        tables = {
            table.at(source): table
            for source, names in visible.items()
            for table in allowed_tables
            if table.key in names.tables
        }
        return CatalogueView(self, tables, self._runnable(tables), visible)

    def dialect_of(self, source: str) -> str:
        """The SQL dialect of a source, by SQLAlchemy's name for it."""
        return self._dialects[source].name

    def placed_table(self, table: Any) -> PlacedTable | None:
        """The address of a Table, if it is registered."""
        return self._names.get(id(table))

    def facts(self, source: str, table: PlacedTable) -> TableFacts:
        """The facts about a table that are the same for every caller."""
        # By source too, because a type is written as the source's dialect does.
        key = source, table.key
        if key not in self._facts:
            self._facts[key] = facts_of(table.table, self._dialects[source])
        return self._facts[key]

    @cached_property
    def index(self) -> Index:
        """The search index of all entries, for every caller; `search` gets the entries that its caller sees."""
        return index_of(self._things())

    def _things(self) -> Iterator[tuple[Address, str | None, Iterable[ColumnDefinition]]]:
        for source in self.sources:
            yield Address(source=source, kind="catalog"), None, ()
            for schema in sorted({table.schema for table in self._tables}):
                yield Address(source=source, kind="schema", schema=schema), None, ()
            for table in self._tables:
                facts = self.facts(source, table)
                yield table.at(source), facts.comment, facts.columns.values()
        for address, query in self._queries.items():
            yield address, brief(query), ()

    def _runnable(self, tables: Mapping[Address, PlacedTable]) -> Mapping[Address, SavedQuery]:
        """The queries whose tables are all visible. Others would be refused, or reveal a table."""
        visible_tables = {(at.source, id(table.table)) for at, table in tables.items()}
        return {
            at: query
            for at, query in self._queries.items()
            if all((at.source, id(table)) in visible_tables for table in query.tables)
        }

    def _shows(self, principal: Principal | None, table: PlacedTable) -> bool:
        # Not just truthy: the coroutine of a function that is async by mistake would show every table.
        return self._visible is None or self._visible(principal, table.table) is True


class CatalogueView:
    """The catalogue as one principal sees it at one moment.

    Attributes:
        tables: by their addresses; views too.
        queries: by their addresses.
        visible: the tables and columns that the rules allow, by source.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        tables: Mapping[Address, PlacedTable],
        queries: Mapping[Address, SavedQuery],
        visible: Mapping[str, VisibleNames],
    ) -> None:
        self.catalogue = catalogue
        self.tables = tables
        self.queries = queries
        self.visible = visible

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """All entries, sorted by URI. A source without visible entries has an empty catalog."""
        addresses = [Address(source=source, kind="catalog") for source in self.catalogue.sources]
        addresses += {Address(source=at.source, kind="schema", schema=at.schema) for at in self.tables}
        entries = [self._entry(address, None) for address in addresses]
        entries += [self._entry(address, comment_of(table.table)) for address, table in self.tables.items()]
        entries += [self._entry(address, brief(query)) for address, query in self.queries.items()]
        return sorted(entries, key=lambda entry: entry.uri)

    def has(self, address: Address) -> bool:
        """Whether there is a visible entry at the address."""
        if address.kind == "catalog":
            return address.source in self.catalogue.sources
        if address.kind == "schema":
            return any((at.source, at.schema) == (address.source, address.schema) for at in self.tables)
        return address in self.tables or address in self.queries

    def within(self, address: Address) -> Sequence[Entry]:
        """The members of a catalog or a schema, sorted by URI."""
        return [
            entry
            for entry in self.entries
            if entry.address.source == address.source
            and entry.address.kind not in {address.kind, "catalog"}
            and (address.kind == "catalog" or entry.address.schema == address.schema)
        ]

    def _entry(self, address: Address, comment: str | None) -> Entry:
        return Entry(address, self.catalogue.addressing.write(address), comment)


def _read_tables(registry: Registry) -> Iterator[PlacedTable]:
    """Each table by its schema and name. Tables with the same name get the registry's names."""
    schemas = {getattr(table, "schema", None) for table in registry.tables.values()}
    unnamed = "default" if "default" not in schemas else "(default)"
    names: set[tuple[str, str]] = set()
    for key, table in registry.tables.items():
        schema, name = getattr(table, "schema", None) or unnamed, str(getattr(table, "name", key))
        name = key if (schema, name) in names else name
        names.add((schema, name))
        yield PlacedTable(key, table, "view" if is_view(table) else "table", schema, name)


_LONGEST_NAME = 300


def tables_of(view: CatalogueView, *, source: str | None = None, schema: str | None = None) -> list[Entry]:
    """The visible tables and views, of one source or schema if it is named; sorted by URI.

    Raises:
        BadParameterError: there is no such source or schema for this reader.
    """
    sources = view.catalogue.sources
    if source is not None and source not in sources:
        raise BadParameterError(
            f"There is no source {source[:80]!r}.", hint=_instead(source, sorted(sources))
        )
    schemas = {at.schema for at in view.tables if source in (None, at.source)}
    if schema is not None and schema not in schemas and schema.lower() in UNNAMED:
        schema = next((name for name in schemas if name in UNNAMED), schema)
    if schema is not None and schema not in schemas:
        raise BadParameterError(
            f"There is no schema {schema[:80]!r}.", hint=_instead(schema, sorted(schemas))
        )
    return [
        entry
        for entry in view.entries
        if entry.address in view.tables
        and source in (None, entry.address.source)
        and schema in (None, entry.address.schema)
    ]


MOST_TABLES = 20
"""Tables that one call describes."""


def checked_tables(names: object) -> Sequence[str]:
    """The names of tables in a call, as a list or a single text.

    Raises:
        BadParameterError: the names are not texts, or there are none or too many.
    """
    items = [names] if isinstance(names, str) else names
    if (
        not isinstance(items, Sequence)
        or not 0 < len(items) <= MOST_TABLES
        or not all(isinstance(name, str) and name.strip() for name in items)
    ):
        raise BadParameterError(
            f"table is 1 to {MOST_TABLES} names of tables.", hint='Such as ["orders", "sales.customers"].'
        )
    return list(dict.fromkeys(items))


def find_tables(
    view: CatalogueView, name: str, *, source: str | None = None, schema: str | None = None
) -> list[Address]:
    """The tables or views of that name, which may be "schema.name". Case does not matter without an exact match.

    If several sources have it, the first one counts. In it, schemas may have one each.

    Raises:
        UnknownTableError: the reader sees no such table.
        BadParameterError: more than `_MOST_ALIKE` tables match, or there is no such source or schema.
    """
    addresses = [entry.address for entry in tables_of(view, source=source, schema=schema)]
    # difflib needs time with the square of the length.
    text = name.strip()[:_LONGEST_NAME]
    matches = [at for at in addresses if text in _spellings(at)]
    matches = matches or [at for at in addresses if text.lower() in map(str.lower, _spellings(at))]
    if not matches:
        raise _unknown(text, addresses)
    order = view.catalogue.sources
    first = [at for at in matches if at.source == min((at.source for at in matches), key=order.index)]
    if len(first) > _MOST_ALIKE:
        choices = ", ".join(f"{at.schema}.{at.name}" for at in first[:10])
        raise BadParameterError(f"Several tables are called {text[:80]!r}.", hint=f"Name one of {choices}.")
    return first


_MOST_ALIKE = 5
"""Tables of one name that are described together."""


def nearest(view: CatalogueView, address: Address) -> list[str]:
    """URIs of visible entries with a name similar to an unknown one; at most three."""
    alike = {at.called: entry.uri for entry in view.entries if (at := entry.address).kind == address.kind}
    close = get_close_matches(address.called[:_LONGEST_NAME], alike, n=3, cutoff=0.6)
    return [alike[name] for name in close]


def _spellings(address: Address) -> list[str]:
    schemas = UNNAMED if address.schema in UNNAMED else (address.schema,)
    return [address.name, *(f"{schema}.{address.name}" for schema in schemas)]


UNNAMED = ("default", "(default)", "main", "public")
"""Accepted names for the schema of tables without one: the one of URIs, and those of databases."""


def _unknown(name: str, addresses: Sequence[Address]) -> UnknownTableError:
    names = list(dict.fromkeys(address.name for address in addresses))
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    return UnknownTableError(
        f"There is no table {name[:80]!r}.",
        hint=_instead(name, names) if names else "You have access to no table.",
        details={"table": name[:80], "suggestions": close},
    )


def _instead(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name[:_LONGEST_NAME], names, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    return f"There is {', '.join(names[:20])}."
