"""The client calls only the configured address, and hostile answers cost little."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given, strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from dualsql_client import (
    DualResponseClient,
    FetchError,
    FetchTimeoutError,
    NotConfiguredError,
    ResourceExpiredError,
    ResourceNotFoundError,
    Retry,
    UntrustedOriginError,
)
from tests.client.conftest import Open
from tests.client.hosting import RESOURCE_ID, Host, problem, structured

PAGE = {"data": [{"id": 1}], "has_next": False}


class Recorder:
    """Answers a page and remembers who asked for it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return JSONResponse(PAGE)


async def test_without_a_base_url_parsing_works_and_fetching_says_how_to_set_one(host: Host) -> None:
    recorder = Recorder()
    base_url = host.serve(recorder)
    parsed = DualResponseClient().parse(structured(url=f"{base_url}/{RESOURCE_ID}"))
    assert parsed is not None
    assert parsed.resource_url == f"{base_url}/{RESOURCE_ID}"
    for call in (parsed.fetch, parsed.fetch_all, parsed.get_metadata, parsed.pin, parsed.delete):
        with pytest.raises(NotConfiguredError, match="base_url=") as error:
            await call()
        assert error.value.code == "NOT_CONFIGURED"
    assert recorder.requests == []


async def test_the_url_of_a_tool_result_is_never_fetched(host: Host, library: Any) -> None:
    ours, theirs = Recorder(), Recorder()
    base_url, other_url = host.serve(ours), host.serve(theirs, origin=1)
    async with (
        library.AsyncClient() as http,
        DualResponseClient(base_url, http=http, headers={"authorization": "Bearer secret"}) as client,
    ):
        parsed = client.parse(structured(url=f"{other_url}/{RESOURCE_ID}"), strict=True)
        assert parsed.resource_url == f"{base_url}/{RESOURCE_ID}"
        await parsed.fetch()
    assert theirs.requests == []
    [request] = ours.requests
    assert str(request.url) == f"{base_url}/{RESOURCE_ID}"
    assert request.headers["authorization"] == "Bearer secret"


async def test_the_clients_own_connections_carry_its_headers_and_are_closed(host: Host) -> None:
    recorder = Recorder()
    base_url = host.serve(recorder)
    async with DualResponseClient(base_url + "/", headers={"x-user": "ada"}) as client:
        parsed = client.parse(structured())
        assert parsed is not None
        await parsed.fetch()
    with pytest.raises(RuntimeError, match="closed"):
        await parsed.fetch()
    assert [request.headers["x-user"] for request in recorder.requests] == ["ada"]


async def test_a_given_http_client_stays_open(host: Host, library: Any) -> None:
    async with library.AsyncClient() as http:
        async with DualResponseClient(host.serve(Recorder()), http=http):
            pass
        assert not http.is_closed


@pytest.mark.quick(4)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(host: Host, library: Any, status: int) -> None:
    theirs, target, asked = Recorder(), "", []

    async def redirect(request: Request) -> Response:
        asked.append(request.url.path)
        return RedirectResponse(target, status)

    base_url, other_url = host.serve(redirect), host.serve(theirs, origin=1)
    async with library.AsyncClient(follow_redirects=True, headers={"authorization": "Bearer secret"}) as http:
        parsed = DualResponseClient(base_url, http=http).parse(structured(), strict=True)
        target = f"{other_url}/{RESOURCE_ID}"
        with pytest.raises(UntrustedOriginError, match="another host") as error:
            await parsed.fetch()
        assert (error.value.code, error.value.status) == ("UNTRUSTED_ORIGIN", status)
        target = f"{base_url}/elsewhere"
        with pytest.raises(FetchError, match="redirects") as within:
            await parsed.fetch()
        assert (within.value.code, within.value.status) == ("FETCH_ERROR", status)
    assert theirs.requests == []
    assert len(asked) == 2


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "resources",
        "//api.example.com/resources",
        "ftp://api.example.com/resources",
        "file:///etc/passwd",
        "https:///resources",
        "https://api.example.com:port/resources",
        "https://[::1/resources",
        "https://ada:secret@api.example.com/resources",
        "https://api.example.com/resources?token=secret",
        "https://api.example.com/resources#x",
    ],
)
def test_a_base_url_that_is_no_plain_address_is_refused(base_url: str) -> None:
    with pytest.raises(NotConfiguredError) as error:
        DualResponseClient(base_url)
    assert "secret" not in str(error.value)


