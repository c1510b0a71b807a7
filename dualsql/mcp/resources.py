"""Stored results on an MCP server; the rule: an SDK is met when used."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from dualsql.identity import principal_of_token
from dualsql.mcp.prompt import add_system_prompt
from dualsql.mcp.tool import registrar_of
from dualsql.reading.pages import ResultPage
from dualsql.resource import Principal, Resource
from dualsql.settings import Action, Settings
from dualsql.watching import Watch
from dualsql_client.wire import ResourceMetadata


class Results(Protocol):
    """What is asked of a DualResponseServer."""

    settings: Settings
    watch: Watch

    @property
    def base_url(self) -> str:
        """Where the REST resources are."""
        ...

    async def open_resource(self, resource_id: str, principal: Principal | None, action: Action) -> Resource:
        """The live resource, once it is certain that `principal` may do `action` with it."""
        ...

    async def fetch_page(
        self, resource: Resource, *, limit: int | None = None, principal: Principal | None = None
    ) -> ResultPage:
        """Rows from the first on."""
        ...

    async def describe_resource(
        self, resource: Resource, *, principal: Principal | None = None
    ) -> ResourceMetadata:
        """What may be said of a resource."""
        ...


def add_resources(
    dual: Results,
    server: Any,
    *,
    page_size: int | None = None,
    ttl: timedelta = timedelta(minutes=1),
    has_subscriptions: bool = True,
    has_prompt: bool = True,
    principal: Callable[[Any], Principal] = principal_of_token,
) -> None:
    """Let clients read results by the URIs that tools answer with, as `{scheme}://{id}`.

    Reading gives the metadata and the first page as JSON, to whom REST would give them. Clients may subscribe, and
    are told when a result is pinned, expires or is deleted. The REST half is announced among the capabilities.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        page_size: rows of the page, `default_page_size` unless given; fewer if they are long.
        ttl: how long a client may take what it has read to be current, and never beyond the result's end.
        has_subscriptions: serve subscriptions.
        has_prompt: offer `system_prompt` as an MCP prompt.
        principal: whom a verified access token stands for; as for `dual.tool`.

    Raises:
        ConfigurationError: no SDK for such a server is known and installed.
        BadParameterError: the page size is out of bounds.
    """
    registrar_of(server)  # or the next line would miss a package
    from dualsql.mcp.discovery import announce
    from dualsql.mcp.resources_serving import principal_finder, put_up
    from dualsql.mcp.resources_shelf import ResultsShelf
    from dualsql.mcp.subscriptions import Subscriptions

    shelf = ResultsShelf(dual, page_size=page_size, ttl=ttl)
    put_up(server, shelf, principal)
    announce(dual, server)
    if has_subscriptions:
        who = principal_finder(server, principal)
        Subscriptions(dual.watch, shelf.owns, lambda uri: shelf.find(uri, who())).put_up(server)
    if has_prompt:
        add_system_prompt(dual, server)
