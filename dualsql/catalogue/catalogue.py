"""All tables and saved queries, and what one principal sees of them; the rule: what is seen is asked at every look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from sqlalchemy.engine import Dialect

from dualsql.catalogue.addresses import Address, Addressing, Kind
from dualsql.catalogue.describing import ColumnDefinition, Facts, brief, comment_of, facts_of, is_view
from dualsql.catalogue.searching import Index, indexed
from dualsql.freeze import Registry
from dualsql.narrowing import Sight
from dualsql.queries import SavedQuery
from dualsql.resource import Principal

Visible = Callable[[Principal | None, Any], bool]
"""An operator's own word on whether a principal may know of a Table: it hides what the rules allow, and shows no more.

It must be quick: it is asked about every table at every look."""


class Rules(Protocol):
    """What is asked of a `dualsql.narrowing.Policy`."""

    def sight(self, principal: Principal | None, source: str) -> Sight:
        """Which tables `principal` could query on `source`."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing of the catalogue, as lists name it."""

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
class Placed:
    """A registered table, and where it stands."""

    key: str
    table: Any
    kind: Kind
    schema: str
    name: str

    def at(self, source: str) -> Address:
        """Where it stands in one of the databases."""
        return Address(source=source, kind=self.kind, schema=self.schema, name=self.name)


class Catalogue:
    """The tables and saved queries of a server.

    Args:
        dialects: of each source, by its name.
        queries: one without a source is that of the first.
        visible: see `Visible`; what it raises goes through.
        scheme: of the URIs.

    Raises:
        ConfigurationError: the scheme cannot be used.
    """

    def __init__(
        self,
        registry: Registry,
        dialects: Mapping[str, Dialect],
        rules: Rules,
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
        self._facts: dict[tuple[str, str], Facts] = {}

    def seen_by(self, principal: Principal | None) -> Seen:
        """What `principal` sees now."""
        sights = {source: self._rules.sight(principal, source) for source in self.sources}
        allowed = [placed for placed in self._placed if self._shows(principal, placed)]
        tables = {
            placed.at(source): placed
            for source, sight in sights.items()
            for placed in allowed
            if placed.key in sight.tables
        }
        return Seen(self, tables, self._runnable(tables), sights)

    def dialect_of(self, source: str) -> str:
        """Which SQL a source speaks: "sqlite", "postgresql", "mysql", "duckdb"."""
        return self._dialects[source].name

    def place_of(self, table: Any) -> Placed | None:
        """Where a Table stands, if it is registered."""
        return self._names.get(id(table))

    def facts(self, source: str, placed: Placed) -> Facts:
        """What holds of a table for whoever sees it."""
        key = source, placed.key
        if key not in self._facts:
            self._facts[key] = facts_of(placed.table, self._dialects[source])
        return self._facts[key]

    @cached_property
    def index(self) -> Index:
        """All that can be searched for, whoever sees it: `search` is told what its caller sees."""
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

    def _runnable(self, tables: Mapping[Address, Placed]) -> Mapping[Address, SavedQuery]:
        """The queries whose tables are all seen: the others would be refused, or say what is there."""
        seen = {(at.source, id(placed.table)) for at, placed in tables.items()}
        return {
            at: query
            for at, query in self._queries.items()
            if all((at.source, id(table)) in seen for table in query.tables)
        }

    def _shows(self, principal: Principal | None, placed: Placed) -> bool:
        return self._visible is None or self._visible(principal, placed.table) is True


class Seen:
    """The catalogue as one principal sees it at one moment.

    Attributes:
        tables: by their addresses; views too.
        queries: by their addresses.
        sights: what the rules say, by source.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        tables: Mapping[Address, Placed],
        queries: Mapping[Address, SavedQuery],
        sights: Mapping[str, Sight],
    ) -> None:
        self.catalogue = catalogue
        self.tables = tables
        self.queries = queries
        self.sights = sights

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Everything, sorted by URI. A source in which nothing is seen has its catalog, with nothing in it."""
        addresses = [Address(source=source, kind="catalog") for source in self.catalogue.sources]
        addresses += {Address(source=at.source, kind="schema", schema=at.schema) for at in self.tables}
        entries = [self._entry(address, None) for address in addresses]
        entries += [self._entry(address, comment_of(placed.table)) for address, placed in self.tables.items()]
        entries += [self._entry(address, brief(query)) for address, query in self.queries.items()]
        return sorted(entries, key=lambda entry: entry.uri)

    def has(self, address: Address) -> bool:
        """Whether something is seen there."""
        if address.kind == "catalog":
            return address.source in self.catalogue.sources
        if address.kind == "schema":
            return any((at.source, at.schema) == (address.source, address.schema) for at in self.tables)
        return address in self.tables or address in self.queries

    def within(self, address: Address) -> Sequence[Entry]:
        """What is in a catalog or a schema, sorted by URI."""
        return [
            entry
            for entry in self.entries
            if entry.address.source == address.source
            and entry.address.kind not in {address.kind, "catalog"}
            and (address.kind == "catalog" or entry.address.schema == address.schema)
        ]

    def _entry(self, address: Address, comment: str | None) -> Entry:
        return Entry(address, self.catalogue.addressing.write(address), comment)


def _placed(registry: Registry) -> Iterator[Placed]:
    """Each table by its own schema and name; of two with the same, the registry's name tells them apart."""
    named = {getattr(table, "schema", None) for table in registry.tables.values()}
    unnamed = "default" if "default" not in named else "(default)"
    taken: set[tuple[str, str]] = set()
    for key, table in registry.tables.items():
        schema, name = getattr(table, "schema", None) or unnamed, str(getattr(table, "name", key))
        name = key if (schema, name) in taken else name
        taken.add((schema, name))
        yield Placed(key, table, "view" if is_view(table) else "table", schema, name)
