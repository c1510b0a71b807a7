"""SQL texts and names of saved queries, resolved to Selects for one caller."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import Dialect, MetaData, TableClause

from dualsql.catalogue import Visible
from dualsql.databases.source import Source
from dualsql.databases.text_threads import compute_in_thread
from dualsql.errors import BadParameterError, ConfigurationError
from dualsql.freeze import Registry
from dualsql.freeze.document import Statement
from dualsql.packages import require_package
from dualsql.resource import Principal
from dualsql.saved_queries import SavedQuery
from dualsql.tenancy import Policy
from dualsql.tenancy.visibility import visible_names

_LONGEST_EXCERPT = 60
_LISTED = 40


class ResolvedQuery(NamedTuple):
    """The Select of a SQL text or of a saved query.

    Attributes:
        source: the name of its database.
        saved: the saved query; None for a SQL text.
    """

    select: Statement
    source: str
    saved: SavedQuery | None


class ReadableTables(NamedTuple):
    """The tables of a registry that one caller may read in SQL texts, by their names there."""

    registry: Registry
    names: frozenset[str]

    def is_visible(self, table: TableClause) -> bool:
        """Whether the caller may read the table."""
        return self.registry.name_of(table) in self.names

    def column_names(self) -> Iterator[str]:
        """The names of the columns of the tables."""
        return (column.name for name in self.names for column in self.registry.tables[name].c)


NO_TABLES = ReadableTables(Registry(MetaData()), frozenset())


class NamedSources:
    """The databases of one server by name, and the tables of each that a principal may name."""

    def __init__(self, registry: Registry, sources: Mapping[str, Source], policy: Policy) -> None:
        self.registry = registry
        self.sources = sources
        self.policy = policy
        # Source -> `visible` of each tool that runs SQL texts over its tables.
        self._offers: dict[str, list[Visible | None]] = {}

    @property
    def dialects(self) -> Mapping[str, Dialect]:
        """The dialect of each database."""
        return {name: source.engine.dialect for name, source in self.sources.items()}

    def require_name(self, name: str | None) -> str:
        """The name of a database. None means the only one.

        Raises:
            BadParameterError: there is no such database, or several and none is named.
        """
        if name is None and len(self.sources) == 1:
            return next(iter(self.sources))
        if name is None or name not in self.sources:
            _refuse("source", "" if name is None else name, self.sources)
        return name

    def is_visible(
        self, principal: Principal | None, source: str, visible: Visible | None
    ) -> Callable[[TableClause], bool]:
        """Whether the principal sees a table in the catalogue. Its SQL can name only these tables."""
        names = visible_names(self.policy, principal, source)

        def shows_table(table: TableClause) -> bool:
            is_allowed = self.registry.name_of(table) in names.tables
            # `is True`: see Catalogue._shows.
            return is_allowed and (visible is None or visible(principal, table) is True)

        return shows_table

    def offer(self, source: str | None, visible: Visible | None) -> None:
        """Record that callers may read the tables of a source in SQL texts: see `SQLService.offer`."""
        for name in self.sources if source is None else [self.require_name(source)]:
            offers = self._offers.setdefault(name, [])
            if visible not in offers:
                offers.append(visible)

    def readable(self, principal: Principal | None, source: str) -> ReadableTables:
        """The tables of a source that the principal may read in any SQL text: none, unless `offer` recorded it."""
        offers = self._offers.get(source)
        # Functions among the hooks change the statements of tools, and would not see what a text adds to one.
        if not offers or self.policy.has_functions:
            return NO_TABLES
        tests = [self.is_visible(principal, source, visible) for visible in offers]
        tables = {
            name: table for name, table in self.registry.tables.items() if isinstance(table, TableClause)
        }
        readable = frozenset(name for name, table in tables.items() if all(test(table) for test in tests))
        return ReadableTables(self.registry, readable)


class SQLService:
    """Makes Selects of SQL texts for one server.

    Attributes:
        saved_queries: the saved queries by name.
    """

    def __init__(self, sources: NamedSources, saved_queries: SavedQueries) -> None:
        self._sources = sources
        self.saved_queries = saved_queries

    @property
    def databases(self) -> Mapping[str, str]:
        """The kind of database of each source, for people: source name -> "PostgreSQL"."""
        return {name: source.capabilities.name for name, source in self._sources.sources.items()}

    def offer(self, *, source: str | None = None, visible: Visible | None = None) -> None:
        """Let SQL texts over results read the tables, too, for those who may read them in SQL (docs/querying.md).

        `add_execute_query` and `add_query` call it. A table is read if `visible` of each call shows it.

        Args:
            source: the database; each one unless given.
            visible: as in `resolve`.

        Raises:
            BadParameterError: there is no such source.
        """
        self._sources.offer(source, visible)

    def resolve(
        self,
        sql: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
        principal: Principal | None = None,
        visible: Visible | None = None,
    ) -> ResolvedQuery:
        """Translate a SQL text, written in the dialect of its database, into a Select.

        This takes up to 50 ms; where an event loop runs, call `read`.

        Args:
            parameters: values of each `:name` in the text.
            visible: hides further tables, besides those that the hooks deny.

        Raises:
            InvalidSQLError, UnknownTableError, UnknownColumnError, ForbiddenSQLError: see `dualsql.sql.read_select`.
            BadParameterError: there is no such source.
            ForbiddenError: the rules have no value for this caller.
            ConfigurationError: the extra `sql` is not installed.
        """
        read_select = sql_reader()
        # Callers without access are refused before any name of a table is resolved.
        rules = self._sources.policy.rules_for(principal).form
        name = self._sources.require_name(source)
        dialect = self._sources.dialects[name]
        statement = read_select(
            sql,
            self._sources.registry,
            dialect.name,
            parameters,
            # SQLAlchemy sets it with the first connection; the proof at the start has made one.
            version=getattr(dialect, "server_version_info", None),
            is_visible=self._sources.is_visible(principal, name, visible),
            hides=lambda table: id(table) in rules.conditions,
            meanings=self._sources.sources[name].meanings,
        )
        return ResolvedQuery(statement, name, None)

    async def read(
        self,
        sql: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
        principal: Principal | None = None,
        visible: Visible | None = None,
    ) -> ResolvedQuery:
        """As `resolve`; a text that is not short is read in a worker thread.

        Raises:
            TooManyQueriesError: too many texts are being read already.
        """
        policy = self._sources.policy
        # Callers without access get no thread.
        policy.rules_for(principal)
        name = self._sources.require_name(source)
        work = partial(
            self.resolve, sql, parameters=parameters, source=name, principal=principal, visible=visible
        )
        # Hooks that are functions are called for each table.
        if is_short(sql) and not policy.has_functions:
            return work()
        return await compute_in_thread(self._sources.sources[name].limits, work)


_SHORT = 200
"""Characters. 27 copies of a table fit, which take 25 ms in the slowest step."""


def is_short(sql: str) -> bool:
    """Whether a text is so short that the event loop reads it: a thread would cost more than it saves."""
    # To import the parser takes 100 ms.
    return len(sql) <= _SHORT and "dualsql.sql.translate" in sys.modules


class SavedQueries(Mapping[str, SavedQuery]):
    """The saved queries of one server by name."""

    def __init__(self, queries: Mapping[str, SavedQuery], sources: NamedSources) -> None:
        self._queries = queries
        self._sources = sources

    def __getitem__(self, name: str) -> SavedQuery:
        return self._queries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    def resolve(
        self,
        name: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
        principal: Principal | None = None,
        visible: Visible | None = None,
    ) -> ResolvedQuery:
        """The Select of the saved query of that name, with values for its parameters.

        Args:
            visible: hides tables besides those that the hooks deny, and the queries that read them.

        Raises:
            BadParameterError: the caller sees no such query, or a parameter is invalid.
            ForbiddenError: the rules have no value for this caller.
        """
        # As for texts: it raises for callers without access, before a name is resolved.
        self._sources.policy.rules_for(principal)
        visible_queries = {
            each: query for each, query in self.items() if self._is_visible(query, principal, visible)
        }
        query = visible_queries.get(name)
        if query is None:
            _refuse("saved query", name, visible_queries)
        source_name = self._sources.require_name(query.source or source)
        if source is not None and source != source_name:
            raise BadParameterError(
                f"The saved query {query.name!r} is of another source.", hint="Leave source_name out."
            )
        return ResolvedQuery(
            query.with_values(parameters, self._sources.dialects[source_name]), source_name, query
        )

    def _is_visible(self, query: SavedQuery, principal: Principal | None, visible: Visible | None) -> bool:
        source = query.source or next(iter(self._sources.sources))
        return all(map(self._sources.is_visible(principal, source, visible), query.tables))


def sql_reader() -> Callable[..., Statement]:
    """`dualsql.sql.read_select`, whose parser is an extra.

    Raises:
        ConfigurationError: the extra `sql` is not installed.
    """
    require_parser()
    from dualsql.sql.translate import read_select

    return read_select


def require_parser() -> None:
    """Check, without importing it, that sqlglot is installed and is not its compiled build.

    Raises:
        ConfigurationError: sqlglot is missing, or its compiled build is installed.
    """
    require_package("sqlglot", "SQL texts need a parser.", hint='pip install "dualsql[sql]"')
    package = find_spec("sqlglot")
    folders = package.submodule_search_locations if package else None
    core = PathFinder.find_spec("sqlglot.tokenizer_core", list(folders or ()))
    if core is not None and not (core.origin or "").endswith(".py"):
        raise ConfigurationError(
            "The compiled build of sqlglot is installed, whose steps cannot be counted.",
            hint="Uninstall it: pip uninstall sqlglotc.",
        )


def _refuse(what: str, name: str, candidates: Iterable[str]) -> NoReturn:
    names = sorted(candidates)
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    choices = ", ".join(names[:_LISTED]) or "none"
    raise BadParameterError(
        f"Which {what}? There are several."
        if names and not name
        else f"There is no {what} {name[:_LONGEST_EXCERPT]!r}.",
        hint=f"Did you mean {' or '.join(close)}?" if close else f"There are: {choices}.",
        details={"suggestions": close, "known": names[:_LISTED]},
    )
