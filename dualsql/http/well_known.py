"""What the service can do, at its well-known place. What is listed here is what the routes take.

The pattern's paper (arXiv 2510.05968, section 6): method, path and parameters of each endpoint, below the base URL.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dualsql.charts.http import CHART_QUERY
from dualsql.http.parameters import LISTING_QUERY, PAGE_BODY, PAGE_QUERY, ROWS_NAMES
from dualsql.http.problems import JSONAnswer, answering
from dualsql.http.resources import Resources
from dualsql.profiles.http import PROFILE_QUERY
from dualsql.query import KEYS, TEXT_KEYS, WINDOW_KEYS
from dualsql.query.http import NAMING, WINDOW
from dualsql.resource import WELL_KNOWN, endpoint, service


def describe_service(server: Resources) -> dict[str, Any]:
    """The whole document."""
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
            endpoint("GET", "/{id}/profile", "What its columns are like.", query=PROFILE_QUERY),
            endpoint("GET", "/{id}/chart", "Its chart, if it is one.", query=CHART_QUERY),
            endpoint("POST", "/{id}/query", "Filter, group, aggregate.", body=(*KEYS, *WINDOW)),
            endpoint("POST", "/{id}/sql", "The same in SQL.", body=(*TEXT_KEYS, *WINDOW)),
            endpoint(
                "POST", "/{id}/refine", "A new result of the answer.", body=(*KEYS, *WINDOW_KEYS, *NAMING)
            ),
        ],
    }


def well_known_route(server: Resources) -> Route:
    """The route that answers with it."""

    async def answer(_: Request) -> Response:
        return JSONAnswer(describe_service(server))

    return Route(WELL_KNOWN, answering(answer), methods=["GET", "HEAD"])
