"""The documents that describe the service: its endpoints (arXiv 2510.05968, section 6), and OpenAPI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dualsql.formats import json
from dualsql.http.openapi import DOCUMENT_METHODS, JSON, OPENAPI, Operation, openapi_document
from dualsql.http.parameters import refuse_query
from dualsql.http.problems import JSONAnswer, answering, method_routes
from dualsql.resource import WELL_KNOWN, service

if TYPE_CHECKING:
    from dualsql.server import DualResponseServer


def describe_service(server: DualResponseServer, operations: Sequence[Operation]) -> dict[str, Any]:
    """The well-known document: method, path and parameters of each endpoint below the base URL."""
    return {
        **service(server.base_url, server.settings),
        "openapi": f"{server.base_url}{OPENAPI}",
        "endpoints": [each.to_endpoint() for each in operations],
    }


def describe_openapi(server: DualResponseServer, operations: Sequence[Operation]) -> dict[str, Any]:
    """The OpenAPI document."""
    return openapi_document(server.base_url, operations, is_authenticated=server.is_authenticated)


def well_known_route(server: DualResponseServer, operations: Sequence[Operation]) -> Route:
    """The route that serves the well-known document, for the root of an application."""

    async def answer(request: Request) -> Response:
        refuse_query(request.scope["query_string"])
        return JSONAnswer(describe_service(server, operations))

    return Route(WELL_KNOWN, answering(answer), methods=DOCUMENT_METHODS)


def document_routes(server: DualResponseServer, operations: Sequence[Operation]) -> list[Route]:
    """The routes of both documents below the base URL. Each is written once, when it is first asked for."""
    written: dict[str, bytes] = {}

    async def answer(request: Request) -> Response:
        refuse_query(request.scope["query_string"])
        if not written:
            written[WELL_KNOWN] = json.dumps(describe_service(server, operations))
            written[OPENAPI] = json.dumps(describe_openapi(server, operations))
        # Starlette's Mount adds its prefix to root_path and leaves it in path, as ASGI says.
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        return Response(written[path], media_type=JSON)

    return [
        route
        for path in (WELL_KNOWN, OPENAPI)
        for route in method_routes(path, {"GET": answer}, DOCUMENT_METHODS)
    ]
