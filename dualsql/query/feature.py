"""The feature Queries: questions and SQL texts over a stored result, and new results of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.query.http import query_operations, query_routes
from dualsql.query.service import QueryService, RefineService, query_forms
from dualsql.settings import Settings
from dualsql.sql.feature import SQL
from dualsql.sql.service import NamedSources

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Queries(DescribedFeature):
    """Queries over results; see docs/querying.md. Those in SQL may read tables that the feature SQL offers."""

    uses = (SQL,)
    statement_forms = (query_forms,)

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        sources = (
            server.features.get(SQL).sources
            if SQL in server.features
            else NamedSources(parts.registry, parts.sources, parts.policy)
        )
        self.service = QueryService(parts.views, parts.pages, parts.streams, parts.settings, sources)
        refinements = RefineService(
            parts.access,
            self.service,
            parts.creator,
            settings=parts.settings,
            addresses=parts.addresses,
        )
        parts.creator.refine = refinements.create

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""
        return query_routes(server, self.service)

    def operations(self, settings: Settings) -> Sequence[Operation]:
        """See `DescribedFeature`."""
        return query_operations(settings)
