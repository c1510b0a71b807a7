"""The feature Tables: what callers may query, by name: the registered tables and the saved queries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from dualsql.catalogue.catalogue import Catalogue, Visible
from dualsql.databases.source import Sources
from dualsql.errors import ConfigurationError, LimitExceededError, NotFreezableError
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.saved_queries import SavedQuery, saved_queries
from dualsql.tenancy.visibility import visible_names

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Tables(Feature):
    """The catalogue of tables and saved queries.

    Args:
        saved_queries: queries that callers may run by name; each is checked when the server is created.
    """

    def __init__(self, saved_queries: Iterable[SavedQuery] = ()) -> None:
        self._saved_queries = tuple(saved_queries)

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self._parts = parts
        self.saved_queries = checked_saved_queries(self._saved_queries, parts.sources)

    def catalogue(self, *, visible: Visible | None = None, scheme: str = "catalog") -> Catalogue:
        """The catalogue of tables and saved queries: `catalogue().view_for(principal)`.

        Args:
            visible: hides further tables, besides those that the hooks deny.
            scheme: of the URIs.

        Raises:
            ConfigurationError: the scheme cannot be used.
        """
        return Catalogue(
            self._parts.registry,
            {name: source.engine.dialect for name, source in self._parts.sources.items()},
            partial(visible_names, self._parts.policy),
            queries=self.saved_queries.values(),
            visible=visible,
            scheme=scheme,
        )


def checked_saved_queries(queries: Iterable[SavedQuery], sources: Sources) -> dict[str, SavedQuery]:
    """The saved queries by name; each is frozen once to check that it can be stored.

    Raises:
        ConfigurationError: a query cannot be stored, names an unknown source, or repeats a name.
    """
    by_name = saved_queries(queries)
    for query in by_name.values():
        try:
            sources.chosen(query.source).freeze(query.select)
        except (NotFreezableError, LimitExceededError) as error:
            raise ConfigurationError(
                f"The saved query {query.name!r} cannot be stored: {error.message}"[:500], hint=error.hint
            ) from error
    return by_name
