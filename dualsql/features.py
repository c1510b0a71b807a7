"""The server with the features of the package. No other module names all of them.

`DualResponseServer` adds to `ResultServer` the default list of features, and an attribute for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dualsql.errors import ConfigurationError
from dualsql.feature import Feature, attach_features, feature_routes
from dualsql.http.router import build_router, origin_of, own_hosts
from dualsql.mcp.options import ToolOptions
from dualsql.resource import Principal
from dualsql.results.create import SampleRunner
from dualsql.results.options import storage_missing
from dualsql.server import KernelOptions, ResultServer
from dualsql.settings import takes
from dualsql_client.errors import checked_keywords
from dualsql_client.wire import Profile, ResourceDescription

if TYPE_CHECKING:
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from dualsql.catalogue import Catalogue, Visible
    from dualsql.charts.service import ChartService
    from dualsql.kept import ResultStorage
    from dualsql.mcp.decorators import Function
    from dualsql.profiles.service import ProfileService
    from dualsql.query.service import QueryService
    from dualsql.saved_queries import SavedQuery
    from dualsql.sql.service import SavedQueries, SQLService


def default_features(
    *, storage: ResultStorage | str | Path | None = None, saved_queries: Sequence[SavedQuery] = ()
) -> list[Feature]:
    """The features that a server has unless it is given others.

    Args:
        storage: see `Kept`.
        saved_queries: see `Tables`.
    """
    from dualsql.catalogue.feature import Tables
    from dualsql.charts.feature import Charts
    from dualsql.dual_mode import DualMode
    from dualsql.health import Health
    from dualsql.kept.feature import Kept
    from dualsql.openapi.feature import OpenAPI
    from dualsql.profiles.feature import Profiles
    from dualsql.query.feature import Queries
    from dualsql.sql.feature import SQL
    from dualsql.telemetry import Telemetry
    from dualsql.web.feature import Pages

    return [
        Telemetry(),
        Health(),
        Kept(storage),
        Tables(saved_queries),
        SQL(),
        Queries(),
        Profiles(),
        Charts(),
        Pages(),
        OpenAPI(),
        DualMode(),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(KernelOptions):
    """The arguments of `DualResponseServer`, which documents them, and each setting."""

    storage: ResultStorage | str | Path | None = None
    saved_queries: Sequence[SavedQuery] = ()
    features: Sequence[Feature] | None = None

    def chosen_features(self) -> Sequence[Feature]:
        """The features among the arguments.

        Raises:
            ConfigurationError: an argument of a feature stands beside `features`.
        """
        if self.features is None:
            return default_features(storage=self.storage, saved_queries=self.saved_queries)
        if self.storage is not None or self.saved_queries:
            raise ConfigurationError(
                "storage and saved_queries belong to features, which are given here.",
                hint="features=[Kept(storage), Tables(saved_queries), ...]",
            )
        return self.features


class DualResponseServer(ResultServer):
    """Creates dual responses and serves the results that they link to.

    Use it as an async context manager, as the `lifespan` of a Starlette application, or call `shutdown`.

    Args:
        databases: the data, as an async engine or a URL, or several of them by name.
        base_url: where `router()` is mounted, as the application reaches it.
        tables: the declarative base (SQLModel, too) or MetaData whose tables may be queried; or a `Registry`, which
            then decides on text and document size itself.
        store: where resources are kept; in memory by default.
        storage: where the rows of results are kept, of slow queries unless `keep` says otherwise: a folder, the URL
            of an object store (s3://bucket/prefix), or a `ResultStorage`; see docs/kept-results.md.
        secrets: the first one signs stored resources, and all of them are accepted; at least 32 characters each.
        hooks: rules and functions that restrict every statement at every execution. If there is one, every table must
            be filtered or declared shared (see `dualsql.tenancy`).
        saved_queries: queries that callers may run by name; each is checked at creation.
        authenticate: identifies the caller of a REST request; without it, every caller is anonymous. Ready-made ones
            are in `dualsql.identity`.
        authorize: may refuse an action of the principal that owns the resource.
        audit: gets an `AuditEvent` for every action and every refusal.
        features: what the server can do besides serving results, in place of `default_features`; [] for nothing. Then
            `storage` and `saved_queries` are arguments of the features `Kept` and `Tables`.
        settings: values for all settings. The remaining keyword arguments are the settings themselves, which take
            precedence; see `Settings` and docs/settings.md.

    Attributes:
        notices: what an operator should know of the last start; each was logged, too.

    Raises:
        ConfigurationError: the configuration is not safe.
    """

    @takes(ServerOptions, made=ServerOptions.of)
    def __init__(self, options: ServerOptions) -> None:
        super().__init__(options)
        attach_features(self, options.chosen_features())
        if self.settings.keep is True and isinstance(self.parts.creator.runner, SampleRunner):
            raise storage_missing()

    @property
    def sql(self) -> SQLService:
        """SQL texts as Selects."""
        from dualsql.sql.feature import SQL

        return self.features.get(SQL).service

    @property
    def saved_queries(self) -> SavedQueries:
        """The saved queries by name."""
        from dualsql.sql.feature import SQL

        return self.features.get(SQL).saved_queries

    @property
    def query(self) -> QueryService:
        """Queries over results."""
        from dualsql.query.feature import Queries

        return self.features.get(Queries).service

    @property
    def profiles(self) -> ProfileService:
        """Statistics of the columns of results."""
        from dualsql.profiles.feature import Profiles

        return self.features.get(Profiles).service

    @property
    def charts(self) -> ChartService:
        """Charts of results."""
        from dualsql.charts.feature import Charts

        return self.features.get(Charts).service

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
        resource = await self.open_resource(resource_id, principal, "read")
        return await self.profiles.profile(resource, principal=principal, kind=kind, columns=columns)

    async def refresh(
        self, resource_id: str, principal: Principal | None, *, wait: timedelta | None = None
    ) -> ResourceDescription:
        """Run the query of a result again and keep its rows; see docs/kept-results.md.

        Readers get the old rows until the new ones are complete, and then the new ones. Cursors of the old rows are
        refused from then on. A result that was read from its database becomes a kept one.

        Args:
            wait: how long to wait for the query. If it takes longer, it goes on, and the metadata say how far it is.
                None waits until it ends.

        Returns:
            The metadata of the result.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `open_resource`.
            ResourcePendingError, ResourceFailedError: the result has no rows.
            BadParameterError: the server has no `storage`.
            LimitExceededError: the rows cannot be kept. The result stays as it was, as after other errors.
            TooManyQueriesError: `Settings.maximum_pending` refreshes run already.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: the database failed, or took longer than
                `Settings.pending_timeout`.
        """
        from dualsql.kept.feature import Kept

        return await self.features.get(Kept).refresh(resource_id, principal, wait=wait)

    @checked_keywords(ToolOptions)
    def tool(self, server: Any, **options: Unpack[ToolOptions]) -> Callable[[Function], Function]:
        """A decorator: a function that returns a Select becomes a tool of an MCP server; see `dualsql.mcp`.

        Args:
            server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
            options: see `dualsql.mcp.ToolOptions`.

        Raises:
            ConfigurationError: the SDK of the server is unknown or not installed, or the function cannot be a tool.
        """
        from dualsql.mcp.decorators import tool

        return tool(self, server, **options)

    def catalogue(self, *, visible: Visible | None = None, scheme: str = "catalog") -> Catalogue:
        """The catalogue of tables and saved queries: `catalogue().seen_by(principal)`.

        Args:
            visible: hides further tables, besides those that the hooks deny.
            scheme: of the URIs.

        Raises:
            ConfigurationError: the scheme cannot be used.
        """
        from dualsql.catalogue.feature import Tables

        return self.features.get(Tables).catalogue(visible=visible, scheme=scheme)

    def transport_security(self) -> TransportSecuritySettings:
        """The check of Host and Origin for the SDK: `mcp.streamable_http_app(transport_security=...)`.

        Without it the SDK's application answers 421 "Invalid Host header" to every name but those of the loopback.
        """
        from mcp.server.transport_security import TransportSecuritySettings

        hosts = sorted(own_hosts(self.base_url) | frozenset(self.settings.allowed_hosts))
        origins = [origin_of(self.base_url), *map(origin_of, self.settings.cors_origins)]
        return TransportSecuritySettings(
            # The SDK's `host:*` matches the host with a port only (mcp/server/transport_security.py).
            allowed_hosts=[form for host in hosts for form in (host, f"{host}:*")],
            allowed_origins=origins,
        )

    def router(self) -> ASGIApp:
        """The REST resources. Mount them at the path of `base_url`."""
        return build_router(self, feature_routes(self))

    def health_routes(self) -> list[Route]:
        """`/live` and `/ready`, for the root of an application or, better, for a port that only operators reach.

        /ready answers 503 until the server has started, the store can be read and each database answers, and says
        which part does not. It starts a server that nothing has used yet.
        """
        from dualsql.health import Health

        return self.features.get(Health).routes_of_process()

    def openapi(self) -> dict[str, Any]:
        """The REST resources as OpenAPI 3.1, as `/openapi.json` of the router answers."""
        from dualsql.openapi.feature import OpenAPI

        return self.features.get(OpenAPI).document()

    def well_known(self) -> Route:
        """A route for the root of an application: `/.well-known/resource-link-service`."""
        from dualsql.openapi.feature import OpenAPI

        return self.features.get(OpenAPI).well_known()