CONFIGURED = DualResponseClient("https://api.example.com/resources")
URL_CHARACTERS = st.text(st.sampled_from("ab/.%2fF?#@:;\\&= \n\t\0é"), max_size=12) | st.text(max_size=12)


@given(URL_CHARACTERS, URL_CHARACTERS)
def test_an_id_stays_below_the_base_url(authority: str, path: str) -> None:
    parsed = CONFIGURED.parse(structured(uri=f"resource://{authority}/{path}"))
    if parsed is None:
        return
    assert parsed.resource_url is not None
    address = urlsplit(parsed.resource_url)
    assert (address.scheme, address.netloc, address.query, address.fragment) == (
        "https",
        "api.example.com",
        "",
        "",
    )
    assert re.fullmatch(r"/resources/[A-Za-z0-9_-]+", address.path)
    assert str(httpx.URL(parsed.resource_url)) == parsed.resource_url


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (400, {"code": "BAD_PARAMETER"}, FetchError, "BAD_PARAMETER"),
        (403, {"code": "FORBIDDEN"}, FetchError, "FORBIDDEN"),
        (404, {"code": "RESOURCE_NOT_FOUND"}, ResourceNotFoundError, "RESOURCE_NOT_FOUND"),
        (404, {"code": None}, ResourceNotFoundError, "RESOURCE_NOT_FOUND"),
        (410, {"code": "RESOURCE_EXPIRED"}, ResourceExpiredError, "RESOURCE_EXPIRED"),
        (410, {"code": "<script>"}, ResourceExpiredError, "RESOURCE_EXPIRED"),
        (413, {"code": "BODY_TOO_LARGE"}, FetchError, "BODY_TOO_LARGE"),
        (415, {"code": "UNSUPPORTED_MEDIA_TYPE"}, FetchError, "UNSUPPORTED_MEDIA_TYPE"),
        (422, {"code": "UNKNOWN_COLUMN", "details": {"columns": ["id"]}}, FetchError, "UNKNOWN_COLUMN"),
        (503, {"code": "STORAGE_ERROR"}, FetchError, "STORAGE_ERROR"),
    ],
)
async def test_a_problem_is_carried_over(
    host: Host, open_at: Open, status: int, body: dict[str, Any], kind: type[FetchError], code: str
) -> None:
    async def refuse(request: Request) -> Response:
        return problem(status, **body)

    base_url = host.serve(refuse)
    with pytest.raises(FetchError) as refusal:
        await open_at(base_url).fetch()
    error = refusal.value
    assert type(error) is kind
    assert (error.status, error.code, error.message, error.hint) == (status, code, "No.", "Ask again.")
    assert error.details == body.get("details", {})


@pytest.mark.parametrize(
    "answer",
    [
        Response("<h1>Bad gateway</h1>", 502, media_type="text/html"),
        Response("", 502),
        Response("{", 502, media_type="application/json"),
        Response("[1]", 502, media_type="application/json"),
        Response('{"message": 5, "details": []}', 502, media_type="application/json"),
        Response('{"message": "' + "x" * 2_000_000 + '"}', 502, media_type="application/json"),
    ],
)
async def test_an_error_without_a_problem_is_told_by_its_status(
    host: Host, open_at: Open, answer: Response
) -> None:
    async def refuse(request: Request) -> Response:
        return answer

    base_url = host.serve(refuse)
    with pytest.raises(FetchError, match="status 502") as error:
        await open_at(base_url, maximum_response_bytes=1_000_000).fetch()
    assert (error.value.code, error.value.status) == ("FETCH_ERROR", 502)


async def test_the_spec_s_own_error_body(host: Host, open_at: Open) -> None:
    async def refuse(request: Request) -> Response:
        return JSONResponse({"error": "not_found", "message": "Resource not found or expired"}, 404)

    base_url = host.serve(refuse)
    with pytest.raises(ResourceNotFoundError, match="Resource not found or expired Run the tool again"):
        await open_at(base_url).fetch()


@pytest.mark.parametrize(
    "media_type", ["text/html", "text/plain", "application/jsonp", "application/xml", ""]
)
async def test_only_json_is_read(host: Host, open_at: Open, media_type: str) -> None:
    async def answer(request: Request) -> Response:
        return Response(json.dumps(PAGE), headers={"content-type": media_type})

    base_url = host.serve(answer)
    with pytest.raises(FetchError, match="not JSON"):
        await open_at(base_url).fetch()


