"""Who sent a request: bearer tokens of the MCP SDK's verifier, fixed tokens, Starlette's user; and who is refused."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
from mcp.server.auth.provider import AccessToken, TokenVerifier
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.routing import Mount

from dualsql.errors import ConfigurationError
from dualsql.identity import BearerTokens, principal_of_token, request_user, static_tokens
from dualsql.identity.authenticate import MAXIMUM_TOKEN_LENGTH
from dualsql.resource import Principal
from tests.http.application import problem_of, running
from tests.identity.people import ANA, AS_ANA, BOB, TOKENS, people

MCP_URL = "https://api.example.com/mcp"
ISSUER = "https://login.example.com"


class Verifier(TokenVerifier):
    """Knows tokens by heart, and counts how often it is asked."""

    def __init__(self, **tokens: AccessToken) -> None:
        self.tokens = tokens
        self.asked = 0

    async def verify_token(self, token: str) -> AccessToken | None:
        self.asked += 1
        return self.tokens.get(token)


def access(**changes: Any) -> AccessToken:
    """A valid token of Ana's."""
    fields: dict[str, Any] = {
        "token": "secret",
        "client_id": "desktop",
        "scopes": ["rows"],
        "expires_at": int(time.time()) + 60,
        "resource": MCP_URL,
        "subject": "ana",
        "claims": {"iss": ISSUER, "tenant": "acme"},
    }
    return AccessToken(**fields | changes)


def request(*headers: tuple[str, str]) -> Request:
    """A request with these headers."""
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw})


def bearing(token: str) -> Request:
    return request(("Authorization", f"Bearer {token}"))


async def refusal(tokens: Any, asking: Request) -> str:
    """The challenge with which a request is refused."""
    with pytest.raises(Exception, match="token") as error:
        await tokens(asking)
    challenge: str = error.value.challenge  # type: ignore[attr-defined]  # both errors have one
    return challenge


class TestBearerTokens:
    async def test_a_token_stands_for_issuer_and_subject(self) -> None:
        tokens = BearerTokens(Verifier(good=access()), resource=MCP_URL)
        assert await tokens(bearing("good")) == Principal(id=f"{ISSUER} subject:ana", tenant="acme")

    async def test_no_token_is_an_anonymous_caller(self) -> None:
        verifier = Verifier()
        assert await BearerTokens(verifier)(request()) is None
        assert verifier.asked == 0

    @pytest.mark.parametrize(
        "token",
        [
            None,
            access(expires_at=int(time.time()) - 1),
            access(expires_at=0),
            access(resource=None),
            access(resource="https://other.example.com/mcp"),
            access(resource="https://api.example.com/mcp/admin"),
            access(resource="http://api.example.com/mcp"),
            access(resource="https://api.example.com:444/mcp"),
            access(resource="https://api.example.com.evil.example/mcp"),
            access(resource="https://api.example.com:x/mcp"),
        ],
    )
    async def test_a_token_that_is_not_right_is_refused_and_not_anonymous(
        self, token: AccessToken | None
    ) -> None:
        verifier = Verifier(**({"given": token} if token else {}))
        tokens = BearerTokens(
            verifier, resource=MCP_URL, metadata_url="https://api.example.com/.well-known/x"
        )
        assert await refusal(tokens, bearing("given")) == (
            'Bearer error="invalid_token", resource_metadata="https://api.example.com/.well-known/x"'
        )

    @pytest.mark.parametrize("same", ["https://API.example.com/mcp", "https://api.example.com:443/mcp/"])
    async def test_resources_are_compared_as_urls(self, same: str) -> None:
        tokens = BearerTokens(Verifier(good=access(resource=same)), resource=MCP_URL)
        assert await tokens(bearing("good")) is not None

    async def test_a_scope_that_is_missing_is_another_refusal(self) -> None:
        tokens = BearerTokens(Verifier(good=access()), scopes=["rows", "more"])
        assert (
            await refusal(tokens, bearing("good")) == 'Bearer error="insufficient_scope", scope="rows more"'
        )

    @pytest.mark.parametrize("resource", ["", "api.example.com/mcp", "https://h:x/"])
    def test_the_resource_is_an_address(self, resource: str) -> None:
        with pytest.raises(ConfigurationError):
            BearerTokens(Verifier(), resource=resource)

    @pytest.mark.parametrize(
        "headers",
        [
            [("Authorization", "Bearer good"), ("Authorization", "Bearer good")],
            [("Authorization", "Bearer evil"), ("authorization", "Bearer good")],
            [("Authorization", "Bearer good, Bearer evil")],
            [("Authorization", "Bearer good evil")],
            [("Authorization", "Bearer")],
            [("Authorization", "Bearer ")],
            [("Authorization", "Bearer  good")],
            [("Authorization", "Basic good")],
            [("Authorization", "good")],
            [("Authorization", "")],
            [("Authorization", "Bearer g\u00f6\u00f6d")],
            [("Authorization", "Bearer go\x00od")],
            [("Authorization", "Bearer " + "a" * (MAXIMUM_TOKEN_LENGTH + 1))],
            [("Authorization", "Bearer " + "a" * 1_000_000)],
        ],
    )
    async def test_a_smuggled_header_is_refused_before_anyone_looks(
        self, headers: list[tuple[str, str]]
    ) -> None:
        verifier = Verifier(good=access())
        assert await refusal(BearerTokens(verifier), request(*headers)) == "Bearer"
        assert verifier.asked == 0

    def test_a_client_is_not_a_subject_of_the_same_name(self) -> None:
        person = principal_of_token(access(subject="desktop"))
        service = principal_of_token(access(subject=None))
        elsewhere = principal_of_token(access(subject="desktop", claims={"iss": "https://other"}))
        assert len({person.id, service.id, elsewhere.id}) == 3

    def test_a_subject_that_is_only_a_claim_counts(self) -> None:
        principal = principal_of_token(access(subject=None, claims={"iss": ISSUER, "sub": "ana"}))
        assert principal.id == principal_of_token(access(subject="ana")).id

    def test_without_claims_there_is_no_tenant(self) -> None:
        assert principal_of_token(access(claims=None)).tenant is None


