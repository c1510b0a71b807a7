"""The REST resources as one application: routes and middleware.

A route parses, asks the server once, and answers. A Host or Origin that is not on the list is refused before that.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.errors import refuse_unknown
from dualsql.formats.cells import run_heavy
from dualsql.http import parameters
from dualsql.http.conditional import is_current, metadata_etag, not_modified
from dualsql.http.problems import (
    METHODS,
    RETRY_SOON,
    Endpoint,
    ForeignRequestError,
    JSONAnswer,
    Problems,
    make_private,
    method_route,
    problem_response,
    while_connected,
)
from dualsql.http.streaming import answer_stream
from dualsql.resource import DEFAULT_PORTS, Principal, Resource, instant
from dualsql.results.access import not_found
from dualsql.results.pages import ResultPage
from dualsql.settings import Action
from dualsql_client import wire

if TYPE_CHECKING:
    from dualsql.server import ResultServer

PATH = "/{resource_id}"
ROWS = "/{resource_id}/rows"
COLLECTION = "/"

COLLECTION_METHODS = ("GET", "HEAD", "OPTIONS")
PIN_METHODS = ("OPTIONS", "PUT", "DELETE")
ROW_METHODS = ("GET", "HEAD", "OPTIONS", "POST")

_JSON = "application/json"


class FeatureRoutes(NamedTuple):
    """The routes of a feature, such as queries or charts; `dualsql.features` puts all of them together.

    Attributes:
        routes: below a resource.
        documents: routes beside the collection, of paths that could be a resource's.
        representations: by media type, the function that answers GET of a resource when Accept prefers that type.
        listing_representations: the same for the collection.
        reads_link_cookie: a browser may send the signed link of a result in a cookie.
        middleware: around all routes, refusals of the kernel's own middleware included.
        inner: around all routes, inside the kernel's own middleware: what an endpoint raises reaches it.
        starts: are called with the start of each answer, to which they may add headers.
    """

    routes: Sequence[BaseRoute] = ()
    documents: Sequence[BaseRoute] = ()
    representations: Mapping[str, Endpoint] = MappingProxyType({})
    listing_representations: Mapping[str, Endpoint] = MappingProxyType({})
    reads_link_cookie: bool = False
    middleware: Sequence[Middleware] = ()
    inner: Sequence[Middleware] = ()
    starts: Sequence[Callable[[Scope, Message], None]] = ()


def build_router(server: ResultServer, features: Sequence[FeatureRoutes]) -> ASGIApp:
    """The application for `Mount("/resources", ...)`: everything under `server.base_url`."""
    routes = Routes(server, features)
    result = {"GET": routes.read, "POST": routes.page, "PUT": routes.pin, "DELETE": routes.delete}
    return Router(
        routes=[
            *(route for feature in features for route in feature.documents),
            method_route(PATH, result, METHODS),
            method_route(COLLECTION, {"GET": routes.list}, COLLECTION_METHODS),
            method_route("/{resource_id}/pin", {"PUT": routes.pin, "DELETE": routes.unpin}, PIN_METHODS),
            method_route(ROWS, {"GET": routes.rows, "POST": routes.rows}, ROW_METHODS),
            *(route for feature in features for route in feature.routes),
        ],
        default=_refuse_unknown_path,
        # Starlette's redirect names the scheme and host that this process sees, not those before a proxy.
        redirect_slashes=False,
        middleware=_middleware(server, features),
    )


async def _refuse_unknown_path(scope: Scope, _: Receive, send: Send) -> None:
    if scope["type"] != "websocket":
        raise not_found()
    # Not accepted before: the ASGI server answers the handshake with 403.
    await send({"type": "websocket.close", "code": 1000})


class Routes:
    """The endpoints of a resource, one method for each HTTP method."""

    def __init__(self, server: ResultServer, features: Sequence[FeatureRoutes]) -> None:
        self.server = server
        self._representations: dict[str, Endpoint] = {}
        self._listings: dict[str, Endpoint] = {}
        for feature in features:
            self._representations |= feature.representations
            self._listings |= feature.listing_representations
        reads_cookie = any(feature.reads_link_cookie for feature in features)
        self._varies = "Accept, Cookie" if reads_cookie else "Accept"

    async def read(self, request: Request) -> Response:
        """GET: the metadata, with a new count if asked; with page parameters, a page of rows."""
        if (represent := _preferred(request, self._representations)) is not None:
            return await represent(request)
        query = parameters.split_query(query_of(self.server, request))
        count = query.get("count")
        if count is not None:
            refuse_unknown(query, parameters.COUNT_QUERY, "query parameter beside count")
        elif query:
            values = parameters.query_values(query, parameters.PAGE_QUERY, "rows")
            return await self._answer_page(request, values)
        principal, resource, _ = await open_result(self.server, request, takes=False)
        describing = self.server.unchecked.describe(
            resource, principal, count="none" if count is None else count, counts=request.method != "HEAD"
        )
        metadata = await while_connected(request.receive, describing)
        etag = metadata_etag(metadata)
        if is_current(request.headers, etag):
            return not_modified(etag)
        return JSONAnswer(
            metadata,
            headers={"ETag": etag, "Vary": self._varies}
            | (RETRY_SOON if metadata["status"] == "pending" else {}),
        )

    async def page(self, request: Request) -> Response:
        """POST: a page of rows; the parameters are in the body."""
        return await self._answer_page(request, await self._values(request, parameters.PAGE_BODY, "rows"))

    async def rows(self, request: Request) -> Response:
        """GET and POST of /rows: all rows as a stream."""
        values = await self._values(request, parameters.STREAM_PARAMETERS, "pages")
        stream_request = parameters.parse_stream(values, request.headers)
        principal, resource, _ = await open_result(
            self.server, request, format_name=stream_request.format, takes=request.method != "HEAD"
        )
        stream = await self.server.unchecked.stream(resource, principal, stream_request)
        return await answer_stream(self.server, request, stream, resource=resource, principal=principal)

    async def _values(self, request: Request, allowed: Collection[str], other: str) -> Mapping[str, Any]:
        """The parameters of a request, which a POST has in its body and another method in its query string."""
        query = query_of(self.server, request)
        if request.scope["method"] != "POST":
            return parameters.query_values(parameters.split_query(query), allowed, other)
        parameters.refuse_query(query)
        body = await parameters.read_json_body(request, self.server.settings)
        return parameters.body_values(body, allowed, other)

    async def pin(self, request: Request) -> Response:
        """PUT of the resource or of /pin: keep it until it is deleted."""
        principal, resource = await self._opened(request, "pin")
        address = None if request.client is None else request.client.host
        from dualsql.results.resources import admit_pin

        pinned_by = await admit_pin(self.server.access, resource, principal, address)
        # Deleted, or expired, since it was opened.
        if not await self.server.unchecked.pin(resource.id, principal, pinned_by=pinned_by):
            raise not_found()
        return JSONAnswer(wire.Pinned(status="pinned", expires_at=None))

    async def unpin(self, request: Request) -> Response:
        """DELETE of /pin: let the resource expire again."""
        principal, resource = await self._opened(request, "pin")
        expires_at = await self.server.unchecked.unpin(resource.id, principal)
        if expires_at is None:
            raise not_found()
        return JSONAnswer(wire.Unpinned(status="ready", expires_at=instant(expires_at)))

    async def delete(self, request: Request) -> Response:
        """DELETE: delete the resource; its links stop working."""
        principal, resource = await self._opened(request, "delete")
        if not await self.server.unchecked.delete(resource.id, principal):
            raise not_found()
        return Response(status_code=204)

    async def _opened(self, request: Request, action: Action) -> tuple[Principal | None, Resource]:
        parameters.refuse_query(request.scope["query_string"])
        resource_id = parameters.resource_id_of(request)
        principal = await self.server.access.identify(request)
        return principal, await self.server.open_resource(resource_id, principal, action)

    async def list(self, request: Request) -> Response:
        """GET on the collection: the caller's own resources, newest first."""
        if (represent := _preferred(request, self._listings)) is not None:
            return await represent(request)
        limit, cursor = parameters.parse_listing(request.scope["query_string"])
        principal = await self.server.access.identify(request)
        listing = await self.server.list_resources(principal, limit=limit, cursor=cursor)
        unchecked, addresses = self.server.unchecked, self.server.parts.addresses
        resources = [
            wire.ListedResource(**unchecked.metadata_of(resource), url=addresses.url(resource.id))
            for resource in listing.resources
        ]
        answer = wire.ResourceListing(resources=resources, next_cursor=listing.next_cursor)
        if listing.unreadable:
            answer["unreadable"] = listing.unreadable
        return JSONAnswer(answer)

    async def _answer_page(self, request: Request, values: Mapping[str, Any]) -> Response:
        page_request = parameters.parse_page(values, takes_text=True)
        # HEAD shows no rows, so it does not use up a single-use link: link previews in chats and mails send HEAD.
        principal, resource, _ = await open_result(self.server, request, takes=request.method != "HEAD")
        return await answer_page(request, self.server.unchecked.read_page(resource, principal, page_request))


