"""The feature SQL: texts of SQL become Selects, and saved queries run by name."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from dualsql.catalogue.feature import Tables
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.sql import service

if TYPE_CHECKING:
    from dualsql.server import ResultServer
    from dualsql.sql.service import SavedQueries


class SQL(Feature):
    """SQL texts of models and people; see docs/sql.md.

    Attributes:
        sources: the databases and the tables that texts may name.
    """

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        self._server = server
        self.sources = service.NamedSources(parts.registry, parts.sources, parts.policy)
        self.service = service.SQLService(self.sources)

    @cached_property
    def saved_queries(self) -> SavedQueries:
        """The saved queries of the feature Tables by name."""
        features = self._server.features
        queries = features.get(Tables).saved_queries if Tables in features else {}
        return service.SavedQueries(queries, self.sources)
