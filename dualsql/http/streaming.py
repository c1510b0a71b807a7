"""Sends all rows of a result as one streamed answer: content coding, file name, sending while the caller reads."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import unicodedata
import zlib
from contextlib import ExitStack, aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dualsql.errors import DualResponseError
from dualsql.events import EVENTS, Measurement, StreamEnded, step
from dualsql.formats.text import visible_text
from dualsql.http.conditional import is_current, not_modified
from dualsql.http.parameters import preferred_coding
from dualsql.http.problems import CallerGoneError, OldProtocolError, note_code, while_connected
from dualsql.log import REQUEST, log_failure
from dualsql.resource import Principal, Resource
from dualsql.results.streams import ResultStream
from dualsql.settings import Settings
from dualsql_client import wire

if TYPE_CHECKING:
    from dualsql.server import ResultServer

logger = logging.getLogger(__name__)

_BODY = "http.response.body"
_TRAILERS = "http.response.trailers"


class CutOffError(Exception):
    """Raised when a body that has begun cannot be completed: the server then closes the connection."""


async def _first_rows(stream: ResultStream) -> bytes:
    """Read the stream up to the bytes of its first rows, or to its end if it has none. By then the query has run."""
    pieces = []
    async for chunk in stream.chunks:
        pieces.append(chunk.data)
        if chunk.rows and chunk.data:  # a writer may keep rows that follow
            break
    return b"".join(pieces)


class RowsAnswer(Response):
    """The response of a stream whose first bytes have been read."""

    def __init__(
        self,
        stream: ResultStream,
        first: bytes,
        coding: str | None,
        settings: Settings,
        measurement: Measurement | None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(_headers(stream, coding))  # the notes are known once the stream has begun
        self._stream = stream
        self._first = first
        self._compressor = None if coding is None else Compressor(coding)
        self._settings = settings
        self._measurement = measurement

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the whole stream.

        Raises:
            CutOffError: the body cannot be completed.
        """
        async with aclosing(self._stream.chunks):
            try:
                await while_connected(receive, self._send_all(scope, send))
            except CallerGoneError as error:
                note_code(error.code, error.cause)  # the caller has left
            except DualResponseError as error:
                note_code(error.code, error.cause)
                log_failure(logger, error, "a stream that was cut off")
                raise CutOffError(error.code) from None
            except TimeoutError:
                note_code("READER_TOO_SLOW", "caller")
                raise CutOffError("The reader took no bytes for too long.") from None
            finally:
                self._report_end()

    def _report_end(self) -> None:
        """Report to the log and the metrics how far the stream got."""
        record, ending = REQUEST.get(), self._stream.ending
        if record is None:
            return
        record.rows = ending.rows
        if ending.error is not None and record.code is None:  # the last record says it
            note_code(ending.error.code, ending.error.cause)
        if EVENTS.listener is None:
            return
        name, lane = self._stream.format.name, record.lane or "none"
        if self._measurement is not None:
            if record.code is not None:
                self._measurement.fail(record.code)
            attributes = {"dualsql.format": name, "dualsql.lane": lane}
            self._measurement.note({**attributes, "dualsql.rows": ending.rows, "dualsql.bytes": ending.bytes})
            self._measurement.end()
        EVENTS.report(StreamEnded(name, lane, ending.rows, ending.bytes, record.code))

    async def _send_all(self, scope: Scope, send: Send) -> None:
        sends_trailers = _TRAILERS in (scope.get("extensions") or {})
        time = asyncio.get_running_loop().time
        stall_timeout = self._settings.stream_stall_timeout.total_seconds()
        end = time() + self._settings.maximum_stream_duration.total_seconds()

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout_at(min(time() + stall_timeout, end)):
                await send(message)

        async def send_piece(data: bytes) -> None:
            if data:
                body = data if self._compressor is None else await self._compressor.compress(data)
                await send_in_time({"type": _BODY, "body": body, "more_body": True})

        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send_in_time(start | ({"trailers": True} if sends_trailers else {}))
        await send_piece(self._first)
        async for chunk in self._stream.chunks:
            await send_piece(chunk.data)
        last = b"" if self._compressor is None else self._compressor.finish()
        await send_in_time({"type": _BODY, "body": last, "more_body": False})
        if sends_trailers:
            ending = self._stream.ending
            rows = [(wire.ROWS_TRAILER.lower().encode(), b"%d" % ending.rows)] if ending.is_complete else []
            await send_in_time({"type": _TRAILERS, "headers": rows, "more_trailers": False})


_IN_PLACE = 8 * 1024
"""Up to so many bytes, compressing takes less time than handing them to a thread."""


try:
    _ZSTD: Any = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
except ImportError:
    _ZSTD = None

CODINGS = ("zstd", "gzip") if _ZSTD else ("gzip",)
"""The content codings that this process supports, the best first."""


