"""MCP and REST as one Starlette application, and a server over the reflected tables of a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from sqlalchemy import MetaData
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dualsql.charts.mcp import add_chart_tool
from dualsql.databases.reach import reach
from dualsql.databases.reflection import ReflectedTables, Selection, reflect
from dualsql.databases.source import Database, open_source
from dualsql.errors import ConfigurationError, UnauthenticatedError
from dualsql.features import DualResponseServer
from dualsql.freeze import Registry
from dualsql.http.problems import MethodNotAllowedError, problem_response
from dualsql.http.router import host_check, origin_of
from dualsql.identity import Authenticate, static_tokens
from dualsql.mcp import (
    ToolOptions,
    add_app,
    add_catalogue,
    add_execute_query,
    add_resources,
    add_result_tools,
    add_skill,
)
from dualsql.mcp.calls import IS_IDENTIFIED
from dualsql.mcp.tasks import Tasks
from dualsql.openapi.feature import OpenAPI
from dualsql.request_log import Log, RequestLog
from dualsql.resource import Principal
from dualsql.serve.app_sessions import AppSessions
from dualsql.serve.hosts import over_http
from dualsql.serve.stdio import instructions_with
from dualsql.settings import ResultsFormat, Settings, TextFormat, require_duration
from dualsql.web.feature import Pages
from dualsql.web.home import Home, TokenSession
from dualsql_client.keywords import checked_keywords

MINIMUM_TOKEN_LENGTH = 16
"""Characters of a token."""


TOKEN_PRINCIPAL = Principal(id="token")
"""The principal of a server with one token."""


def one_token(token: str, principal: Principal | None = None) -> Authenticate:
    """`authenticate=` for a server with one bearer token: its holder is `principal`, all other callers are refused.

    Raises:
        ConfigurationError: the token is too short, or has characters that a header cannot contain.
    """
    if (
        len(token) < MINIMUM_TOKEN_LENGTH
        or not token.isascii()
        or not token.isprintable()
        # None of these is in a bearer token (RFC 6750, 2.1).
        or {" ", ",", '"'} & set(token)
    ):
        raise ConfigurationError(
            f"The token must have {MINIMUM_TOKEN_LENGTH} or more printable ASCII characters, without spaces.",
            hint='Create one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return required(static_tokens({token: principal or TOKEN_PRINCIPAL}))


def required(authenticate: Authenticate) -> Authenticate:
    """`authenticate`, but anonymous callers are refused."""

    async def authenticate_or_refuse(request: Request) -> Principal | None:
        principal = await authenticate(request)
        if principal is None:
            raise UnauthenticatedError("This server requires a credential.")
        return principal

    return authenticate_or_refuse


ContextProvider = Callable[[Request, Principal | None], Awaitable[Any]]
"""Called for each MCP request. Tools that the request calls get its result from `provided()`.

To refuse the request, raise an error of dualsql or Starlette's HTTPException. Each has its own status.
"""

METHODS = ("POST",)
"""Methods of the MCP endpoint. It is stateless, so it has no session for GET and DELETE."""

_provided: ContextVar[Any] = ContextVar("dualsql_provided", default=None)


def provided() -> Any:
    """In a tool: the result of the context provider for this request; None without a provider."""
    return _provided.get()


class IdentifiedToken(AccessToken):
    """An access token with its principal, which `dualsql.identity.principal_of_token` reads."""

    principal: Principal


class AuthMiddleware:
    """Authenticates each request to the MCP endpoint, and calls the context provider for it.

    A stateless endpoint has no session that could store an identity, so each request is authenticated. The principal is
    passed on in the MCP SDK's access token, where tools, resources and subscriptions look for it.
    """

    def __init__(
        self, app: ASGIApp, dual: DualResponseServer, context: ContextProvider | None = None
    ) -> None:
        self._app = app
        self._dual = dual
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer 405 for methods other than POST, and 401 for a wrong credential."""
        try:
            # First of all: the SDK would answer GET by a stream that never sends anything (decision 22).
            if scope["method"] not in METHODS:
                raise MethodNotAllowedError(
                    "The MCP endpoint is stateless: it has no session to listen to or to end.",
                    methods=METHODS,
                )
            request = Request(scope, receive)
            principal = await self._dual.access.identify(request)
            context = None if self._context is None else await self._context(request, principal)
        except Exception as error:  # noqa: BLE001 - the outermost edge: other exceptions become a fixed text
            await problem_response(error)(scope, receive, send)
            return
        user = None if principal is None else _user(principal)
        context_token, user_token = _provided.set(context), auth_context_var.set(user)
        identified_token = IS_IDENTIFIED.set(True)
        try:
            await self._app({**scope, "user": user} if user else scope, receive, send)
        finally:
            IS_IDENTIFIED.reset(identified_token)
            auth_context_var.reset(user_token)
            _provided.reset(context_token)


