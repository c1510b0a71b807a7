"""The feature SQL: texts of SQL become Selects, and saved queries run by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualsql.catalogue.feature import Tables
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.sql.opening import text_opener
from dualsql.sql.service import NamedSources, SavedQueries, SQLService

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class SQL(Feature):
    """SQL texts of models and people, and the saved queries of the feature Tables; see docs/sql.md.

    Attributes:
        sources: the databases and the tables that texts may name.
    """

    uses = (Tables,)

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self.sources = NamedSources(parts.registry, parts.sources, parts.policy)
        queries = server.features.get(Tables).saved_queries if Tables in server.features else {}
        self.service = SQLService(self.sources, SavedQueries(queries, self.sources))
        parts.creator.open_text = text_opener(parts.creator, parts.views)
