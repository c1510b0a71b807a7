"""Calls the tools of an application in its tests: over a session of MCP, and over REST, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from anyio.from_thread import BlockingPortal
from sqlalchemy import AsyncAdaptedQueuePool, NullPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message

from dualsql.errors import ConfigurationError
from dualsql.testing.loops import SHARED, RelayedClient, RelayedTransport, loop_of_servers
from dualsql_client import DualResponseClient, ParsedDualResponse, ToolFailedError

if TYPE_CHECKING:
    from dualsql.features import DualResponseServer
    from dualsql.resource import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolClient:
    """Calls tools as a model does, and reads the rows as an application does. It works in any event loop of asyncio.

    Attributes:
        model: the client of the MCP SDK, connected to the server.
        application: the client of the results.
        http: what it sends with, for requests of your own: `await tools.http.get(parsed.resource_url)`.
    """

    model: Any
    application: DualResponseClient
    http: httpx.AsyncClient

    async def call(self, tool: str, /, **arguments: Any) -> ParsedDualResponse:
        """The dual response of a tool: `sample`, `total_count`, `await .fetch_all()`.

        Raises:
            ToolFailedError: the tool failed; the code, message and hint are those that the model reads.
            ParseError: the tool has answered something else.
        """
        result = await self.result(tool, **arguments)
        if result.is_error:
            raise _failure(result)
        return self.application.parse(result, strict=True)

    async def result(self, tool: str, /, **arguments: Any) -> Any:
        """The whole result, as the model gets it, also of a tool that failed."""
        # A client of fastmcp raises an error of its own, without code and hint.
        call = getattr(self.model, "call_tool_mcp", None) or self.model.call_tool
        return await call(tool, arguments)


def _failure(result: Any) -> ToolFailedError:
    problem = (result.structured_content or {}).get("error")
    if not isinstance(problem, dict):
        text = "\n".join(block.text for block in result.content if hasattr(block, "text"))
        return ToolFailedError(text)
    return ToolFailedError(
        problem["message"], code=problem["code"], hint=problem["hint"], details=problem["details"]
    )


@asynccontextmanager
async def tool_client(
    dual: DualResponseServer,
    mcp: Any,
    *,
    headers: Mapping[str, str] | None = None,
    app: ASGIApp | None = None,
) -> AsyncIterator[ToolClient]:
    """Start `dual`, and connect a client to `mcp` and to the results.

    All servers run in one event loop in a thread, so a client may be used in any loop: a session's fixture in the test
    of a function. An asynchronous engine of `dual` opens a connection for each use from then on, because a connection
    belongs to the loop that opened it.

    Args:
        mcp: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        headers: of each request; the `authenticate` of `dual` finds the caller by them, for tools and for rows. A
            tool with a `principal=` of its own sees a token without claims.
        app: the application that serves both, such as a FastAPI with `serve_app`. Its lifespan is run, and each
            request passes its middleware: MCP at `/mcp` beside the results, with the headers. Without it, MCP is a
            session in memory.

    Raises:
        ConfigurationError: `mcp` is of no supported SDK.
    """
    stack = ExitStack()
    opened = partial(stack.enter_context, _tool_client(dual, mcp, headers, app))
    client = await asyncio.to_thread(opened)
    try:
        yield client
    finally:
        await asyncio.shield(asyncio.to_thread(stack.close))


Scope = Literal["function", "class", "module", "package", "session"]


def tool_fixture(
    dual: DualResponseServer,
    mcp: Any,
    *,
    headers: Mapping[str, str] | None = None,
    app: ASGIApp | None = None,
    scope: Scope = "function",
) -> Any:
    """A fixture of pytest, which gives a `ToolClient`: `tools = tool_fixture(dual, mcp)` in conftest.py.

    It is no coroutine, so it suits pytest-asyncio in both modes and anyio, in any scope.

    Args:
        headers, app: as of `tool_client`.
    """
    _let_any_loop_connect(dual)

    @pytest.fixture(scope=scope)
    def tools() -> Iterator[ToolClient]:
        with _tool_client(dual, mcp, headers, app) as client:
            yield client

    return tools


def open_for_each_use(engine: Any) -> None:
    """Let an AsyncEngine open a connection for each use, as one with `poolclass=NullPool`, if it keeps several.

    A pool of its own class is made as `Pool.recreate` does (`pool/impl.py`), with the events of the former one.
    """
    pool = engine.pool
    if isinstance(pool, AsyncAdaptedQueuePool):
        engine.sync_engine.pool = NullPool(
            pool._creator,
            recycle=pool._recycle,
            echo=pool.echo,
            logging_name=pool._orig_logging_name,
            reset_on_return=pool._reset_on_return,
            pre_ping=pool._pre_ping,
            _dispatch=pool.dispatch,
            dialect=pool._dialect,
        )


def _let_any_loop_connect(dual: DualResponseServer) -> None:
    for source in dual.parts.sources.values():
        if not source.owns_engine:
            open_for_each_use(source.engine)


@contextmanager
def _tool_client(
    dual: DualResponseServer, mcp: Any, headers: Mapping[str, str] | None, app: ASGIApp | None
) -> Iterator[ToolClient]:
    _let_any_loop_connect(dual)
    with loop_of_servers() as portal, ExitStack() as stack:
        if app is not None:
            stack.enter_context(
                SHARED.value_of(app, lambda: portal.wrap_async_context_manager(_lifespan(app)))
            )
        clients = _clients(portal, dual, mcp, dict(headers or {}), app)
        yield stack.enter_context(portal.wrap_async_context_manager(clients))


@asynccontextmanager
async def _clients(
    portal: BlockingPortal, dual: DualResponseServer, mcp: Any, headers: dict[str, str], app: ASGIApp | None
) -> AsyncIterator[ToolClient]:
    parts = urlsplit(dual.base_url)
    origin = f"{parts.scheme}://{parts.netloc}"
    async with AsyncExitStack() as stack:
        if app is None:
            await stack.enter_async_context(dual)
            callers = _Callers(dual)
            app = Starlette(routes=[callers.route(), Mount(parts.path, dual.router())])
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url=origin, headers=headers
            ) as asking:
                become = _becoming(mcp, await callers.identify(asking))
            become()
            session = _sdk_of(mcp).client(mcp)
        else:
            from dualsql.serve.application import mcp_path

            become = nullcontext
            session = _session_over_http(mcp, app, f"{origin}{mcp_path(dual.base_url)}", headers)
        model = await stack.enter_async_context(session)
        transport = RelayedTransport(portal, httpx.ASGITransport(app))
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url=origin, headers=headers)
        )
        application = await stack.enter_async_context(DualResponseClient(dual.base_url, http=http))
        yield ToolClient(model=RelayedClient(portal, model, become), application=application, http=http)


class _Callers:
    """Asks the `authenticate` of a server who sends the headers of a client."""

    def __init__(self, dual: DualResponseServer) -> None:
        self._dual = dual
        self._answer: Principal | Exception | None = None

    def route(self) -> Route:
        """A route of the application that is asked, so that the request is a real one."""
        return Route(_WHO, self._identify)

    async def identify(self, http: httpx.AsyncClient) -> Principal | None:
        """The principal of the client's headers."""
        await http.get(_WHO)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def _identify(self, request: Request) -> Response:
        try:
            self._answer = await self._dual.access.identify(request)
        except Exception as error:  # noqa: BLE001 - raised by `identify`, not answered
            self._answer = error
        return Response()


