"""The feature Pages: results and listings as pages for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.links import SignedLinks
from dualsql.openapi.feature import OpenAPI
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.profiles.feature import Profiles
from dualsql.settings import Settings, takes
from dualsql.web.routes import page_operations, page_routes
from dualsql.web.settings import PageSettings

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Pages(DescribedFeature):
    """A browser's GET of a result, and of the list of results, is answered with a page; see docs/pages.md.

    Programs still get JSON. It needs the extra `web`. Its arguments are its settings: see `PageSettings`.
    """

    needs = (Profiles, OpenAPI)
    uses = (SignedLinks,)
    settings_group = PageSettings

    @takes(PageSettings)
    def __init__(self, settings: PageSettings) -> None:
        self.settings = settings

    def attach(self, server: ResultServer, parts: Parts) -> None:
        parts.creator.page_in_text = self.settings.pages_in_text
        self._has_links = SignedLinks in server.features
        if self._has_links:
            server.features.get(SignedLinks).sent.reads_cookie = True

    def routes(self, server: ResultServer) -> FeatureRoutes:
        return page_routes(server, self.settings)

    def operations(self, settings: Settings) -> Sequence[Operation]:
        return page_operations(settings, has_links=self._has_links)
