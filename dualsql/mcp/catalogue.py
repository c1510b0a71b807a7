"""The catalogue on an MCP server: its resources and three tools; the rule: an SDK is met when used."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

from dualsql.catalogue import Catalogue, Visible
from dualsql.errors import ConfigurationError
from dualsql.identity import principal_of_token
from dualsql.mcp.catalogue_tools import add_catalogue_tools
from dualsql.mcp.manners import Responder
from dualsql.mcp.tool import registrar_of
from dualsql.resource import Principal


class Catalogued(Responder, Protocol):
    """What is asked of a DualResponseServer."""

    def catalogue(self, *, visible: Visible | None = None, scheme: str = "catalog") -> Catalogue:
        """What may be seen of the tables and saved queries."""
        ...


def add_catalogue(
    dual: Catalogued,
    server: Any,
    *,
    visible: Visible | None = None,
    scheme: str = "catalog",
    has_tools: bool = True,
    ttl: timedelta = timedelta(minutes=1),
    principal: Callable[[Any], Principal] = principal_of_token,
) -> Catalogue:
    """Show callers the tables, views and saved queries that they may see.

    Serves resources at `{scheme}://{source}/catalog` and below, listed in pages and with completion, and the tools
    `list_tables`, `describe_table` and `search_catalog`. Call it after the server's own completion handler is set.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        visible: hides tables besides those that the hooks deny; see `dualsql.catalogue.Visible`.
        has_tools: register the tools too.
        ttl: how long a client may take what it has read to be current; it is for that caller alone.
        principal: whom a verified access token stands for; as for `dual.tool`.

    Raises:
        ConfigurationError: no SDK for such a server is known and installed; the scheme cannot be used.
    """
    if scheme == dual.settings.uri_scheme:
        raise ConfigurationError(
            f"The URI scheme {scheme!r} is that of results.", hint='add_catalogue(..., scheme="catalog")'
        )
    registrar_of(server)  # or the next line would miss a package
    from dualsql.mcp.catalogue_shelf import CatalogueShelf
    from dualsql.mcp.resources_serving import put_up

    catalogue = dual.catalogue(visible=visible, scheme=scheme)
    put_up(server, CatalogueShelf(catalogue, ttl), principal)
    if has_tools:
        add_catalogue_tools(dual, server, catalogue, principal=principal)
    return catalogue
