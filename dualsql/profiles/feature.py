"""The feature Profiles: statistics of the columns of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.profiles.http import profile_operations, profile_routes
from dualsql.profiles.service import ProfileService, profile_sample
from dualsql.resource import Principal
from dualsql.settings import Settings
from dualsql_client.errors import checked_keywords
from dualsql_client.wire import Profile

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Profiles(DescribedFeature):
    """Profiles of new results and of stored ones; see docs/profile.md."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        self._server = server
        self.service = ProfileService(parts.views, parts.access)
        parts.creator.profiler = profile_sample

    @checked_keywords()
    async def profile(
        self,
        resource_id: str,
        principal: Principal | None,
        *,
        kind: str = "sample",
        columns: Sequence[str] | None = None,
    ) -> Profile:
        """Statistics of the columns of a result. If time runs out, the profile says what is missing.

        Args:
            kind: "sample" looks at the first rows, "full" at all of them; see `Settings.profile_sample`.
            columns: the columns to profile; None for all that `Settings.maximum_profile_columns` allows.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `open_resource`.
            ResourcePendingError, ResourceFailedError: the result has no rows yet, or its query failed.
            BadParameterError, UnknownColumnError: the kind or a column is unknown.
        """
        resource = await self._server.open_resource(resource_id, principal, "read")
        return await self.service.profile(resource, principal=principal, kind=kind, columns=columns)

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""
        return profile_routes(server, self.service)

    def operations(self, settings: Settings) -> Sequence[Operation]:
        """See `DescribedFeature`."""
        return profile_operations(settings)