@pytest.mark.parametrize(
    "media_type", ["application/json; charset=utf-8", "Application/JSON", "application/hal+json"]
)
async def test_json_by_any_of_its_names(host: Host, open_at: Open, media_type: str) -> None:
    async def answer(request: Request) -> Response:
        return Response(json.dumps(PAGE), headers={"content-type": media_type})

    base_url = host.serve(answer)
    assert (await open_at(base_url).fetch()).data == [{"id": 1}]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe{", b"[" * 100_000, b'{"data": ' + b"1" * 5_000 + b"}"]
)
async def test_json_that_is_none(host: Host, open_at: Open, body: bytes) -> None:
    async def answer(request: Request) -> Response:
        return Response(body, media_type="application/json")

    base_url = host.serve(answer)
    with pytest.raises(FetchError, match="not valid JSON"):
        await open_at(base_url).fetch()


async def test_an_endless_body_is_cut(host: Host, open_at: Open) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 65_536
            # The server shares the event loop with the client, and sending need not give way.
            await asyncio.sleep(0)

    async def answer(request: Request) -> Response:
        return StreamingResponse(endless(), media_type="application/json")

    base_url = host.serve(answer)
    with pytest.raises(FetchError, match="larger than 1,000,000 bytes") as error:
        await open_at(base_url, maximum_response_bytes=1_000_000).fetch()
    assert "maximum_response_bytes" in error.value.hint
    assert sent < 500


@pytest.mark.quick(1)
async def test_a_compressed_bomb_is_cut(host: Host, open_at: Open) -> None:
    bomb = gzip.compress(b" " * 100_000_000, mtime=0)

    async def answer(request: Request) -> Response:
        assert request.headers["accept-encoding"] == "gzip"
        return Response(bomb, media_type="application/json", headers={"content-encoding": "gzip"})

    base_url = host.serve(answer)
    with pytest.raises(FetchError, match="larger than"):
        await open_at(base_url, maximum_response_bytes=1_000_000).fetch()


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "x"])
async def test_a_compression_that_was_not_asked_for_is_refused(
    host: Host, open_at: Open, encoding: str
) -> None:
    async def answer(request: Request) -> Response:
        return Response(b"?", media_type="application/json", headers={"content-encoding": encoding})

    base_url = host.serve(answer)
    with pytest.raises(FetchError, match="compressed"):
        await open_at(base_url).fetch()


async def test_gzip_is_read(host: Host, open_at: Open) -> None:
    async def answer(request: Request) -> Response:
        packed = gzip.compress(json.dumps(PAGE).encode())
        return Response(packed, media_type="application/json", headers={"content-encoding": "gzip"})

    base_url = host.serve(answer)
    assert (await open_at(base_url).fetch()).data == [{"id": 1}]


async def test_an_answer_that_never_comes_times_out(host: Host, open_at: Open) -> None:
    async def never(request: Request) -> Response:
        while not await request.is_disconnected():
            await request.receive()
        return Response()

    base_url = host.serve(never)
    with pytest.raises(FetchTimeoutError, match=r"0\.2 seconds") as error:
        await open_at(base_url, timeout=timedelta(seconds=0.2)).fetch()
    assert (error.value.code, error.value.status) == ("TIMEOUT", None)


async def test_an_answer_that_drips_times_out_as_a_whole(host: Host, open_at: Open) -> None:
    dripping = asyncio.Event()

    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            dripping.clear()
            asyncio.get_running_loop().call_later(0.02, dripping.set)
            await dripping.wait()

    async def answer(request: Request) -> Response:
        return StreamingResponse(drip(), media_type="application/json")

    base_url = host.serve(answer)
    with pytest.raises(FetchTimeoutError):
        await open_at(base_url, timeout=0.3).fetch()


async def test_a_server_that_is_not_there(open_at: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(FetchError, match="ConnectError") as error:
        await open_at(base_url).fetch()
    assert (error.value.code, error.value.status) == ("FETCH_ERROR", None)


@pytest.mark.quick(1)
async def test_a_connection_cut_within_a_body_is_no_page(host: Host, open_at: Open) -> None:
    async def cut(request: Request) -> Response:
        return Response(json.dumps(PAGE), media_type="application/json", headers={"content-length": "1000"})

    base_url = host.serve(cut)
    with pytest.raises(FetchError, match="RemoteProtocolError"):
        await open_at(base_url, retry=Retry(times=0)).fetch()


async def test_an_asgi_application_in_process() -> None:
    app = Starlette(routes=[Route("/resources/{id}", Recorder().__call__, methods=["POST"])])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        parsed = DualResponseClient("http://testserver/resources", http=http).parse(structured(), strict=True)
        assert await parsed.fetch_all() == PAGE["data"]
