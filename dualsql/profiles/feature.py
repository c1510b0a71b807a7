"""The feature Profiles: statistics of the columns of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualsql.extension import Parts
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import DescribedFeature, Operation
from dualsql.profiles.http import profile_operations, profile_routes
from dualsql.profiles.service import ProfileService
from dualsql.profiles.settings import ProfileSettings
from dualsql.query.feature import Queries
from dualsql.resource import Principal
from dualsql.settings import Settings, takes
from dualsql_client.keywords import checked_keywords
from dualsql_client.wire import Profile

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Profiles(DescribedFeature):
    """Profiles of new results and of stored ones; see docs/profile.md.

    Its arguments are its settings: see `ProfileSettings`.
    """

    uses = (Queries,)
    settings_group = ProfileSettings

    @takes(ProfileSettings)
    def __init__(self, settings: ProfileSettings) -> None:
        self.settings = settings

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self._server = server
        queries = server.features.get(Queries).service if Queries in server.features else None
        self.service = ProfileService(parts.views, parts.access, self.settings, queries)
        parts.creator.profiler = self.service.profiler

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
            kind: "sample" looks at the first rows, "full" at all of them; see `ProfileSettings.profile_sample`.
            columns: the columns to profile; None for all that `ProfileSettings.maximum_profile_columns` allows.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `open_resource`.
            ResourcePendingError, ResourceFailedError: the result has no rows yet, or its query failed.
            BadParameterError, UnknownColumnError: the kind or a column is unknown.
        """
        resource = await self._server.open_resource(resource_id, principal, "read")
        return await self.service.profile(resource, principal=principal, kind=kind, columns=columns)

    def routes(self, server: ResultServer) -> FeatureRoutes:
        return profile_routes(server, self.service, takes_queries=Queries in server.features)

    def operations(self, settings: Settings) -> Sequence[Operation]:
        return profile_operations(settings, takes_queries=Queries in self._server.features)
