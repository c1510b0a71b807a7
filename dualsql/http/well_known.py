"""What the service can do, at its well-known place. What is listed here is what the routes take.

The pattern's paper (arXiv 2510.05968, section 6): method, path and parameters of each endpoint, below the base URL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dualsql.http.parameters import LISTING_QUERY, PAGE_BODY, PAGE_QUERY, ROWS_NAMES
from dualsql.http.problems import JSONAnswer, answering
from dualsql.resource import WELL_KNOWN, endpoint, service

if TYPE_CHECKING:
    from dualsql.server import DualResponseServer


def describe_service(
    server: DualResponseServer, endpoints: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The whole document, with the endpoints of the features; see `dualsql.resource.endpoint`."""
    link = ("link",) if server.settings.signed_links else ()
    page = (*PAGE_QUERY, "count", *link)
    return {
        **service(server.base_url, server.settings),
        "endpoints": [
            endpoint("GET", "/", "Your own results, newest first.", query=LISTING_QUERY),
            endpoint("GET", "/{id}", "What a result is; with paging parameters, a page of it.", query=page),
            endpoint("POST", "/{id}", "A page of its rows.", query=link, body=PAGE_BODY),
            endpoint("PUT", "/{id}", "Keep it until it is deleted."),
            endpoint("PUT", "/{id}/pin", "The same."),
            endpoint("DELETE", "/{id}/pin", "Let it expire again."),
            endpoint("DELETE", "/{id}", "Delete it."),
            endpoint("GET", "/{id}/rows", "All its rows as a stream.", query=(*ROWS_NAMES, *link)),
            endpoint("POST", "/{id}/rows", "All its rows as a stream.", query=link, body=ROWS_NAMES),
            *endpoints,
        ],
    }


def well_known_route(server: DualResponseServer, endpoints: Sequence[Mapping[str, Any]] = ()) -> Route:
    """The route that answers with it."""

    async def answer(_: Request) -> Response:
        return JSONAnswer(describe_service(server, endpoints))

    return Route(WELL_KNOWN, answering(answer), methods=["GET", "HEAD"])
