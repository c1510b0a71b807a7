"""Identifies the caller of a request. A wrong credential is an error and never counts as anonymous.

A request without a credential is anonymous (None). A wrong, expired or misdirected credential is UNAUTHENTICATED, so
that the client renews its token; otherwise it would get 404 for its own resources.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from dualsql.errors import ConfigurationError, InsufficientScopeError, UnauthenticatedError
from dualsql.resource import DEFAULT_PORTS, Principal
from dualsql.results.access import Authenticate

# What Node.js takes for all headers together (--max-http-header-size); nginx takes 8 KiB for one.
MAXIMUM_TOKEN_LENGTH = 16 * 1024
"""Characters of a bearer token. A longer one is refused before it is checked."""


class AccessToken(Protocol):
    """The attributes of a verified token that dualsql reads: `mcp.server.auth.provider.AccessToken` has them."""

    client_id: str
    scopes: list[str]
    expires_at: int | None
    resource: str | None
    subject: str | None
    claims: dict[str, Any] | None


class TokenVerifier(Protocol):
    """`mcp.server.auth.provider.TokenVerifier`, or any object with its one method."""

    async def verify_token(self, token: str) -> Any | None:
        """The `AccessToken`, or None for a token that is not valid."""
        ...


def principal_of_token(token: AccessToken) -> Principal:
    """Issuer and subject as the principal's id; the claim "tenant", if there is one, as its tenant.

    If the verifier has set a `principal` on the token, that principal is used.
    Without a subject, the client itself is the principal. A subject is unique only for its issuer (RFC 9068), and
    is kept apart from a client of the same name. In a tool: `principal_of_token(get_access_token())`.
    """
    own = getattr(token, "principal", None)
    if isinstance(own, Principal):
        return own
    claims = token.claims or {}
    # A verifier may set the claim and not the field. Without the claim, all its users would be one client.
    subject = token.subject if token.subject is not None else claims.get("sub")
    who = f"client:{token.client_id}" if subject is None else f"subject:{subject}"
    tenant = claims.get("tenant")
    return Principal(id=f"{claims.get('iss', '')} {who}", tenant=None if tenant is None else str(tenant))


class BearerTokens:
    """`authenticate=` for OAuth, with the verifier of your MCP server, so that one token works for MCP and REST.

    Args:
        verifier: a `TokenVerifier` of the MCP SDK; it checks the signature or asks the issuer.
        principal: the principal of a token; use the same function where resources are created.
        resource: the audience of tokens for this server, usually the URL of its MCP endpoint. A token for another
            audience is refused (RFC 8707). Without it, the verifier must check the audience.
        scopes: a token must have all of them.
        metadata_url: says how clients get a token (RFC 9728); refusals name it.

    Raises:
        ConfigurationError: `resource` is no absolute URL.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        *,
        principal: Callable[[Any], Principal] = principal_of_token,
        resource: str | None = None,
        scopes: Sequence[str] = (),
        metadata_url: str | None = None,
    ) -> None:
        self._verifier = verifier
        self._principal = principal
        self._resource = None if resource is None else _canonical(resource)
        if resource is not None and (self._resource is None or not self._resource.host):
            raise ConfigurationError(
                "resource must be an absolute URL.",
                hint="https://api.example.com/mcp",
            )
        self._scopes = tuple(scopes)
        self._metadata = "" if metadata_url is None else f', resource_metadata="{metadata_url}"'

    async def __call__(self, request: Request) -> Principal | None:
        token = bearer_token(request)
        if token is None:
            return None
        access_token = await self._verifier.verify_token(token)
        if access_token is None or not self._is_for_us(access_token):
            raise UnauthenticatedError(
                "The bearer token is not valid for this server.",
                challenge=f'Bearer error="invalid_token"{self._metadata}',
            )
        if not set(self._scopes) <= set(access_token.scopes):
            scopes = " ".join(self._scopes)
            raise InsufficientScopeError(
                "The bearer token lacks a scope.",
                challenge=f'Bearer error="insufficient_scope", scope="{scopes}"{self._metadata}',
            )
        return self._principal(access_token)

    def _is_for_us(self, token: AccessToken) -> bool:
        if token.expires_at is not None and token.expires_at <= time.time():
            return False
        return self._resource is None or _canonical(token.resource or "") == self._resource


