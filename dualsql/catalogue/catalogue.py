"""All tables and saved queries, and those that one principal may see. Denied and unknown look the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Protocol

from sqlalchemy.engine import Dialect
from typing_extensions import TypedDict

from dualsql.catalogue.addresses import Address, Addressing, Kind
from dualsql.catalogue.describe import ColumnDefinition, TableFacts, brief, comment_of, facts_of, is_view
from dualsql.catalogue.search import Index, Match, checked_terms, indexed, search
from dualsql.errors import BadParameterError, UnknownTableError
from dualsql.freeze import Registry
from dualsql.resource import Principal
from dualsql.saved_queries import SavedQuery
from dualsql.tenancy import VisibleNames

Visible = Callable[[Principal | None, Any], bool]
"""The operator's function that hides tables from a principal. It can only hide more than the rules do.

It has to be fast, because it is called for every table at every request of the catalogue."""


class VisibilityRules(Protocol):
    """The part of `dualsql.tenancy.Policy` that the catalogue uses."""

    def visible_names(self, principal: Principal | None, source: str) -> VisibleNames:
        """Which tables `principal` could query on `source`."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the catalogue, as lists show it."""

    address: Address
    uri: str
    comment: str | None

    @property
    def title(self) -> str:
        """The name that a list shows."""
        found = self.address
        return {"catalog": f"Catalog of {found.source}", "schema": f"Schema {found.schema}"}.get(
            found.kind, found.name
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
        visible: see `Visible`; its exceptions are not caught.
        scheme: of the URIs.

    Raises:
        ConfigurationError: the scheme cannot be used.
    """

    def __init__(
        self,
        registry: Registry,
        dialects: Mapping[str, Dialect],
        rules: VisibilityRules,
        *,
        queries: Iterable[SavedQuery] = (),
        visible: Visible | None = None,
        scheme: str = "catalog",
    ) -> None:
        self.addressing = Addressing(scheme)
        self.sources = tuple(dialects)
        self._dialects = dialects
        self._rules = rules
        self._visible = visible
        self._placed = list(_placed(registry))
        self._names = {id(placed.table): placed for placed in self._placed}
        self._queries = {
            Address(source=query.source or self.sources[0], kind="query", name=query.name): query
            for query in queries
        }
        self._facts: dict[tuple[str, str], TableFacts] = {}

    def seen_by(self, principal: Principal | None) -> CatalogueView:
        """The catalogue as `principal` sees it now."""
        visible = {source: self._rules.visible_names(principal, source) for source in self.sources}
        allowed = [placed for placed in self._placed if self._shows(principal, placed)]
        tables = {
            placed.at(source): placed
            for source, names in visible.items()
            for placed in allowed
            if placed.key in names.tables
        }
        return CatalogueView(self, tables, self._runnable(tables), visible)

    def dialect_of(self, source: str) -> str:
        """The SQL dialect of a source: "sqlite", "postgresql", "mysql", "duckdb"."""
        return self._dialects[source].name

    def placed(self, table: Any) -> PlacedTable | None:
        """The address of a Table, if it is registered."""
        return self._names.get(id(table))

    def facts(self, source: str, placed: PlacedTable) -> TableFacts:
        """The facts about a table that are the same for every caller."""
        # By source too, because a type is written as the source's dialect does.
        key = source, placed.key
        if key not in self._facts:
            self._facts[key] = facts_of(placed.table, self._dialects[source])
        return self._facts[key]

    @cached_property
    def index(self) -> Index:
        """The search index of all entries, for every caller; `search` gets the entries that its caller sees."""
        return indexed(self._things())

    def _things(self) -> Iterator[tuple[Address, str | None, Iterable[ColumnDefinition]]]:
        for source in self.sources:
            yield Address(source=source, kind="catalog"), None, ()
            for schema in sorted({placed.schema for placed in self._placed}):
                yield Address(source=source, kind="schema", schema=schema), None, ()
            for placed in self._placed:
                facts = self.facts(source, placed)
                yield placed.at(source), facts.comment, facts.columns.values()
        for address, query in self._queries.items():
            yield address, brief(query), ()

    def _runnable(self, tables: Mapping[Address, PlacedTable]) -> Mapping[Address, SavedQuery]:
        """The queries whose tables are all visible. Others would be refused, or reveal a table."""
        seen = {(at.source, id(placed.table)) for at, placed in tables.items()}
        return {
            at: query
            for at, query in self._queries.items()
            if all((at.source, id(table)) in seen for table in query.tables)
        }

    def _shows(self, principal: Principal | None, placed: PlacedTable) -> bool:
        # Not just truthy: the coroutine of a function that is async by mistake would show every table.
        return self._visible is None or self._visible(principal, placed.table) is True


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
        entries += [self._entry(address, comment_of(placed.table)) for address, placed in self.tables.items()]
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


def _placed(registry: Registry) -> Iterator[PlacedTable]:
    """Each table by its schema and name. Tables with the same name get the registry's names."""
    named = {getattr(table, "schema", None) for table in registry.tables.values()}
    unnamed = "default" if "default" not in named else "(default)"
    taken: set[tuple[str, str]] = set()
    for key, table in registry.tables.items():
        schema, name = getattr(table, "schema", None) or unnamed, str(getattr(table, "name", key))
        name = key if (schema, name) in taken else name
        taken.add((schema, name))
        yield PlacedTable(key, table, "view" if is_view(table) else "table", schema, name)


_LONGEST_NAME = 300
_MOST_COLUMNS = 10


class Found(TypedDict):
    """An entry that a term found, with its score out of 100 and the columns that matched."""

    term: str
    kind: Kind
    source: str
    schema: str | None
    name: str
    columns: list[str]
    score: float
    comment: str | None
    uri: str


def tables_of(seen: CatalogueView, *, source: str | None = None, schema: str | None = None) -> list[Entry]:
    """The visible tables and views, of one source or schema if it is named; sorted by URI.

    Raises:
        BadParameterError: there is no such source or schema for this reader.
    """
    checked_source(seen, source)
    schemas = {at.schema for at in seen.tables if source in (None, at.source)}
    if schema is not None and schema not in schemas and schema.lower() in UNNAMED:
        schema = next((name for name in schemas if name in UNNAMED), schema)
    if schema is not None and schema not in schemas:
        raise BadParameterError(
            f"There is no schema {schema[:80]!r}.", hint=_instead(schema, sorted(schemas))
        )
    return [
        entry
        for entry in seen.entries
        if entry.address in seen.tables
        and source in (None, entry.address.source)
        and schema in (None, entry.address.schema)
    ]


def checked_source(seen: CatalogueView, source: str | None) -> str | None:
    """The source, if it exists.

    Raises:
        BadParameterError: there is no source of that name.
    """
    known = seen.catalogue.sources
    if source is not None and source not in known:
        raise BadParameterError(f"There is no source {source[:80]!r}.", hint=_instead(source, sorted(known)))
    return source


MOST_TABLES = 20
"""Tables that one call describes."""


def checked_tables(names: object) -> Sequence[str]:
    """The names of tables in a call, as a list or a single text.

    Raises:
        BadParameterError: the names are not texts, or there are none or too many.
    """
    given = [names] if isinstance(names, str) else names
    if (
        not isinstance(given, Sequence)
        or not 0 < len(given) <= MOST_TABLES
        or not all(isinstance(name, str) and name.strip() for name in given)
    ):
        raise BadParameterError(
            f"table is 1 to {MOST_TABLES} names of tables.", hint='Such as ["orders", "sales.customers"].'
        )
    return list(dict.fromkeys(given))


def find_table(
    seen: CatalogueView, name: str, *, source: str | None = None, schema: str | None = None
) -> Address:
    """The table or view of that name, which may be "schema.name". Case does not matter if only one matches.

    If several sources have it, the first one counts.

    Raises:
        UnknownTableError: the reader sees no such table.
        BadParameterError: several tables match, or there is no such source or schema.
    """
    addresses = [entry.address for entry in tables_of(seen, source=source, schema=schema)]
    # difflib needs time with the square of the length.
    wanted = name.strip()[:_LONGEST_NAME]
    found = [at for at in addresses if wanted in _spellings(at)]
    found = found or [at for at in addresses if wanted.lower() in map(str.lower, _spellings(at))]
    if not found:
        raise _unknown(wanted, addresses)
    order = seen.catalogue.sources
    first = [at for at in found if at.source == min((at.source for at in found), key=order.index)]
    if len(first) > 1:
        choices = ", ".join(f"{at.schema}.{at.name}" for at in first[:10])
        raise BadParameterError(f"Several tables are called {wanted[:80]!r}.", hint=f"Name one of {choices}.")
    return first[0]


def nearest(seen: CatalogueView, address: Address) -> list[str]:
    """URIs of visible entries with a name similar to an unknown one; at most three."""
    alike = {at.called: entry.uri for entry in seen.entries if (at := entry.address).kind == address.kind}
    close = get_close_matches(address.called[:_LONGEST_NAME], alike, n=3, cutoff=0.6)
    return [alike[name] for name in close]


def search_all(seen: CatalogueView, terms: Sequence[str], *, limit: int) -> list[Found]:
    """The matches of each term in the names and comments of visible entries: at most `limit` each, the best first.

    Raises:
        BadParameterError: there are too many terms, or one is too long.
        ConfigurationError: rapidfuzz is not installed.
    """
    checked = checked_terms(terms)
    entries = {entry.address: entry for entry in seen.entries}
    index = seen.catalogue.index
    return [
        _found(term, entries[match.address], match)
        for term in checked
        for match in search(term, index, entries.__contains__, limit)
    ]


def _found(term: str, entry: Entry, match: Match) -> Found:
    at = entry.address
    return Found(
        term=term,
        kind=at.kind,
        source=at.source,
        schema=at.schema or None,
        name=at.called,
        columns=list(match.columns[:_MOST_COLUMNS]),
        score=match.score,
        comment=entry.comment,
        uri=entry.uri,
    )


def _spellings(address: Address) -> list[str]:
    schemas = UNNAMED if address.schema in UNNAMED else (address.schema,)
    return [address.name, *(f"{schema}.{address.name}" for schema in schemas)]


UNNAMED = ("default", "(default)", "main", "public")
"""Accepted names for the schema of tables without one: the one of URIs, and those of databases."""


def _unknown(name: str, addresses: Sequence[Address]) -> UnknownTableError:
    known = list(dict.fromkeys(address.name for address in addresses))
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    return UnknownTableError(
        f"There is no table {name[:80]!r}.",
        hint=_instead(name, known) if known else "You have access to no table.",
        details={"table": name[:80], "suggestions": close},
    )


def _instead(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name[:_LONGEST_NAME], known, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    return f"There is {', '.join(known[:20])}."
