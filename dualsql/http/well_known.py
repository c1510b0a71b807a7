"""The well-known document: a description of the service's endpoints.

It lists method, path and parameters of each endpoint below the base URL (arXiv 2510.05968, section 6).
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
    """The document, with the endpoints of the features; see `dualsql.resource.endpoint`."""
    link = ("link",) if server.settings.signed_links else ()
    page = (*PAGE_QUERY, "count", *link)
    return {
        **service(server.base_url, server.settings),
        "endpoints": [
            endpoint("GET", "/", "Your own results, newest first.", query=LISTING_QUERY),
            endpoint(
                "GET",
                "/{id}",
                "The metadata of a result; with page parameters, a page of its rows.",
                query=page,
            ),
            endpoint("POST", "/{id}", "A page of the rows of a result.", query=link, body=PAGE_BODY),
            endpoint("PUT", "/{id}", "Pin a result: it does not expire."),
            endpoint("PUT", "/{id}/pin", "The same."),
            endpoint("DELETE", "/{id}/pin", "Unpin a result: it expires one lifetime from now."),
            endpoint("DELETE", "/{id}", "Delete it."),
            endpoint("GET", "/{id}/rows", "All rows of a result as a stream.", query=(*ROWS_NAMES, *link)),
            endpoint("POST", "/{id}/rows", "All rows of a result as a stream.", query=link, body=ROWS_NAMES),
            *endpoints,
        ],
    }


def well_known_route(server: DualResponseServer, endpoints: Sequence[Mapping[str, Any]] = ()) -> Route:
    """The route that serves the document."""

    async def answer(_: Request) -> Response:
        return JSONAnswer(describe_service(server, endpoints))

    return Route(WELL_KNOWN, answering(answer), methods=["GET", "HEAD"])
