"""Who calls a tool owns its result; over real HTTP, with the SDKs' own bearer tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from fastmcp.server.auth import AccessToken as FastToken, TokenVerifier as FastVerifier
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp_types import CallToolResult
from sqlalchemy import select

from dualsql import DualResponseServer, Principal
from dualsql.identity import BearerTokens
from tests.client.hosting import listening_socket, origin_of, serving
from tests.mcp.conftest import AnyServer, Connection, Host, MakeDual, application_of, text_of
from tests.schools import School

ISSUER = "https://login.example.com"
KNOWN = {"token-of-ana": ("ana", "acme"), "token-of-bob": ("bob", "globex"), "token-of-nobody": ("\x00", "x")}


def fields_of(token: str) -> dict[str, Any] | None:
    """What a verifier says of a token. Everybody comes through the same client."""
    if token not in KNOWN:
        return None
    subject, tenant = KNOWN[token]
    claims = {"iss": ISSUER, "tenant": tenant}
    return {"token": token, "client_id": "an-agent", "scopes": [], "subject": subject, "claims": claims}


class Verifier(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None:
        fields = fields_of(token)
        return None if fields is None else AccessToken(**fields)


class FastMCPVerifier(FastVerifier):
    async def verify_token(self, token: str) -> FastToken | None:
        fields = fields_of(token)
        return None if fields is None else FastToken(**fields)


def guarded(host: Host, origin: str) -> Any:
    """An MCP server that lets in whoever has one of the tokens."""
    if host.is_fast:
        return host.server(auth=FastMCPVerifier(base_url=origin))
    settings = AuthSettings.model_validate(
        {"issuer_url": ISSUER, "resource_server_url": f"{origin}/mcp", "validate_token_resource": False}
    )
    return host.server(token_verifier=Verifier(), auth=settings)


@asynccontextmanager
async def running(dual: DualResponseServer, server: Any, listening: Any) -> AsyncIterator[str]:
    """The tool and its rows in one application."""
    async with serving(application_of(dual, server), listening):
        yield origin_of(listening)


@asynccontextmanager
async def calling(host: Host, origin: str, token: str) -> AsyncIterator[Connection]:
    """A client that shows `token`."""
    if host.is_fast:
        async with host.connected(f"{origin}/mcp", auth=token) as connection:
            yield connection
        return
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{origin}/mcp", http_client=http)
        async with host.connected(transport) as connection:
            yield connection


def search(dual: DualResponseServer, server: AnyServer, **options: Any) -> None:
    dual.tool(server, name="search", **options)(lambda: select(School.id))


async def readers_of(result: CallToolResult, origin: str, tokens: Iterable[str]) -> dict[str, int]:
    """What each of them is answered who asks for the rows."""
    assert result.structured_content is not None
    url = result.structured_content["resource"]["url"]
    async with httpx.AsyncClient() as http:
        return {
            token: (await http.get(url, headers={"Authorization": f"Bearer {token}"})).status_code
            for token in tokens
        }


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["token-of-ana", "token-of-bob"])
async def test_a_result_belongs_to_who_asked_for_it(make_dual: MakeDual, host: Host, name: str) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = guarded(host, origin)
        search(dual, server)
        async with running(dual, server, listening), calling(host, origin, name) as connection:
            result = await connection.call("search")
            assert not result.is_error
            readers = await readers_of(result, origin, ["token-of-ana", "token-of-bob"])
    assert readers == {token: 200 if token == name else 404 for token in readers}


async def test_one_s_own_function_says_who_a_token_stands_for(make_dual: MakeDual, host: Host) -> None:
    def team(token: AccessToken) -> Principal:
        return Principal(id="team", tenant=(token.claims or {})["tenant"])

    with listening_socket() as listening:
        origin = origin_of(listening)
        tokens = BearerTokens(Verifier(), principal=team)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=tokens)
        server = guarded(host, origin)
        search(dual, server, principal=team)
        async with running(dual, server, listening), calling(host, origin, "token-of-ana") as connection:
            result = await connection.call("search")
            resource_id = result.structured_content["resource"]["uri"].partition("://")[2]
            resource = await dual.unchecked.get(resource_id)
    assert resource is not None
    assert (resource.owner, resource.tenant) == ("team", "acme")


async def test_a_token_that_stands_for_nobody_gets_nothing(make_dual: MakeDual, host: Host) -> None:
    """It must not fall back to a result that belongs to everybody."""
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = guarded(host, origin)
        search(dual, server)
        async with running(dual, server, listening), calling(host, origin, "token-of-nobody") as connection:
            result = await connection.call("search")
    assert result.is_error
    assert "The tool failed." in text_of(result)


async def test_without_a_token_a_result_has_no_owner(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    search(dual, server)
    async with host.connected(server) as connection:
        result = await connection.call("search")
    assert result.structured_content is not None
    resource = await dual.unchecked.get(result.structured_content["resource"]["uri"].partition("://")[2])
    assert resource is not None
    assert resource.owner is None


async def test_a_call_over_http_without_a_token_is_warned_of_once(
    make_dual: MakeDual, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """`authenticate` reads requests to the REST service alone."""
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = host.server()
        search(dual, server)
        async with running(dual, server, listening), calling(host, origin, "token-of-ana") as connection:
            for _ in range(2):
                await connection.call("search")
    [warning] = [record.getMessage() for record in caplog.records if "verified token" in record.getMessage()]
    assert "token_verifier" in warning
    assert "serve_app" in warning


async def test_a_call_in_memory_without_a_token_is_not_warned_of(
    make_dual: MakeDual, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    server = host.server()
    search(make_dual(authenticate=BearerTokens(Verifier())), server)
    async with host.connected(server) as connection:
        await connection.call("search")
    assert "verified token" not in caplog.text
