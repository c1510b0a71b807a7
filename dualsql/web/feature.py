"""The feature Pages: results and listings as pages for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.feature import OpenAPI
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.profiles.feature import Profiles
from dualsql.settings import Settings
from dualsql.web.routes import page_operations, page_routes

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Pages(DescribedFeature):
    """Pages, where `Settings.pages` is on; see docs/pages.md."""

    needs = (Profiles, OpenAPI)

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        parts.creator.page_in_text = parts.settings.pages and parts.settings.pages_in_text

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""
        return page_routes(server) if server.settings.pages else FeatureRoutes()

    def operations(self, settings: Settings) -> Sequence[Operation]:
        """See `DescribedFeature`."""
        return page_operations(settings) if settings.pages else ()