_WHO = "/dualsql.testing/who"


@asynccontextmanager
async def _lifespan(app: ASGIApp) -> AsyncIterator[None]:
    """Run the lifespan of an ASGI application during the block."""
    messages: asyncio.Queue[Message] = asyncio.Queue()
    answers: asyncio.Queue[Message] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
    running = asyncio.ensure_future(app(scope, messages.get, answers.put))

    async def tell(kind: str) -> None:
        await messages.put({"type": f"lifespan.{kind}"})
        answer = asyncio.ensure_future(answers.get())
        await asyncio.wait({running, answer}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done() and answer.result()["type"] == f"lifespan.{kind}.complete":
            return
        answer.cancel()
        await running  # its own error, if it raised one
        raise ConfigurationError(
            f"The application refused lifespan.{kind}.",
            hint="Its log says why; a server would not start it either.",
        )

    await tell("startup")
    try:
        yield
    finally:
        await tell("shutdown")
        await running


def _becoming(mcp: Any, principal: Principal | None) -> Callable[[], object]:
    """Sets the token of the principal where SDKs look for one, in the context in which it is called."""
    from mcp.server.auth.middleware.auth_context import auth_context_var
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

    user = None
    if principal is not None:
        # A class with a principal: dualsql.identity.principal_of_token reads it.
        identified = type("IdentifiedCaller", (_sdk_of(mcp).token,), {"__annotations__": {"principal": Any}})
        user = AuthenticatedUser(
            identified(token="-", client_id=principal.id, scopes=[], principal=principal)
        )
    return partial(auth_context_var.set, user)


def _session_over_http(
    mcp: Any, app: ASGIApp, url: str, headers: dict[str, str]
) -> AbstractAsyncContextManager[Any]:
    import httpx2

    def http_client(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**{**options, "headers": headers}, transport=httpx2.ASGITransport(app))

    sdk = _sdk_of(mcp)
    session: AbstractAsyncContextManager[Any] = sdk.client(sdk.over_http(url, http_client))
    return session


class _SDK(NamedTuple):
    """The SDK that made a server.

    Attributes:
        client, token: the classes of a client and of an access token.
        over_http: makes the transport of a client, of an URL and a function that makes its client of httpx2.
    """

    client: Any
    token: Any
    over_http: Callable[[str, Callable[..., Any]], Any]


def _sdk_of(mcp: Any) -> _SDK:
    packages = {ancestor.__module__.partition(".")[0] for ancestor in type(mcp).__mro__}
    if "fastmcp" in packages:
        transport = import_module("fastmcp.client.transports").StreamableHttpTransport
        return _SDK(
            import_module("fastmcp").Client,
            import_module("fastmcp.server.auth").AccessToken,
            lambda url, http_client: transport(url, httpx_client_factory=http_client),
        )
    if "mcp" in packages:
        transport = import_module("mcp.client.streamable_http").streamable_http_client
        return _SDK(
            import_module("mcp").Client,
            import_module("mcp.server.auth.provider").AccessToken,
            lambda url, http_client: transport(url, http_client=http_client()),
        )
    raise ConfigurationError(
        f"{type(mcp).__name__} is not the class of a supported MCP server.",
        hint="tool_client(dual, mcp), where mcp is an mcp.server.MCPServer or a fastmcp.FastMCP.",
    )
