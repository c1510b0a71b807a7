"""No malformed answer leaves over HTTP, what is read is bounded, and streams pass untouched."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dualsql.envelope import (
    ValidateResponses,
    create_dual_mode_response,
    create_success_response,
    validate_dual_mode,
    validate_response,
)

GOOD = create_success_response({"a": 1})


async def asked(answer: Response, *, method: str = "GET", **options: Any) -> httpx.Response:
    """What a client gets of an application that answers so."""

    async def endpoint(request: Any) -> Response:
        return answer

    app = ValidateResponses(Starlette(routes=[Route("/", endpoint, methods=["GET", "HEAD"])]), **options)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.request(method, "/")


async def test_an_answer_in_order_passes_byte_for_byte() -> None:
    original = JSONResponse(GOOD, status_code=201, headers={"ETag": '"1"'})
    got = await asked(original)
    assert (got.status_code, got.content, got.headers["etag"]) == (201, original.body, '"1"')


async def test_an_error_in_order_keeps_its_status() -> None:
    body = {**GOOD, "success": False, "error": {"code": "GONE", "message": "Gone."}}
    assert (await asked(JSONResponse(body, status_code=404))).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b'{"success": true, "rows": ["hunter2"]}',
        json.dumps(GOOD).encode().replace(b"{", b'{"success": false, ', 1),
        b"[1, 2",
        b"",
        b"NaN",
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 10_000,
        json.dumps({**GOOD, "data": {"a": float("nan")}}).encode(),
        json.dumps({**GOOD, "data": {"a": "\ud800"}}).encode(),
    ],
    ids=["shape", "twice", "cut", "empty", "nan", "bytes", "deep", "digits", "nan inside", "half a pair"],
)
async def test_a_malformed_answer_is_replaced(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"ETag": '"1"', "Cache-Control": "public, max-age=60", "Access-Control-Allow-Origin": "*"}
    got = await asked(Response(body, media_type="application/json", headers=headers), name="tools")
    answer = got.json()
    assert got.status_code == 500
    assert validate_response(answer) == []
    assert answer["error"]["code"] == "INVALID_RESPONSE_FORMAT"
    assert got.headers["content-length"] == str(len(got.content))
    assert got.headers["cache-control"] == "no-store" and "etag" not in got.headers
    assert got.headers["access-control-allow-origin"] == "*"
    assert "'tools'" in caplog.text
    assert "hunter2" not in got.text + caplog.text


async def test_answers_of_the_other_envelope() -> None:
    answer = create_dual_mode_response({"a": 1}, operation="x")
    assert (await asked(JSONResponse(answer), check=validate_dual_mode)).json() == answer
    assert (await asked(JSONResponse(answer))).status_code == 500


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_what_is_not_json_passes() -> None:
    assert (await asked(HTMLResponse("<p>x</p>"))).text == "<p>x</p>"
    events = StreamingResponse(in_pieces(b"data: 1\n\n", b"data: 2\n\n"), media_type="text/event-stream")
    assert (await asked(events)).text == "data: 1\n\ndata: 2\n\n"
    lines = StreamingResponse(in_pieces(b"{}\n", b"{}\n"), media_type="application/x-ndjson")
    assert (await asked(lines)).text == "{}\n{}\n"


async def test_what_cannot_be_read_passes(tmp_path: Any) -> None:
    zipped = gzip.compress(b'{"x": 1}')
    coded = Response(zipped, media_type="application/json", headers={"content-encoding": "gzip"})
    assert (await asked(coded)).json() == {"x": 1}
    assert (await asked(Response(status_code=304, media_type="application/json"))).status_code == 304
    assert (await asked(JSONResponse({"x": 1}), method="HEAD")).status_code == 200
    (tmp_path / "x.json").write_text('{"x": 1}')
    assert (await asked(FileResponse(tmp_path / "x.json"))).status_code == 500  # announced, so it is read


async def test_an_answer_in_pieces_with_its_length_is_read() -> None:
    body = json.dumps(GOOD).encode()
    for content, status in ((body, 200), (b"x" * len(body), 500)):
        pieces = in_pieces(content[:10], content[10:])
        answer = StreamingResponse(
            pieces, media_type="application/json", headers={"content-length": str(len(content))}
        )
        assert (await asked(answer)).status_code == status


class Wire:
    """What leaves the middleware, message by message, as a server of HTTP sees it."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.sent: list[Any] = []

    async def run(self, *messages: dict[str, Any], scope: dict[str, Any] | None = None) -> list[int]:
        """Let an application send these; after each, how many have left."""
        left: list[int] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            for message in messages:
                await send(message)
                left.append(len(self.sent))

        async def send(message: Any) -> None:
            self.sent.append(message)

        async def receive() -> Any:
            raise AssertionError("the middleware reads no request")

        middleware = ValidateResponses(app, **self.options)
        await middleware(scope or {"type": "http", "method": "GET", "path": "/"}, receive, send)
        return left


def start(*headers: tuple[bytes, bytes], **more: Any) -> dict[str, Any]:
    kind = (b"content-type", b"application/json; charset=utf-8")
    return {"type": "http.response.start", "status": 200, "headers": [kind, *headers], **more}


def body(content: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


async def test_a_stream_of_json_leaves_as_it_comes() -> None:
    wire = Wire()
    messages = [start(), body(b"[1", more=True), body(b",2", more=True), body(b"]")]
    assert await wire.run(*messages) == [0, 2, 3, 4]
    assert wire.sent == messages


async def test_a_long_answer_passes_and_is_not_kept() -> None:
    wire = Wire(limit=10)
    messages = [start((b"content-length", b"11")), body(b"x" * 11)]
    assert await wire.run(*messages) == [0, 2]
    assert wire.sent == messages


async def test_a_length_that_lies_ends_the_waiting() -> None:
    wire = Wire(limit=10)
    await wire.run(
        start((b"content-length", b"5")), body(b"x" * 6, more=True), body(b"x" * 6, more=True), body(b"")
    )
    assert b"".join(message.get("body", b"") for message in wire.sent) == b"x" * 12
    assert [message["type"] for message in wire.sent].count("http.response.start") == 1


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"9" * 5_000, b"", b"\xff"])
async def test_a_length_that_is_none_is_a_stream(length: bytes) -> None:
    wire = Wire()
    assert await wire.run(start((b"content-length", length)), body(b"x", more=True), body(b"x")) == [0, 2, 3]


async def test_files_and_trailers_pass() -> None:
    sent_by_server = {"type": "http.response.pathsend", "path": "/x"}
    assert await Wire().run(start(), sent_by_server) == [0, 2]
    trailers = {"type": "http.response.trailers", "headers": []}
    assert await Wire().run(start(trailers=True), body(b"{}"), trailers) == [1, 2, 3]


async def test_what_is_not_http_passes() -> None:
    assert await Wire().run({"type": "websocket.accept"}, scope={"type": "websocket"}) == [1]
    assert await Wire().run({"type": "lifespan.startup.complete"}, scope={"type": "lifespan"}) == [1]


async def test_an_application_that_breaks_off_leaves_no_half_answer() -> None:
    messages: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-length", b"10")))
        await send(body(b"{", more=True))
        raise OSError("the database went away")

    async def send(message: Any) -> None:
        messages.append(message)

    with pytest.raises(OSError, match="went away"):
        await ValidateResponses(app)({"type": "http", "method": "GET"}, asyncio.Event().wait, send)  # type: ignore[arg-type]
    assert messages == []