def static_tokens(principals: Mapping[str, Principal]) -> Authenticate:
    """`authenticate=` for demonstrations and tests, with a fixed set of bearer tokens."""
    tokens = [(token.encode(), principal) for token, principal in principals.items()]

    async def authenticate(request: Request) -> Principal | None:
        presented = bearer_token(request)
        if presented is None:
            return None
        # Every token is compared, each in constant time, so the time reveals nothing about them.
        matches = [who for token, who in tokens if hmac.compare_digest(token, presented.encode())]
        if not matches:
            raise UnauthenticatedError(
                "The bearer token is not valid for this server.", challenge='Bearer error="invalid_token"'
            )
        return matches[0]

    return authenticate


def request_user(principal: Callable[[Any], Principal]) -> Authenticate:
    """`authenticate=` behind Starlette's AuthenticationMiddleware: `principal` gets `request.user`.

    A user whose `is_authenticated` is false is an anonymous caller.
    """

    async def authenticate(request: Request) -> Principal | None:
        user = request.user
        return principal(user) if user.is_authenticated else None

    return authenticate


def fastapi_user(
    dependency: Callable[..., Any], principal: Callable[[Any], Principal | None]
) -> Authenticate:
    """`authenticate=` of a FastAPI application: `principal` gets what `Depends(dependency)` gives its endpoints.

    The dependency may have dependencies of its own, and `dependency_overrides` of the application apply. An
    HTTPException that it raises is the answer. It is called for MCP requests and for REST requests, which have no
    path parameters and no body that it may read.

    Args:
        dependency: such as `current_user` of FastAPI's tutorial.
        principal: the principal of its result; None for an anonymous caller.

    Raises:
        ConfigurationError: FastAPI is not installed.
    """
    try:
        from fastapi import Depends
        from fastapi.exceptions import RequestValidationError
        from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
        from fastapi.routing import APIRoute
    except ImportError as error:
        raise ConfigurationError("fastapi_user needs FastAPI.", hint="pip install fastapi") from error

    depends = Depends(dependency)

    async def resolve(request: Request, user: Any = depends) -> Response:
        request.scope[_USER] = user
        return Response()

    routes: WeakKeyDictionary[Any, APIRoute] = WeakKeyDictionary()

    async def authenticate(request: Request) -> Principal | None:
        application = request.scope["app"]
        route = routes.get(application)
        if route is None:
            overriding = application if hasattr(application, "dependency_overrides") else None
            route = routes[application] = APIRoute(
                "/", resolve, response_model=None, dependency_overrides_provider=overriding
            )
        scope = {**request.scope, "method": "GET", "path_params": {}}
        # They would answer an HTTPException, and not raise it.
        scope.pop("starlette.exception_handlers", None)
        try:
            # Requests pass this middleware in an application of FastAPI only, and its routes need it.
            await AsyncExitStackMiddleware(route.app)(scope, _no_body, _no_answer)
        except RequestValidationError as error:
            raise UnauthenticatedError("The request lacks what identifies its caller.") from error
        return principal(scope[_USER])

    return authenticate


_USER = "dualsql.user"


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _no_answer(message: Message) -> None:
    pass


def bearer_token(request: Request) -> str | None:
    """The token of the Authorization header, or None without such a header (RFC 6750).

    Raises:
        UnauthenticatedError: several headers, another scheme, or no usable token in it.
    """
    headers = request.headers.getlist("authorization")
    if not headers:
        return None
    scheme, _, token = headers[0].partition(" ")
    # With two headers, a proxy may have checked the other one.
    is_one_token = len(headers) == 1 and scheme.lower() == "bearer" and _is_token(token)
    if not is_one_token:
        raise UnauthenticatedError("The request has no usable bearer token.")
    return token


def _is_token(text: str) -> bool:
    if not 0 < len(text) <= MAXIMUM_TOKEN_LENGTH:
        return False
    return text.isascii() and text.isprintable() and not {" ", ",", '"'} & set(text)


class _Location(NamedTuple):
    """A URL for comparison: the case of its host, a default port and a trailing slash do not matter."""

    scheme: str
    host: str
    port: int | None
    path: str
    query: str


def _canonical(url: str) -> _Location | None:
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return _Location(parts.scheme, parts.hostname or "", port, parts.path.removesuffix("/"), parts.query)