class TestOverHTTP:
    async def test_a_false_token_is_401_and_says_which_kind_is_wanted(self, institutions_url: str) -> None:
        async with people(institutions_url) as application:
            for path in (await application.create(), "/resources/unknown", "/resources/"):
                response = await application.http.get(path, headers={"Authorization": "Bearer guess"})
                assert problem_of(response, 401)["code"] == "UNAUTHENTICATED"
                assert response.headers["www-authenticate"] == 'Bearer error="invalid_token"'
                assert "guess" not in response.text

    async def test_a_token_with_too_few_scopes_is_403(self, institutions_url: str) -> None:
        tokens = BearerTokens(Verifier(good=access()), scopes=["more"])
        async with running(institutions_url, authenticate=tokens) as application:
            response = await application.http.get(
                await application.create(), headers={"Authorization": "Bearer good"}
            )
            assert problem_of(response, 403)["code"] == "INSUFFICIENT_SCOPE"
            assert response.headers["www-authenticate"].startswith('Bearer error="insufficient_scope"')

    async def test_two_authorization_headers_are_nobody_s(self, institutions_url: str) -> None:
        async with people(institutions_url) as application:
            path = await application.create(principal=ANA)
            both = [*AS_ANA.items(), ("Authorization", "Bearer token-of-bob")]
            problem_of(await application.http.get(path, headers=both), 401)

    async def test_a_verifier_that_breaks_opens_nothing(self, institutions_url: str) -> None:
        class Broken(Verifier):
            async def verify_token(self, token: str) -> AccessToken | None:
                raise ConnectionError("https://admin:hunter2@login.example.com")

        async with running(institutions_url, authenticate=BearerTokens(Broken())) as application:
            response = await application.http.get(await application.create(), headers=AS_ANA)
            assert problem_of(response, 500) and "hunter2" not in response.text


async def test_fixed_tokens() -> None:
    tokens = static_tokens(TOKENS)
    assert await tokens(bearing("token-of-ana")) == ANA
    assert await tokens(bearing("token-of-bob")) == BOB
    assert await tokens(request()) is None
    for false in ("token-of-an", "token-of-anaa", "TOKEN-OF-ANA"):
        assert await refusal(tokens, bearing(false)) == 'Bearer error="invalid_token"'


class ByCookie(AuthenticationBackend):
    """What a web application has already."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        name = conn.cookies.get("session")
        return (AuthCredentials(), SimpleUser(name)) if name else None


async def test_starlette_s_user_is_asked_for(institutions_url: str) -> None:
    def person(user: SimpleUser) -> Principal:
        return Principal(id=user.username, tenant="acme")

    async with running(institutions_url, authenticate=request_user(person)) as application:
        app = Starlette(
            routes=[Mount("/resources", application.server.router())],
            middleware=[Middleware(AuthenticationMiddleware, backend=ByCookie())],
        )
        path = await application.create(principal=ANA)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            assert (await http.get(path, headers={"Cookie": "session=ana"})).status_code == 200
            assert (await http.get(path, headers={"Cookie": "session=bob"})).status_code == 404
            assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("name", [None, "", "a\x00b", "x" * 1_001, "\u00e9" * 501, 7])
def test_a_principal_has_a_name_that_nobody_else_could_have(name: Any) -> None:
    """An id of None would make resources that belong to everybody."""
    with pytest.raises(ValueError, match="principal"):
        Principal(id=name)
    if name is not None:
        with pytest.raises(ValueError, match="principal"):
            Principal(id="ana", tenant=name)