def _user(principal: Principal) -> AuthenticatedUser:
    # The token does not contain the credential.
    token = IdentifiedToken(token="-", client_id=principal.id, scopes=[], principal=principal)  # noqa: S106
    return AuthenticatedUser(token)


_TASK_AFTER = timedelta(seconds=3)
"""For clients that declare tasks: how long a call may take before its result is a task."""


@checked_keywords(MCPServer)
def build_mcp(
    dual: DualResponseServer,
    *,
    name: str = "dualsql",
    wait: timedelta | None = None,
    results_format: ResultsFormat = "rows",
    text_format: TextFormat = "markdown",
    notes: str = "",
    **options: Any,
) -> MCPServer[Any]:
    """An MCP server of the official SDK with all ready-made tools and resources.

    This function neither starts nor stops `dual`. `serve_app` does, or your application.

    Args:
        wait: how long a query may take before its result is pending; by default a call takes up to `query_timeout`.
            At most `maximum_pending` such queries run at once (docs/pending.md). Clients that declare tasks get tasks.
        results_format, text_format: of all results; see `dualsql.mcp.ToolOptions`.
        notes: what the schema does not say: terms, units, which table to use. Every model reads them with the
            instructions, and `search_catalog` finds them. At most `LONGEST_NOTES` characters.
        options: further arguments of `MCPServer`.

    Raises:
        ConfigurationError: the extra `sql` is not installed, or the notes are too long.
    """
    defaults = {
        "instructions": instructions_with(notes),
        "version": version("dualsql"),
        "log_level": "WARNING",
        "extensions": [Tasks(dual, wait=_TASK_AFTER)],
    }
    server: MCPServer[Any] = MCPServer(name, **{**defaults, **options})
    tool_options: ToolOptions = {"results_format": results_format, "text_format": text_format}
    if wait is not None:
        tool_options["wait"] = require_duration("wait", wait)
    if Pages in dual.features:
        add_app(dual, server)
    add_catalogue(dual, server, notes=notes)
    add_execute_query(dual, server, **tool_options)
    add_result_tools(dual, server, **tool_options)
    add_chart_tool(dual, server, **tool_options)
    add_resources(dual, server)
    add_skill(dual, server)
    return server


_SOURCE = "default"


class Built(NamedTuple):
    """A started server, and its tables."""

    server: DualResponseServer
    reflected: ReflectedTables


