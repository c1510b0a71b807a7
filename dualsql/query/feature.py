"""The feature Queries: questions and SQL texts over a stored result, and new results of their answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.errors import ConfigurationError
from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.query.http import query_operations, query_routes
from dualsql.query.service import QueryService, RefineService, query_forms
from dualsql.query.settings import QuerySettings
from dualsql.settings import Settings, takes
from dualsql.sql.feature import SQL
from dualsql.sql.opening import text_opener
from dualsql.sql.service import NamedSources, require_parser

if TYPE_CHECKING:
    from dualsql.server import ResultServer

logger = logging.getLogger(__name__)


class Queries(DescribedFeature):
    """Queries over results; see docs/querying.md. Those in SQL may read tables that the feature SQL offers.

    Its arguments are its settings: see `QuerySettings`.
    """

    uses = (SQL,)
    settings_group = QuerySettings
    statement_forms = (query_forms,)

    @takes(QuerySettings)
    def __init__(self, settings: QuerySettings) -> None:
        self.settings = settings

    def attach(self, server: ResultServer, parts: Parts) -> None:
        sources = (
            server.features.get(SQL).sources
            if SQL in server.features
            else NamedSources(parts.registry, parts.sources, parts.policy)
        )
        self.service = QueryService(
            parts.views,
            parts.pages,
            parts.streams,
            sources,
            settings=parts.settings,
            query_settings=self.settings,
        )
        refinements = RefineService(
            parts.access,
            self.service,
            parts.creator,
            settings=self.settings,
            addresses=parts.addresses,
        )
        parts.creator.refine = refinements.create
        if parts.creator.open_text is None:
            parts.creator.open_text = text_opener(parts.creator, parts.views)

    async def start(self) -> None:
        """See `Extension`. A server without the parser of SQL serves all else."""
        try:
            require_parser()
        except ConfigurationError as error:
            logger.warning("Questions in SQL (/sql) are refused: %s %s", error.message, error.hint)

    def routes(self, server: ResultServer) -> FeatureRoutes:
        return query_routes(server, self.service)

    def operations(self, settings: Settings) -> Sequence[Operation]:
        return query_operations(settings)
