"""What a server says of itself: in `capabilities.extensions` of MCP, and in its well-known document."""

from __future__ import annotations

from dualsql.settings import Settings
from dualsql_client.wire import ServiceDescription

WELL_KNOWN = "/.well-known/resource-link-service"
"""Below the base URL."""

EXTENSION = "io.dualsql/resource-link-service"
"""The key of the entry in `capabilities.extensions`, which clients see since protocol 2026-07-28.

The pattern's paper (arXiv 2510.05968, section 6) asks for it.
"""

STANDARD_PARTS = (
    "discovery", "metadata", "pin", "cursors", "sorts", "totals", "columns", "streams", "resume", "codes", "pending",
)  # fmt: skip
"""The optional parts of docs/standard that each server has. One with an authenticator has `identity`, too."""


def service(base_url: str, settings: Settings, *, is_authenticated: bool) -> ServiceDescription:
    """The URL of the service, what it has of the standard, and its defaults."""
    return {
        "baseUrl": base_url,
        "version": 1,
        "parts": [*STANDARD_PARTS, *(["identity"] if is_authenticated else [])],
        "wellKnown": f"{base_url}{WELL_KNOWN}",
        "uriTemplate": f"{settings.uri_scheme}://{{id}}",
        "defaults": {
            "expiration": settings.default_expiration.total_seconds(),
            "maximumLifetime": settings.maximum_lifetime.total_seconds(),
            "slidingExpiration": settings.sliding_expiration,
            "sampleSize": settings.default_sample_size,
            "pageSize": settings.default_page_size,
            "maximumPageSize": settings.maximum_page_size,
        },
    }
