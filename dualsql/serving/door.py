"""The way in to the MCP endpoint; the rule: one function says who calls, here and over REST.

Each request brings its own identity, for there is no session that could have one. It is handed on as the MCP SDK
hands on an access token, so that tools, resources and subscriptions find it where they look for one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Protocol

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dualsql.http.problems import MethodNotAllowedError, problem_response
from dualsql.resource import Principal

ContextProvider = Callable[[Request, Principal | None], Awaitable[Any]]
"""Makes, for each MCP request, what `provided()` gives in the tools that it calls.

What it raises refuses the request: an error of dualsql's or Starlette's HTTPException with its own status.
"""

METHODS = ("POST",)

_provided: ContextVar[Any] = ContextVar("dualsql_provided", default=None)


def provided() -> Any:
    """In a tool: what the context provider made for this request; None without one."""
    return _provided.get()


class IntroducedToken(AccessToken):
    """A token whose principal is known; see `dualsql.identity.principal_of_token`."""

    principal: Principal


class Identifying(Protocol):
    """What is asked of a DualResponseServer."""

    async def identify(self, request: Request) -> Principal | None:
        """Who sent the request; None for an anonymous caller."""
        ...


class Door:
    """Lets a request in to `app`, with its principal and what is provided for it."""

    def __init__(self, app: ASGIApp, dual: Identifying, context: ContextProvider | None = None) -> None:
        self._app = app
        self._dual = dual
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 405 for what a stateless endpoint has no use for, and 401 for a credential that is not right."""
        try:
            if scope["method"] not in METHODS:
                raise MethodNotAllowedError(
                    "There is no session here to listen to, or to end.", known=METHODS
                )
            principal, made = await self._ask(Request(scope, receive))
        except Exception as error:  # noqa: BLE001 - the outermost edge: what is not ours becomes a fixed text
            await problem_response(error)(scope, receive, send)
            return
        await self._let_in(principal, made, scope, receive, send)

    async def _ask(self, request: Request) -> tuple[Principal | None, Any]:
        principal = await self._dual.identify(request)
        return principal, None if self._context is None else await self._context(request, principal)

    async def _let_in(
        self, principal: Principal | None, made: Any, scope: Scope, receive: Receive, send: Send
    ) -> None:
        user = None if principal is None else _user(principal)
        providing, introducing = _provided.set(made), auth_context_var.set(user)
        try:
            await self._app({**scope, "user": user} if user else scope, receive, send)
        finally:
            auth_context_var.reset(introducing)
            _provided.reset(providing)


def _user(principal: Principal) -> AuthenticatedUser:
    # The credential itself goes no further than to `identify`.
    token = IntroducedToken(token="-", client_id=principal.id, scopes=[], principal=principal)  # noqa: S106
    return AuthenticatedUser(token)
