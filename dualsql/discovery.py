"""How an application finds the REST half; the rule: no secret, and nothing of any resource, is in it.

The pattern's paper (arXiv 2510.05968, section 6) asks for an entry among the server's capabilities, and for a document
at a well-known place below the base URL that lists the endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dualsql.settings import Settings

WELL_KNOWN = "/.well-known/resource-link-service"
"""Below the base URL."""


def service(base_url: str, settings: Settings) -> dict[str, Any]:
    """Where the service is, and what holds unless a request says otherwise; times in seconds."""
    return {
        "baseUrl": base_url,
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


def endpoint(
    method: str, path: str, description: str, *, query: Sequence[str] = (), body: Sequence[str] = ()
) -> Mapping[str, Any]:
    """One endpoint; its path is below the base URL, `query` and `body` are the names of what it takes."""
    return {
        "method": method,
        "path": path,
        "description": description,
        "parameters": {"query": list(query), "body": list(body)},
    }
