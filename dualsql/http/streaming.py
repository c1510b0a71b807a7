"""A stream of rows as one answer; the rule: a body whose end was sent is whole, and any other is cut off.

    database -> batches -> this -> socket

Each piece is handed to the server's `send`, which waits while the socket is full; nothing is read meanwhile, so a
slow reader holds the database back. Once the reader is gone the chunks are closed, and that stops the query.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dualsql.errors import DualResponseError
from dualsql.http.compression import CODINGS, compressed
from dualsql.http.connection import while_connected
from dualsql.http.problems import CallerGoneError
from dualsql.incidents import log_failure
from dualsql.reading.streams import ResultStream
from dualsql.settings import Settings
from dualsql_client.wire import ROWS_TRAILER

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
        socket = _Patient(send, self._settings)
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await socket.send(start | ({"trailers": True} if sends_trailers else {}))
        await self._send_piece(socket, self._begun)
        async for chunk in self._stream.chunks:
            await self._send_piece(socket, chunk.data)
        end = b"" if self._compressor is None else self._compressor.finish()
        await socket.send({"type": _BODY, "body": end, "more_body": False})
        if sends_trailers:
            await socket.send({"type": _TRAILERS, "headers": self._trailers(), "more_trailers": False})

    async def _send_piece(self, socket: _Patient, data: bytes) -> None:
        if data:
            body = await compressed(self._compressor, data)
            await socket.send({"type": _BODY, "body": body, "more_body": True})

    def _trailers(self) -> list[tuple[bytes, bytes]]:
        ending = self._stream.ending
        return [(ROWS_TRAILER.lower().encode(), b"%d" % ending.rows)] if ending.is_complete else []


class _Patient:
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
