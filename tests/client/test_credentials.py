"""The client sends credentials of every kind, renews refused tokens, and keeps all other headers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from dualsql_client import DualResponseClient, FetchError, NotConfiguredError, ParsedDualResponse
from tests.client.hosting import Contract, Host, problem, structured


class Guarded(Contract):
    """A server that takes one token, which it may take back."""

    token = "first"
    refused = 0

    async def __call__(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            self.refused += 1
            return problem(401, "UNAUTHENTICATED")
        return await super().__call__(request)


class Provider:
    """Gives the server's token of the moment."""

    def __init__(self, server: Guarded) -> None:
        self.server = server
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        await asyncio.sleep(0)
        return self.server.token


@pytest.fixture
def server() -> Guarded:
    return Guarded([{"id": number} for number in range(10)])


@pytest.fixture
async def provider(server: Guarded) -> Provider:
    return Provider(server)


def parsed_at(base_url: str, http: Any, auth: Any, **options: Any) -> ParsedDualResponse:
    return DualResponseClient(base_url, http=http, auth=auth, **options).parse(structured(), strict=True)


async def test_a_token_is_asked_for_once_and_again_when_it_is_refused(
    host: Host, http: Any, server: Guarded, provider: Provider
) -> None:
    parsed = parsed_at(host.serve(server), http, provider)
    await parsed.fetch()
    await parsed.fetch()
    assert (provider.calls, server.refused) == (1, 0)
    server.token = "second"
    assert len(await parsed.fetch_all()) == 10
    await parsed.get_metadata()
    assert (provider.calls, server.refused) == (2, 1)


async def test_requests_refused_together_ask_once(
    host: Host, http: Any, server: Guarded, provider: Provider
) -> None:
    parsed = parsed_at(host.serve(server), http, provider)
    await parsed.fetch()
    server.token = "second"
    await asyncio.gather(*(parsed.fetch() for _ in range(8)))
    assert provider.calls == 2


async def test_a_token_that_stays_refused_is_the_servers_word(host: Host, http: Any, server: Guarded) -> None:
    calls = []

    async def stale() -> str:
        calls.append(1)
        return "stale"

    with pytest.raises(FetchError) as error:
        await parsed_at(host.serve(server), http, stale).fetch()
    assert (error.value.status, error.value.code) == (401, "UNAUTHENTICATED")
    # Two calls: the same token again is not sent again.
    assert (len(calls), server.refused) == (2, 1)


@pytest.mark.parametrize("token", ["", "a b", "a\nb: c", "ü", None, b"bytes", "x" * 20_000])
async def test_what_is_no_token_is_not_sent_and_not_shown(
    host: Host, http: Any, server: Guarded, token: Any
) -> None:
    async def wrong() -> Any:
        return token

    with pytest.raises(NotConfiguredError, match="returned no token") as error:
        await parsed_at(host.serve(server), http, wrong).fetch()
    assert not token or str(token)[:5] not in f"{error.value} {error.value.details}"
    assert server.refused == 0


async def test_what_a_provider_raises_reaches_the_caller(host: Host, http: Any, server: Guarded) -> None:
    async def broken() -> str:
        raise LookupError("no such account")

    with pytest.raises(LookupError, match="no such account"):
        await parsed_at(host.serve(server), http, broken).fetch()


async def test_the_libraries_own_auth(host: Host, library: Any, http: Any) -> None:
    seen = []

    class Mine(library.Auth):  # type: ignore[misc]  # of whichever library
        def auth_flow(self, request: Any) -> Any:
            request.headers["authorization"] = "mine"
            yield request

    async def answer(request: Request) -> Response:
        seen.append(request.headers["authorization"])
        return await Contract([{"id": 1}])(request)

    base_url = host.serve(answer)
    for auth in (Mine(), library.BasicAuth("ana", "secret"), ("ana", "secret")):
        await parsed_at(base_url, http, auth, headers={"x-team": "data"}).fetch()
    assert seen == ["mine", "Basic YW5hOnNlY3JldA==", "Basic YW5hOnNlY3JldA=="]


async def test_without_auth_the_http_clients_own_stays(host: Host, library: Any) -> None:
    seen = []

    async def answer(request: Request) -> Response:
        seen.append(request.headers["authorization"])
        return await Contract([{"id": 1}])(request)

    async with library.AsyncClient(auth=("ana", "secret")) as http:
        await parsed_at(host.serve(answer), http, None).fetch()
    assert seen == ["Basic YW5hOnNlY3JldA=="]


def test_a_token_that_is_no_function_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"write headers=\{'Authorization': 'Bearer ...'\}"):
        DualResponseClient("http://127.0.0.1:1/resources", auth="a token")  # type: ignore[arg-type]
