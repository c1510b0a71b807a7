"""The REST resources as one application. A route parses, asks the server once, and answers."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from dualsql.charts.http import answer_chart, chart_routes, wants_chart
from dualsql.errors import ForbiddenError
from dualsql.http.host_check import HostCheck, origin_of, own_hosts
from dualsql.http.negotiation import is_known, metadata_etag, negotiating, not_modified
from dualsql.http.parameters import (
    PageParameters,
    parse_body,
    parse_count,
    parse_listing,
    parse_query,
    parse_rows_body,
    parse_rows_query,
    read_json_body,
    refuse_query,
    resource_id_of,
    split_link,
)
from dualsql.http.problems import (
    METHODS,
    RETRY_SOON,
    JSONAnswer,
    MethodNotAllowedError,
    PrivateHeaders,
    answering,
    problem_response,
)
from dualsql.http.resources import Resources
from dualsql.http.streaming import ROW_METHODS, answer_rows, chosen_format, while_connected
from dualsql.http.well_known import well_known_route
from dualsql.profiles.http import PROFILE_METHODS, parse_profile
from dualsql.query.http import question_routes
from dualsql.resource import Principal, Resource
from dualsql.response import instant
from dualsql.results.access import not_found
from dualsql_client.wire import (
    NO_RESUME_HEADER,
    RESUME_HEADER,
    TOTAL_COUNT_HEADER,
    TOTAL_COUNT_KIND_HEADER,
    ListedResource,
    Pinned,
    ResourceListing,
    Unpinned,
)

PATH = "/{resource_id}"
ROWS = "/{resource_id}/rows"
PROFILE = "/{resource_id}/profile"
PIN = "/{resource_id}/pin"
PIN_METHODS = ("PUT", "DELETE")
COLLECTION = "/"

_EXPOSED = (
    "Content-Disposition", "ETag", "Retry-After", RESUME_HEADER, NO_RESUME_HEADER, TOTAL_COUNT_HEADER,
    TOTAL_COUNT_KIND_HEADER,
)  # fmt: skip
_NO_METHOD = "This method does not exist here."


def build_router(server: Resources) -> ASGIApp:
    """The application for `Mount("/resources", ...)`: everything under `server.base_url`."""
    routes = Routes(server)
    return Router(
        routes=[
            well_known_route(server),
            Route(COLLECTION, answering(routes.list), methods=["GET", "HEAD"]),
            Route(COLLECTION, problem_response(not_found())),
            Route(PATH, negotiating(answering(routes.read)), methods=["GET", "HEAD"]),
            Route(PATH, negotiating(answering(routes.page)), methods=["POST"]),
            Route(PATH, answering(routes.pin), methods=["PUT"]),
            Route(PATH, answering(routes.delete), methods=["DELETE"]),
            Route(PIN, answering(routes.pin), methods=["PUT"]),
            Route(PIN, answering(routes.unpin), methods=["DELETE"]),
            Route(PIN, problem_response(MethodNotAllowedError(_NO_METHOD, known=PIN_METHODS))),
            Route(PATH, answering(routes.list_methods), methods=["OPTIONS"]),
            Route(PATH, problem_response(MethodNotAllowedError(_NO_METHOD))),
            Route(ROWS, answering(routes.rows), methods=["GET", "HEAD", "POST"]),
            Route(ROWS, answering(routes.list_row_methods), methods=["OPTIONS"]),
            Route(ROWS, problem_response(MethodNotAllowedError(_NO_METHOD, known=ROW_METHODS))),
            Route(PROFILE, answering(routes.profile), methods=["GET", "HEAD"]),
            Route(PROFILE, answering(routes.list_profile_methods), methods=["OPTIONS"]),
            Route(PROFILE, problem_response(MethodNotAllowedError(_NO_METHOD, known=PROFILE_METHODS))),
            *question_routes(server),
            *chart_routes(server),
        ],
        default=FallbackRoute(),
        redirect_slashes=False,
        middleware=_middleware(server),
    )


class Routes:
    """One method per verb of a resource."""

    def __init__(self, server: Resources) -> None:
        self.server = server

    async def read(self, request: Request) -> Response:
        """GET: what the resource is, its rows counted anew if asked; with paging parameters, a page of its rows."""
        if wants_chart(request):
            refuse_query(request.scope["query_string"])
            return await answer_chart(self.server, request)
        link, query = self._split_link(request)
        count = parse_count(query)
        parameters = parse_query(query) if count is None else None
        if parameters is not None:
            return await self._answer_page(request, parameters, link)
        principal, resource = await self._open(request, link, takes=False)
        # HEAD runs no query.
        asked = count if count is not None and request.method != "HEAD" else "none"
        describing = self.server.describe_resource(resource, principal=principal, count=asked)
        metadata = await while_connected(request.receive, describing)
        etag = metadata_etag(metadata)
        if is_known(request.headers, etag):
            return not_modified(etag)
        return JSONAnswer(
            metadata, headers={"ETag": etag} | (RETRY_SOON if metadata["status"] == "pending" else {})
        )

    async def page(self, request: Request) -> Response:
        """POST: a page of its rows, as the body asks."""
        link, query = self._split_link(request)
        refuse_query(query)
        body = await read_json_body(request, self.server.settings)
        return await self._answer_page(request, parse_body(body), link)

    async def rows(self, request: Request) -> Response:
        """GET, POST below the resource: all its rows, as the query or the body asks."""
        link, query = self._split_link(request)
        if request.method == "POST":
            refuse_query(query)
            parameters = parse_rows_body(await read_json_body(request, self.server.settings))
        else:
            parameters = parse_rows_query(query)
        written = chosen_format(parameters.format, request.headers)
        takes = request.method != "HEAD"
        principal, resource = await self._open(request, link, wanted=written.name, takes=takes)
        return await answer_rows(
            self.server, request, parameters, written, resource=resource, principal=principal
        )

    async def profile(self, request: Request) -> Response:
        """GET below the resource: what its columns are like. A link is for rows, and opens no profile."""
        kind, columns = parse_profile(request.scope["query_string"])
        principal, resource = await self._open(request, None, takes=False)
        if request.method == "HEAD":  # HEAD runs no query
            return JSONAnswer(None)
        profiling = self.server.profile_resource(resource, kind=kind, columns=columns, principal=principal)
        return JSONAnswer(await while_connected(request.receive, profiling))

    async def pin(self, request: Request) -> Response:
        """PUT: keep the resource until it is deleted."""
        refuse_query(request.scope["query_string"])
        principal = await self.server.identify(request)
        resource = await self.server.open_resource(resource_id_of(request), principal, "pin")
        if not await self.server.pin_resource(resource.id, principal=principal):
            raise not_found()
        return JSONAnswer(Pinned(status="pinned", expires_at=None))

    async def unpin(self, request: Request) -> Response:
        """DELETE below the resource: let it expire again."""
        refuse_query(request.scope["query_string"])
        principal = await self.server.identify(request)
        resource = await self.server.open_resource(resource_id_of(request), principal, "pin")
        expires_at = await self.server.unpin_resource(resource.id, principal=principal)
        if expires_at is None:
            raise not_found()
        return JSONAnswer(Unpinned(status="ready", expires_at=instant(expires_at)))

    async def delete(self, request: Request) -> Response:
        """DELETE: end the resource; its links are dead from here on."""
        refuse_query(request.scope["query_string"])
        principal = await self.server.identify(request)
        resource = await self.server.open_resource(resource_id_of(request), principal, "delete")
        if not await self.server.delete_resource(resource.id, principal=principal):
            raise not_found()
        return Response(status_code=204)

    async def list(self, request: Request) -> Response:
        """GET on the collection: the caller's own resources, newest first."""
        limit, cursor = parse_listing(request.scope["query_string"])
        principal = await self.server.identify(request)
        listing = await self.server.list_resources(principal, limit=limit, cursor=cursor)
        resources = [
            ListedResource(**self.server.metadata_of(found), url=f"{self.server.base_url}/{found.id}")
            for found in listing.resources
        ]
        return JSONAnswer(ResourceListing(resources=resources, next_cursor=listing.next_cursor))

    async def list_methods(self, request: Request) -> Response:
        """OPTIONS: the verbs, the same for every id, so that it tells nothing about any."""
        return Response(status_code=204, headers={"Allow": ", ".join(METHODS)})

    async def list_row_methods(self, request: Request) -> Response:
        """OPTIONS below the resource, as tight-lipped."""
        return Response(status_code=204, headers={"Allow": ", ".join(ROW_METHODS)})

    async def list_profile_methods(self, request: Request) -> Response:
        """OPTIONS of the profile."""
        return Response(status_code=204, headers={"Allow": ", ".join(PROFILE_METHODS)})

    async def _answer_page(self, request: Request, parameters: PageParameters, link: str | None) -> Response:
        # HEAD shows no rows, so it uses no link up: previews of links in chats and mails send it.
        principal, resource = await self._open(request, link, takes=request.method != "HEAD")
        reading = self.server.fetch_page(
            resource,
            offset=parameters.offset,
            limit=parameters.limit,
            sort=parameters.sort,
            principal=principal,
            integer_strings=parameters.integer_strings,
            cursor=parameters.cursor,
        )
        rows = await while_connected(request.receive, reading)
        return JSONAnswer(rows.to_wire())

    async def _open(
        self, request: Request, link: str | None, *, wanted: str = "json", takes: bool
    ) -> tuple[Principal | None, Resource]:
        """As whom the resource of the path is read, by a link or by the caller's own right, and what it is."""
        if link is not None:
            return await self.server.links.open(resource_id_of(request), link, wanted=wanted, takes=takes)
        principal = await self.server.identify(request)
        return principal, await self.server.open_resource(resource_id_of(request), principal, "read")

    def _split_link(self, request: Request) -> tuple[str | None, bytes]:
        query: bytes = request.scope["query_string"]
        return split_link(query) if self.server.settings.signed_links else (None, query)


class FallbackRoute:
    """Every path that is not a resource's: the answer of an unknown resource, and no WebSockets."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await problem_response(not_found())(scope, receive, send)


class CORS(CORSMiddleware):
    """Starlette's CORS, whose refusals speak as ours do."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """The answer to a browser that asks before it sends."""
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        return problem_response(ForbiddenError("This cross-origin request is not allowed."))


def _middleware(server: Resources) -> list[Middleware]:
    settings = server.settings
    origins = [origin_of(origin) for origin in settings.cors_origins]
    return [
        Middleware(PrivateHeaders),
        Middleware(
            HostCheck,
            hosts=own_hosts(server.base_url) | frozenset(settings.allowed_hosts),
            origins=[origin_of(server.base_url), *origins],
        ),
        *([_cross_origin(origins)] if origins else []),
    ]


def _cross_origin(origins: list[str]) -> Middleware:
    # Any header: which one carries the credential is the business of `authenticate`.
    return Middleware(
        CORS,
        allow_origins=origins,
        allow_methods=METHODS,
        allow_headers=["*"],
        expose_headers=_EXPOSED,
    )
