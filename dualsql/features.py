"""The server with the features of the package: `ResultServer`, and an attribute for each that applications call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from dualsql.extension import KernelOptions
from dualsql.feature import Feature, attach_features, feature_routes
from dualsql.http.router import build_router
from dualsql.server import ResultServer
from dualsql.settings import takes

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from dualsql.charts.service import ChartService
    from dualsql.kept.feature import Kept
    from dualsql.links import Links
    from dualsql.mcp.decorators import Function
    from dualsql.mcp.options import ToolOptions
    from dualsql.profiles.feature import Profiles
    from dualsql.query.service import QueryService
    from dualsql.sql.service import SQLService


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ServerOptions(KernelOptions):
    """The arguments of `DualResponseServer`, which documents them."""

    features: Sequence[Feature] | None = None


def _owner_of(keyword: str) -> str | None:
    """Where an argument belongs that a server does not take."""
    from dualsql.feature_list import owner_of

    return owner_of(keyword)


class DualResponseServer(ResultServer):
    """Creates dual responses and serves the results that they link to.

    Use it as an async context manager, as the `lifespan` of a Starlette application, or call `shutdown`.

    Args:
        databases: the data, as an async engine or a URL, or several of them by name.
        base_url: where `router()` is mounted, as the application reaches it.
        tables: the declarative base (SQLModel, too) or MetaData whose tables may be queried; or a `Registry`, which
            then decides on text and document size itself.
        store: where resources are kept; in memory by default.
        secrets: the first one signs stored resources, and all of them are accepted; at least 32 characters each.
        hooks: rules and functions that restrict every statement at every execution. If there is one, every table must
            be filtered or declared shared (see `dualsql.tenancy`).
        authenticate: identifies the caller of a REST request; without it, every caller is anonymous. Ready-made ones
            are in `dualsql.identity`.
        authorize: may refuse an action of the principal that owns the resource.
        audit: gets an `AuditEvent` for every action and every refusal.
        features: what the server can do besides serving results; `default_features()` unless given, [] for nothing.
            `features=default_features(Kept(folder), Pages())` has these in place of the default ones of their class.
        settings: what else an operator may change in the kernel; see `Settings` and docs/settings.md.

    Attributes:
        notices: what an operator should know of the last start; each was logged, too.

    Raises:
        ConfigurationError: the configuration is not safe.
    """

    @takes(ServerOptions, elsewhere=_owner_of)
    def __init__(self, options: ServerOptions) -> None:
        super().__init__(options)
        features = options.features
        if features is None:
            from dualsql.feature_list import default_features

            features = default_features()
        attach_features(self, features)

    @property
    def sql(self) -> SQLService:
        """SQL texts as Selects, and saved queries."""
        from dualsql.sql.feature import SQL

        return self.features.get(SQL).service

    @property
    def queries(self) -> QueryService:
        """Queries over results."""
        from dualsql.query.feature import Queries

        return self.features.get(Queries).service

    @property
    def links(self) -> Links:
        """Signed links."""
        from dualsql.links import SignedLinks

        return self.features.get(SignedLinks).service

    @property
    def charts(self) -> ChartService:
        """Charts of results."""
        from dualsql.charts.feature import Charts

        return self.features.get(Charts).service

    @property
    def profiles(self) -> Profiles:
        """Statistics of the columns of results."""
        from dualsql.profiles.feature import Profiles

        return self.features.get(Profiles)

    @property
    def kept(self) -> Kept:
        """Kept results."""
        from dualsql.kept.feature import Kept

        return self.features.get(Kept)

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

    def router(self) -> ASGIApp:
        """The REST resources. Mount them at the path of `base_url`."""
        return build_router(self, feature_routes(self))
