"""The feature Charts: charts of results, stored as results of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.charts.http import OPERATION, chart_routes
from dualsql.charts.service import ChartService
from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.query.feature import Queries
from dualsql.settings import Settings

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Charts(DescribedFeature):
    """Charts; see docs/charts.md."""

    needs = (Queries,)

    def attach(self, server: ResultServer, parts: Parts) -> None:
        queries = server.features.get(Queries).service
        services = (parts.creator, parts.views, parts.access, queries)
        self.service = ChartService(*services, settings=parts.settings, start=parts.ready)

    def routes(self, server: ResultServer) -> FeatureRoutes:
        return chart_routes(server, self.service)

    def operations(self, settings: Settings) -> Sequence[Operation]:
        return [OPERATION]

    def renew(self) -> None:
        self.service.renew()