async def answer_page(request: Request, reading: Coroutine[Any, Any, ResultPage]) -> Response:
    """The answer with a page, which is read while its caller waits."""
    # To watch the connection costs a twentieth of a page, and most pages are read sooner.
    page = await while_connected(request.receive, reading, after=0.05)
    return JSONAnswer(await run_heavy(page.to_json) if page.is_heavy else page.to_json())


def query_of(server: ResultServer, request: Request) -> bytes:
    """The query string of a request, without a signed link."""
    links = server.access.links
    query: bytes = request.scope["query_string"] if links is None else links.query_of(request)
    return query


async def open_result(
    server: ResultServer, request: Request, *, format_name: str = "json", takes: bool
) -> tuple[Principal | None, Resource, bool]:
    """As whom the resource of the path is read, what it is, and whether by the caller's own right and not by a link.

    Args:
        format_name: of the rows; a link may not allow it.
        takes: rows will be read, which uses up a single-use link.

    Raises:
        ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `dualsql.results.access`.
    """
    resource_id = parameters.resource_id_of(request)
    links = server.access.links
    if links is not None:
        access = await links.open(request, resource_id, format_name=format_name, takes=takes)
        if access is not None:
            return *access, False
    principal = await server.access.identify(request)
    return principal, await server.open_resource(resource_id, principal, "read"), True


