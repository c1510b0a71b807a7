"""What the service can do, at its well-known place; the rule: what is listed here is what the routes take.

The pattern's paper (arXiv 2510.05968, section 6): method, path and parameters of each endpoint, below the base URL.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dualsql.discovery import WELL_KNOWN, endpoint, service
from dualsql.http.answers import JSONAnswer
from dualsql.http.parameters import LISTING_QUERY, PAGE_BODY, PAGE_QUERY
from dualsql.http.problems import answering
from dualsql.http.resources import Resources
from dualsql.http.row_parameters import ROWS_NAMES


def describe_service(server: Resources) -> dict[str, Any]:
    """The whole document."""
    link = ("link",) if server.settings.signed_links else ()
    one, rows = "/{id}", "/{id}/rows"
    return {
        **service(server.base_url, server.settings),
        "endpoints": [
            endpoint(
                "GET",
                one,
                "What a result is; with paging parameters, a page.",
                query=(*PAGE_QUERY, "count", *link),
            ),
            endpoint("POST", one, "A page of its rows.", query=link, body=PAGE_BODY),
            endpoint("PUT", one, "Keep it until it is deleted."),
            endpoint("DELETE", one, "Delete it."),
            endpoint("GET", rows, "All its rows as a stream.", query=(*ROWS_NAMES, *link)),
            endpoint("POST", rows, "All its rows as a stream.", query=link, body=ROWS_NAMES),
            endpoint("GET", "/", "The caller's own results, newest first.", query=LISTING_QUERY),
        ],
    }


def well_known_route(server: Resources) -> Route:
    """The route that answers with it."""

    async def answer(_: Request) -> Response:
        return JSONAnswer(describe_service(server))

    return Route(WELL_KNOWN, answering(answer), methods=["GET", "HEAD"])
