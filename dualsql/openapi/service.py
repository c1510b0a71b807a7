"""What a service says of itself in its well-known document."""

from __future__ import annotations

from dualsql.openapi.operations import WELL_KNOWN
from dualsql.settings import Settings
from dualsql_client.wire import ServiceDescription

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
