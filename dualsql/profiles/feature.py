"""The feature Profiles: statistics of the columns of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.profiles.http import profile_operations, profile_routes
from dualsql.profiles.service import ProfileService, profile_sample
from dualsql.settings import Settings

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Profiles(DescribedFeature):
    """Profiles of new results and of stored ones; see docs/profile.md."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        self.service = ProfileService(parts.views, parts.access)
        parts.creator.profiler = profile_sample

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""
        return profile_routes(server, self.service)

    def operations(self, settings: Settings) -> Sequence[Operation]:
        """See `DescribedFeature`."""
        return profile_operations(settings)
