"""A SQL text or a saved query's name as a Select, for one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import TableClause

from dualsql.catalogue import Catalogue, Visible
from dualsql.databases import Source
from dualsql.errors import BadParameterError, ConfigurationError
from dualsql.freeze import Registry
from dualsql.freeze.document import Statement
from dualsql.resource import Principal
from dualsql.saved_queries import SavedQuery
from dualsql.tenancy import Policy

_SHOWN = 60
_LISTED = 40


class ResolvedQuery(NamedTuple):
    """A Select that somebody asks for.

    Attributes:
        source: the name of the database.
        saved: the saved query that it is.
    """

    select: Statement
    source: str
    saved: SavedQuery | None


class QueryResolver:
    """Makes Selects of what callers ask one server.

    Attributes:
        saved: the saved queries by name.
    """

    def __init__(
        self,
        registry: Registry,
        sources: Mapping[str, Source],
        policy: Policy,
        saved: Mapping[str, SavedQuery],
    ) -> None:
        self._registry = registry
        self._sources = sources
        self._policy = policy
        self.saved = saved

    @property
    def databases(self) -> Mapping[str, str]:
        """What kind of database each source is, as people call it, by the source's name."""
        return {name: source.capabilities.name for name, source in self._sources.items()}

    def catalogue(self, *, visible: Visible | None = None, scheme: str = "catalog") -> Catalogue:
        """What may be seen of the tables and saved queries: `catalogue.seen_by(principal)`.

        Args:
            visible: hides tables besides those that the hooks deny.
            scheme: of the URIs.

        Raises:
            ConfigurationError: the scheme cannot be used.
        """
        dialects = {name: source.engine.dialect for name, source in self._sources.items()}
        queries = self.saved.values()
        return Catalogue(
            self._registry, dialects, self._policy, queries=queries, visible=visible, scheme=scheme
        )

    def of_text(
        self,
        sql: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
        principal: Principal | None = None,
        visible: Visible | None = None,
    ) -> ResolvedQuery:
        """The Select that a SQL text is, in the dialect of its database.

        Raises:
            InvalidSQLError, UnknownTableError, UnknownColumnError, ForbiddenSQLError: see `dualsql.sql.read_select`.
            BadParameterError: there is no such source.
            ForbiddenError: the rules have nothing for this caller.
            ConfigurationError: the extra `sql` is not installed.
        """
        read_select = sql_reader()
        rules = self._policy.rules_for(principal).form  # before a name of a table can be learnt of
        name = self._source(source)
        seen = self._seeing(principal, name, visible)
        made = read_select(
            sql,
            self._registry,
            self._sources[name].engine.dialect.name,
            parameters,
            is_visible=seen,
            hides=rules.filters,
            meanings=self._sources[name].meanings,
        )
        return ResolvedQuery(made, name, None)

    def of_name(
        self,
        name: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        source: str | None = None,
        principal: Principal | None = None,
        visible: Visible | None = None,
    ) -> ResolvedQuery:
        """The saved query of that name, with values for its parameters.

        Raises:
            BadParameterError: there is none that the caller may see, or the parameters do not fit.
            ForbiddenError: the rules have nothing for this caller.
        """
        self._policy.rules_for(principal)
        known = {
            known: query
            for known, query in self.saved.items()
            if all(
                map(self._seeing(principal, query.source or next(iter(self._sources)), visible), query.tables)
            )
        }
        query = known.get(name)
        if query is None:
            _refuse("saved query", name, known)
        found = self._source(query.source or source)
        if source is not None and source != found:
            raise BadParameterError(
                f"The saved query {query.name!r} is of another source.", hint="Leave source_name out."
            )
        return ResolvedQuery(query.with_values(parameters, self._sources[found].engine.dialect), found, query)

    def _seeing(
        self, principal: Principal | None, source: str, visible: Visible | None
    ) -> Callable[[TableClause], bool]:
        """Whether a table is in the catalogue of this principal: what is not there is unknown here, too."""
        sight = self._policy.visible_names(principal, source)

        def sees(table: TableClause) -> bool:
            is_allowed = self._registry.name_of(table) in sight.tables
            return is_allowed and (visible is None or visible(principal, table) is True)

        return sees

    def _source(self, name: str | None) -> str:
        if name is None and len(self._sources) == 1:
            return next(iter(self._sources))
        if name is None or name not in self._sources:
            _refuse("source", "" if name is None else name, self._sources)
        return name


def sql_reader() -> Callable[..., Statement]:
    """`dualsql.sql.read_select`, whose parser is an extra.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        from dualsql.sql.translate import read_select
    except ImportError as error:
        raise ConfigurationError("SQL texts need a parser.", hint='pip install "dualsql[sql]"') from error
    return read_select


def _refuse(what: str, name: str, known: Iterable[str]) -> NoReturn:
    names = sorted(known)
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    listed = ", ".join(names[:_LISTED]) or "none"
    raise BadParameterError(
        f"Which {what}? There are several."
        if names and not name
        else f"There is no {what} {name[:_SHOWN]!r}.",
        hint=f"Did you mean {' or '.join(close)}?" if close else f"There are: {listed}.",
        details={"suggestions": close, "known": names[:_LISTED]},
    )