def _preferred(request: Request, representations: Mapping[str, Endpoint]) -> Endpoint | None:
    """The function for the media type that Accept prefers; None for JSON."""
    if not representations:
        return None
    preferred = parameters.preferred_media_type(request.headers.getlist("accept"), [_JSON, *representations])
    return representations.get(preferred or _JSON)


LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HOST = re.compile(r"(?P<name>[a-z0-9._-]{1,255}|\[[0-9a-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_TOO_LONG = 300  # for a name and a port, and for an origin
_CHECKED_NAMES = frozenset({b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"})
_CHECKED = "dualsql.host_check"


class HostCheck:
    """Answers 403 unless the Host header names one of `hosts` and the Origin header, if any, one of `origins`.

    Args:
        is_local: the server is on loopback, where every page in a browser of this machine reaches it. What a page of
            another site loads without an Origin header (images, scripts, frames) is refused, too; links to it open.
        needs_host: refuse a request without a Host header. Browsers send one; probes of HTTP/1.0 send none.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        is_local: bool = False,
        needs_host: bool = True,
    ) -> None:
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)
        self.origins = frozenset(origins)
        self.is_local = is_local
        self.needs_host = needs_host
        self._allowed = (self.hosts, self.origins, is_local, needs_host)
        self._refusal = lru_cache(256)(self._refuse)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # An application that holds these routes may have checked the same.
        if scope["type"] == "http" and scope.get(_CHECKED) != self._allowed:
            if refusal := self.refuse(scope["headers"]):
                return problem_response(refusal)(scope, receive, send)
            scope[_CHECKED] = self._allowed
        return self.app(scope, receive, send)

    def refuse(self, headers: Sequence[tuple[bytes, bytes]]) -> ForeignRequestError | None:
        """The error for a request with these headers, which is kept if they are few; None if it is allowed."""
        checked = tuple([(name, value[:_TOO_LONG]) for name, value in headers if name in _CHECKED_NAMES])
        return (self._refusal if len(checked) <= len(_CHECKED_NAMES) else self._refuse)(checked)

    def _refuse(self, headers: tuple[tuple[bytes, bytes], ...]) -> ForeignRequestError | None:
        hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        # DNS rebinding: the browser names the other site here. Two Host headers are malformed (RFC 9112, 3.2).
        host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        # `name` in the list allows every port, `name:port` only that one.
        is_served = host is not None and not self.hosts.isdisjoint({host["name"], host.group()})
        if (hosts or self.needs_host) and not is_served:
            return ForeignRequestError(
                "The Host header names a host that this server does not serve.",
                hint="Ask the operator to add the host name to allowed_hosts (dualsql serve --allowed-hosts).",
            )
        if "*" not in self.origins and not self.origins.issuperset(origins):
            return ForeignRequestError(
                "The Origin header names an origin that may not read this server.",
                hint="Ask the operator to add the origin to cors_origins (dualsql serve --cors-origins).",
            )
        # Browsers set these headers, and a page's script cannot change them. Other programs send none.
        fetch = dict(reversed(headers)) if self.is_local and not origins else {}
        is_from_elsewhere = fetch.get(b"sec-fetch-site", b"none") not in {b"same-origin", b"none"}
        mode, destination = fetch.get(b"sec-fetch-mode"), fetch.get(b"sec-fetch-dest")
        if is_from_elsewhere and (mode, destination) != (b"navigate", b"document"):
            return ForeignRequestError(
                "Pages of another site may not load this address.",
                hint="Open the address itself, or fetch it from an origin that is in cors_origins.",
            )
        return None


def host_check(server: ResultServer) -> Middleware:
    """The check of the headers that say who asks, for the routes of `server`."""
    hosts = own_hosts(server.base_url)
    return Middleware(
        HostCheck,
        hosts=hosts | frozenset(server.settings.allowed_hosts),
        origins=[origin_of(server.base_url), *map(origin_of, server.settings.cors_origins)],
        is_local=hosts == LOOPBACK_NAMES,
    )


def own_hosts(base_url: str) -> frozenset[str]:
    """The hosts that a server at `base_url` answers to; on loopback, all names of loopback."""
    name = _host_name(base_url)
    return LOOPBACK_NAMES if name in LOOPBACK_NAMES else frozenset({name})


def origin_of(url: str) -> str:
    """The origin of `url` as browsers write it (RFC 6454, section 6.2). "*" and "null" are returned unchanged."""
    parts = urlsplit(url)
    if not parts.scheme or not parts.hostname:
        return url
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{_host_name(url)}{port}"


def _host_name(url: str) -> str:
    name = urlsplit(url).hostname or ""
    return f"[{name}]" if ":" in name else name


def of_header(app: ASGIApp, *, name: bytes, middleware: Middleware) -> ASGIApp:
    """The application, with `middleware` around it for requests that have the header `name`."""
    around = middleware.cls(app, *middleware.args, **middleware.kwargs)

    def choose(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (around if name in dict(scope.get("headers", ())) else app)(scope, receive, send)

    return choose


def _middleware(server: ResultServer, features: Sequence[FeatureRoutes]) -> list[Middleware]:
    cross_origin: list[Middleware] = []
    if origins := [origin_of(origin) for origin in server.settings.cors_origins]:
        from dualsql.http.cors import cross_origin_middleware

        # CORS puts its headers on answers with problems, too.
        cross_origin = [cross_origin_middleware(origins), Middleware(Problems)]
    starts = [make_private, *(each for feature in features for each in feature.starts)]
    return [
        # Outermost first: what HostCheck and CORS refuse is logged, and has the private headers, too.
        *(each for feature in features for each in feature.middleware),
        Middleware(Problems, starts),
        host_check(server),
        *cross_origin,
        *(each for feature in features for each in feature.inner),
    ]
