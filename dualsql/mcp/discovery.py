"""The REST half among a server's capabilities; the rule: what is said is what `dualsql.discovery` says."""

from __future__ import annotations

from typing import Any, Protocol

from dualsql.discovery import service
from dualsql.mcp.resources_serving import low_level
from dualsql.settings import Settings

EXTENSION = "io.dualsql/resource-link-service"
"""The key of the entry in `capabilities.extensions`, which clients see since protocol 2026-07-28."""


class Located(Protocol):
    """What is asked of a DualResponseServer."""

    settings: Settings

    @property
    def base_url(self) -> str:
        """Where the REST resources are."""
        ...


def announce(dual: Located, server: Any) -> None:
    """Put the service among the capabilities of `server`."""
    low_level(server).extensions[EXTENSION] = service(dual.base_url, dual.settings)