class Compressor:
    """Compresses one stream, so that its reader can decompress each piece when it arrives."""

    def __init__(self, coding: str) -> None:
        self._stream: Any
        if coding == "zstd":
            self._stream = _ZSTD.ZstdCompressor()
            self._piece_end = self._stream.FLUSH_BLOCK
        else:
            # NDJSON of 200,000 rows: level 1 makes it 5.4 times smaller at 300 MB/s, level 6 6.7 times at 160 MB/s.
            # 16 more: with the header and trailer of gzip (zlib.h, deflateInit2). Otherwise it would be "deflate".
            self._stream = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
            self._piece_end = zlib.Z_SYNC_FLUSH

    async def compress(self, data: bytes) -> bytes:
        """Compress a piece; a long one in a thread, so that it does not block the event loop."""
        if len(data) <= _IN_PLACE:
            return self._compress(data)
        return await asyncio.to_thread(self._compress, data)

    def _compress(self, data: bytes) -> bytes:
        compressed: bytes = self._stream.compress(data) + self._stream.flush(self._piece_end)
        return compressed

    def finish(self) -> bytes:
        """The last bytes of the compressed stream."""
        end: bytes = self._stream.flush()
        return end


_LONGEST = 80
# % too: some browsers decode %xx in filename= (RFC 6266, appendix D).
_UNSAFE = re.compile(r'[\\/:*?"<>|%;\s]+')
# Devices on Windows, whatever their extension.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)


def content_disposition(name: str, extension: str) -> str:
    """The header that saves the answer as `name` with `extension`: always ASCII, without line breaks."""
    stem = file_stem(name)
    plain = file_stem(unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode())
    # Both, because old clients do not know filename* (RFC 6266, section 4.3).
    exact = quote(f"{stem}.{extension}", safe="")
    return f"attachment; filename=\"{plain}.{extension}\"; filename*=UTF-8''{exact}"


def file_stem(name: str) -> str:
    """A file name without extension that is valid on every system: no path, device name or invisible character."""
    # A slice first: the name may be very long.
    head = unicodedata.normalize("NFC", name[: _LONGEST * 4])
    visible = head if head.isascii() and head.isprintable() else visible_text(head)
    stem = _UNSAFE.sub(" ", visible).strip(" .'-")[:_LONGEST].rstrip(" .'-")
    return "rows" if not stem or _RESERVED.fullmatch(stem) else stem


_VARY = "Accept, Accept-Encoding"


async def answer_stream(
    server: ResultServer,
    request: Request,
    stream: ResultStream,
    *,
    resource: Resource,
    principal: Principal | None,
) -> Response:
    """The response for a stream that has not begun; for HEAD, only its headers.

    Args:
        resource, principal: the result, and the caller that reads it.

    Raises:
        NotAcceptableError: no content coding is acceptable.
        DualResponseError: the request or the query failed before the first byte was sent.
    """
    _require_an_end(stream, request)
    offered = () if stream.format.is_compressed else CODINGS
    coding = preferred_coding(request.headers.getlist("accept-encoding"), offered)
    if stream.etag is not None and is_current(request.headers, stream.etag):
        await server.unchecked.describe(resource, principal)
        return not_modified(stream.etag, vary=_VARY)
    if request.method == "HEAD":
        await server.unchecked.describe(resource, principal)
        response = Response(headers=_headers(stream, coding))
        del response.headers["content-length"]  # the length of GET's body is known at its end
        return response
    # Errors before the first row are answers with a status of their own; later ones are in the body.
    with ExitStack() as measuring:
        measurement = None if EVENTS.listener is None else measuring.enter_context(step("stream"))
        first = await while_connected(request.receive, _first_rows(stream))
        measuring.pop_all()  # the answer ends it
        return RowsAnswer(stream, first, coding, server.settings, measurement)


def _require_an_end(stream: ResultStream, request: Request) -> None:
    """Refuse a stream without an end mark over HTTP/1.0, where a body ends with the connection."""
    if not stream.marks_end and request.scope.get("http_version") == "1.0":
        lacking = " without its summary" if stream.format.has_end else ""
        raise OldProtocolError(
            f"{stream.format.name}{lacking} cannot be sent over HTTP/1.0: a broken download would look complete."
        )


def _headers(stream: ResultStream, coding: str | None) -> dict[str, str]:
    headers = {
        "Content-Type": stream.format.media_type + stream.format.parameters,
        "Content-Disposition": content_disposition(stream.name, stream.format.suffix),
        "Content-Encoding": coding,
        "Vary": _VARY,
        "X-Accel-Buffering": "no",  # nginx would write to disk what a slow reader has not taken
        "ETag": stream.etag,
        wire.RESUME_HEADER: stream.resume,
        wire.NO_RESUME_HEADER: stream.no_resume,
        wire.TOTAL_COUNT_HEADER: None if stream.total_count is None else str(stream.total_count),
        wire.TOTAL_COUNT_KIND_HEADER: stream.total_count_kind,
        wire.NOTES_HEADER: json.dumps(stream.ending.notes) if stream.ending.notes else None,
    }
    return {name: value for name, value in headers.items() if value is not None}
