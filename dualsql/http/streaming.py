"""All rows as one answer, sent while the caller is connected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dualsql.errors import DualResponseError
from dualsql.formats.writer import Format
from dualsql.http.negotiation import (
    CODINGS,
    chosen_coding,
    compressed,
    content_disposition,
    is_known,
    not_modified,
)
from dualsql.http.problems import CallerGoneError, OldProtocolError, while_connected
from dualsql.log import log_failure
from dualsql.resource import Principal, Resource
from dualsql.results.streams import ResultStream
from dualsql.settings import Settings
from dualsql_client.wire import (
    NO_RESUME_HEADER,
    RESUME_HEADER,
    ROWS_TRAILER,
    TOTAL_COUNT_HEADER,
    TOTAL_COUNT_KIND_HEADER,
)

if TYPE_CHECKING:
    from dualsql.server import DualResponseServer

logger = logging.getLogger(__name__)

_BODY = "http.response.body"
_TRAILERS = "http.response.trailers"


class CutOffError(Exception):
    """Raised to the server after the body began: without its end, the connection is all that can be closed."""


async def beginning_of(stream: ResultStream) -> bytes:
    """The bytes up to the first rows, or to the end of a stream without any; the query has run when they are here.

    Raises:
        DualResponseError: whatever the query, or the bounds of the server, refused it with.
    """
    begun = []
    async for chunk in stream.chunks:
        begun.append(chunk.data)
        if chunk.rows:
            break
    return b"".join(begun)


class RowsAnswer(Response):
    """Sends a stream that has begun."""

    def __init__(
        self,
        stream: ResultStream,
        begun: bytes,
        *,
        headers: Mapping[str, str],
        coding: str | None,
        settings: Settings,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(headers)
        self._stream = stream
        self._begun = begun
        self._compressor = None if coding is None else CODINGS[coding]()
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all, or raise.

        Raises:
            CutOffError: the body cannot be brought to its end.
        """
        async with aclosing(self._stream.chunks):
            try:
                await while_connected(receive, self._send_all(scope, send))
            except CallerGoneError:
                return  # nobody is left to be told
            except DualResponseError as error:
                log_failure(logger, error, "a stream that was cut off")
                raise CutOffError(error.code) from None
            except TimeoutError:
                raise CutOffError("Its reader took nothing for too long.") from None

    async def _send_all(self, scope: Scope, send: Send) -> None:
        sends_trailers = _TRAILERS in (scope.get("extensions") or {})
        socket = _TimedSend(send, self._settings)
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await socket.send(start | ({"trailers": True} if sends_trailers else {}))
        await self._send_piece(socket, self._begun)
        async for chunk in self._stream.chunks:
            await self._send_piece(socket, chunk.data)
        end = b"" if self._compressor is None else self._compressor.finish()
        await socket.send({"type": _BODY, "body": end, "more_body": False})
        if sends_trailers:
            await socket.send({"type": _TRAILERS, "headers": self._trailers(), "more_trailers": False})

    async def _send_piece(self, socket: _TimedSend, data: bytes) -> None:
        if data:
            body = await compressed(self._compressor, data)
            await socket.send({"type": _BODY, "body": body, "more_body": True})

    def _trailers(self) -> list[tuple[bytes, bytes]]:
        ending = self._stream.ending
        return [(ROWS_TRAILER.lower().encode(), b"%d" % ending.rows)] if ending.is_complete else []


class _TimedSend:
    """Waits for a full socket, but not for ever; then raises TimeoutError."""

    def __init__(self, send: Send, settings: Settings) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._patience = settings.stream_stall_timeout.total_seconds()
        self._end = self._loop.time() + settings.maximum_stream_duration.total_seconds()

    async def send(self, message: Message) -> None:
        """Hand a message to the server, as soon as it has room."""
        async with asyncio.timeout_at(min(self._loop.time() + self._patience, self._end)):
            await self._send(message)


_VARY = "Accept, Accept-Encoding"


async def answer_stream(
    server: DualResponseServer,
    request: Request,
    stream: ResultStream,
    *,
    resource: Resource,
    principal: Principal | None,
) -> Response:
    """The rows of a stream that has not begun, from the first one on; for HEAD, its headers alone.

    Args:
        resource, principal: whose rows are streamed, and to whom.

    Raises:
        DualResponseError: what the request or the query is refused with, before a byte was sent.
    """
    _require_an_end(stream.format, request)
    coding = chosen_coding(stream.format, request.headers)
    if stream.etag is not None and is_known(request.headers, stream.etag):
        await server.describe_unchecked(resource, principal)
        return not_modified(stream.etag, vary=_VARY)
    headers = _headers(stream, coding)
    if request.method == "HEAD":
        await server.describe_unchecked(resource, principal)
        return _bodiless(headers)
    begun = await while_connected(request.receive, beginning_of(stream))
    return RowsAnswer(stream, begun, headers=headers, coding=coding, settings=server.settings)


def _require_an_end(written: Format, request: Request) -> None:
    """Refuse to send over HTTP/1.0, whose bodies end with the connection, what has no end of its own."""
    if not written.has_end and request.scope.get("http_version") == "1.0":
        raise OldProtocolError(
            f"{written.name} cannot be sent over HTTP/1.0: a broken download would look complete."
        )


def _headers(stream: ResultStream, coding: str | None) -> dict[str, str]:
    written = stream.format
    found = {
        "Content-Type": written.media_type + written.parameters,
        "Content-Disposition": content_disposition(stream.name, written.suffix),
        "Content-Encoding": coding,
        "Vary": _VARY,
        "ETag": stream.etag,
        RESUME_HEADER: stream.resume,
        NO_RESUME_HEADER: stream.no_resume,
        TOTAL_COUNT_HEADER: None if stream.total_count is None else str(stream.total_count),
        TOTAL_COUNT_KIND_HEADER: stream.total_count_kind,
    }
    return {name: value for name, value in found.items() if value is not None}


def _bodiless(headers: dict[str, str]) -> Response:
    response = Response(headers=headers)
    # GET's body has a length that nobody knows before its end.
    del response.headers["content-length"]
    return response
