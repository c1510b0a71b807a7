"""The feature OpenAPI: the documents that describe the service.

These are its endpoints (arXiv 2510.05968, section 6), and OpenAPI.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dualsql.dual_mode import DualMode
from dualsql.extension import Parts
from dualsql.feature import Feature, feature_routes
from dualsql.formats import json
from dualsql.http.parameters import refuse_query
from dualsql.http.problems import JSONAnswer, Problems, method_route
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.document import openapi_document
from dualsql.openapi.operations import (
    DOCUMENT_METHODS,
    JSON,
    OPENAPI,
    DescribedFeature,
    Operation,
    resource_operations,
)
from dualsql.openapi.service import WELL_KNOWN, service

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class OpenAPI(Feature):
    """The OpenAPI document and the well-known document; see docs/openapi.md."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self._server = server
        self._documents: dict[str, bytes] = {}

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`. Each document is written once, when it is first asked for."""

        async def answer(request: Request) -> Response:
            refuse_query(request.scope["query_string"])
            if not self._documents:
                self._documents[WELL_KNOWN] = json.dumps(self._service())
                self._documents[OPENAPI] = json.dumps(self.document())
            # Starlette's Mount adds its prefix to root_path and leaves it in path, as ASGI says.
            path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
            return Response(self._documents[path], media_type=JSON)

        documents = [method_route(path, {"GET": answer}, DOCUMENT_METHODS) for path in (WELL_KNOWN, OPENAPI)]
        return FeatureRoutes(documents=documents)

    def document(self) -> dict[str, Any]:
        """The REST resources as OpenAPI 3.1, as `/openapi.json` of the router answers."""
        server = self._server
        return openapi_document(
            server.base_url, self._operations(), is_authenticated=server.access.authenticate is not None
        )

    def well_known(self) -> Route:
        """A route for the root of an application: `/.well-known/resource-link-service`."""

        async def answer(request: Request) -> Response:
            refuse_query(request.scope["query_string"])
            return JSONAnswer(self._service())

        return Route(WELL_KNOWN, answer, methods=["GET"], middleware=[Middleware(Problems)])

    def _service(self) -> dict[str, Any]:
        """The well-known document: method, path and parameters of each endpoint below the base URL."""
        return {
            **service(
                self._server.base_url,
                self._server.settings,
                is_authenticated=self._server.access.authenticate is not None,
            ),
            "openapi": f"{self._server.base_url}{OPENAPI}",
            "endpoints": [operation.to_endpoint() for operation in self._operations()],
        }

    def _operations(self) -> list[Operation]:
        server = self._server
        routes = feature_routes(server)
        described = [feature for feature in server.features if isinstance(feature, DescribedFeature)]
        operations = [
            *resource_operations(
                server.settings,
                chain.from_iterable(each.representations for each in routes),
                chain.from_iterable(each.listing_representations for each in routes),
                has_links=server.access.links is not None,
            ),
            *chain.from_iterable(feature.operations(server.settings) for feature in described),
        ]
        for feature in described:
            operations = [feature.extended(operation) for operation in operations]
        if DualMode in server.features:
            return operations
        return [operation.without_dual_mode() for operation in operations]