@checked_keywords(DualResponseServer)
async def build_server(
    database: Database,
    selection: Selection,
    *,
    base_url: str,
    read_only_role: str | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> Built:
    """A started `DualResponseServer` over the selected tables of `database`.

    The tables are reflected once. Tables that are created or altered later are served after a restart.

    Args:
        base_url, settings: as for `DualResponseServer`.
        read_only_role: the role that every session takes; PostgreSQL only.
        options: other arguments of `DualResponseServer`.

    Raises:
        ConfigurationError: the database cannot be reached, its sessions cannot be made read-only, or it does not have
            the selected tables.
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: the database failed.
    """
    effective = settings or Settings()
    if read_only_role is not None:
        effective = replace(effective, read_only_roles={**effective.read_only_roles, _SOURCE: read_only_role})
    reflected = await _reflect(database, selection, effective)
    server = DualResponseServer(
        database, base_url=base_url, tables=reflected.metadata, settings=effective, **options
    )
    try:
        await server.start()
    # Also of Ctrl-C: connections are open, and tasks may run.
    except BaseException:
        await server.shutdown()
        raise
    return Built(server, reflected)


async def _reflect(database: Database, selection: Selection, settings: Settings) -> ReflectedTables:
    # In a thread, because it imports the driver, and over stdio a host is being answered.
    source = await asyncio.to_thread(open_source, _SOURCE, database, Registry(MetaData()), settings)
    try:
        await reach(source, timeout=settings.query_timeout)
        return await reflect(source, selection)
    finally:
        await source.close()


MAXIMUM_REQUEST_SIZE = 1024 * 1024
"""Bytes of one MCP request."""


class DataApplication(Starlette):
    """MCP and REST of one server, as an application of its own, or as a part of yours.

    In your application, pass `lifespan` to it and append `as_route()` to its routes; in one that is not Starlette's,
    call it with the requests for its paths (docs/guides/litestar.md). `request.app` is yours then:
    functions that identify callers read its state, and FastAPI its `dependency_overrides`.
    """

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Start and stop the server: `FastAPI(lifespan=data.lifespan)`, or in yours `async with data.lifespan(app)`."""
        async with self.router.lifespan_context(self):
            yield

    def as_route(self) -> BaseRoute:
        """A route that matches the paths of this application and no other: `app.router.routes.append(...)`.

        It may stand before or behind your own routes.
        """
        return _PartOfApplication(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As Starlette does, but for `scope["app"]`, and by the whole path, which Litestar shortens for a mount."""
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        if "app" not in scope:
            scope["app"] = self
        elif not getattr(self.state, "has_started", False):
            raise ConfigurationError(
                "The application does not run the lifespan of its part from serve_app, which starts the server.",
                hint="FastAPI(lifespan=data.lifespan), or in a lifespan of yours: `async with data.lifespan(app):`.",
            )
        else:
            raw: bytes | None = scope.get("raw_path")
            # The query is no part of raw_path in ASGI, but Litestar's test client leaves it there.
            path = scope["path"] if raw is None else unquote(raw.partition(b"?")[0].decode("latin-1"))
            scope = {**scope, "path": path}
        scope.setdefault("router", self.router)  # which a request for a result does not pass
        await self.middleware_stack(scope, receive, send)


class _PartOfApplication(BaseRoute):
    """Matches what the routes of an application match. A mount at "/" would also match all unknown paths."""

    def __init__(self, app: DataApplication) -> None:
        self._app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_ours = any(route.matches(scope)[0] is not Match.NONE for route in self._app.routes)
        return (Match.FULL if is_ours else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def serve_app(
    dual: DualResponseServer,
    mcp: MCPServer[Any] | None = None,
    *,
    context: ContextProvider | None = None,
    session: TokenSession | None = None,
) -> DataApplication:
    """A Starlette application with REST at the path of `dual.base_url` and MCP at /mcp beside it.

    Its lifespan starts and stops `dual`. The MCP endpoint is stateless streamable HTTP, and answers 405 for methods
    other than POST. The `authenticate` of `dual` identifies the callers of both.

    Args:
        mcp: an MCP server; by default the result of `build_mcp`.
        context: called for every MCP request; see `provided`.
        session: how browsers sign in to the pages, if the server has pages.
    """
    server = build_mcp(dual) if mcp is None else mcp
    sessions = _new_sessions(server)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        nonlocal sessions
        # A manager runs once, and an application may be started again: tests start it for each test.
        new = _new_sessions(server)
        async with dual.lifespan(app), new.run():
            # Here, so that a start that fails beside one that runs leaves that one its manager.
            sessions = new
            app.state.has_started = True
            yield
            app.state.has_started = False

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await sessions.handle_request(scope, receive, send)

    endpoint = AuthMiddleware(AppSessions(answer, MAXIMUM_REQUEST_SIZE), dual, context)
    path, resources = mcp_path(dual.base_url), urlsplit(dual.base_url).path
    results = Mount(resources, dual.router())
    routes: list[BaseRoute] = [
        Route(path, endpoint, middleware=_cors(dual)),
        dual.features.get(OpenAPI).well_known(),
        *(_home(dual, server.name, path, session) if Pages in dual.features else []),
    ]
    # A mount at the root matches all paths; without Log, the application logs requests for results, too.
    is_direct = resources.strip("/") and Log in dual.features
    first = [Middleware(_ResultsFirst, results=results)] if is_direct else []
    application = DataApplication(
        routes=[*routes, results],
        middleware=[*first, Middleware(RequestLog), host_check(dual)],
        lifespan=lifespan,
    )
    router = application.router
    router.redirect_slashes = False
    router.default = _SlashRedirect(router.routes, router.default)
    return application


class _ResultsFirst:
    """Passes requests for results to their routes, and others on. The routes check, log and answer errors."""

    def __init__(self, app: ASGIApp, *, results: Mount) -> None:
        self._app, self._results = app, results

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        match, child_scope = self._results.matches(scope)
        scope.update(child_scope)
        return (self._results.app if match is Match.FULL else self._app)(scope, receive, send)


def _new_sessions(server: MCPServer[Any]) -> StreamableHTTPSessionManager:
    # The call creates the session manager. `serve_app` builds the application itself, for MCP and REST.
    server.streamable_http_app(
        stateless_http=True,
        max_request_body_size=MAXIMUM_REQUEST_SIZE,
        # HostCheck does this for MCP and REST, so allowed_hosts and cors_origins hold for both (decision 22).
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return server.session_manager


class _SlashRedirect:
    """Redirects to the path with a slash, or without one, where a route has that, and relative to the path.

    Starlette's own redirect names host and scheme, which a proxy may have changed.
    """

    def __init__(self, routes: Sequence[BaseRoute], otherwise: ASGIApp) -> None:
        self._routes, self._otherwise = routes, otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        answer = self._otherwise
        if scope["type"] == "http" and path != "/":
            other = path.rstrip("/") if path.endswith("/") else f"{path}/"
            if any(route.matches({**scope, "path": other})[0] is not Match.NONE for route in self._routes):
                name, query = other.rstrip("/").rpartition("/")[2], scope["query_string"].decode("latin-1")
                target = f"{quote(name)}/" if other.endswith("/") else f"../{quote(name)}"
                answer = RedirectResponse(f"{target}{f'?{query}' if query else ''}", 307)
        await answer(scope, receive, send)


def _home(dual: DualResponseServer, name: str, path: str, session: TokenSession | None) -> list[BaseRoute]:
    parts = urlsplit(dual.base_url)
    url = f"{parts.scheme}://{parts.netloc}{path}"
    snippets = list(over_http(name, url, has_token=session is not None))
    return Home(server=dual, title=name, snippets=snippets, session=session).routes()


def mcp_path(base_url: str) -> str:
    """The path of the MCP endpoint: beside that of the resources."""
    return urlsplit(base_url).path.rpartition("/")[0] + "/mcp"


def _cors(dual: DualResponseServer) -> list[Middleware]:
    origins = [origin_of(origin) for origin in dual.settings.cors_origins]
    cors = Middleware(CORSMiddleware, allow_origins=origins, allow_methods=METHODS, allow_headers=["*"])
    return [cors] if origins else []
