"""ASGI middleware that replaces or reports malformed answers. It reads a bounded size and does not touch streams.

It checks an answer that is JSON, not compressed, and complete within the limit: by its Content-Length, or because its
first piece is its last. Other answers pass unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from dualsql.envelope.shaping import error_response, malformed_answer
from dualsql.envelope.validation import validate_response
from dualsql.envelope.wrapping import Check, FaultReport, report_faults, require_plain_function

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

LIMIT = 256 * 1024
"""Bytes. Reading so many takes up to 0.13 s of the event loop (two shared cores, an answer of 8,000 items)."""
# RFC 9110, 15.3.5, 15.3.6 and 15.4.5: these statuses have no content.
_BODILESS = frozenset({204, 205, 304})
# Metadata, validators (RFC 9110, 8) and digests (RFC 9530, RFC 1864) of the answer that is replaced.
_OF_THE_BODY = frozenset(
    b"content-type content-length etag last-modified cache-control content-disposition digest content-digest "
    b"content-md5 expires".split()
)


class ValidateResponses:
    """ASGI middleware: a malformed answer becomes status 500, INVALID_RESPONSE_FORMAT, and a line in the log.

    Put it around applications that answer with envelopes, not around pages and streams of rows.

    Args:
        check: returns the faults of an answer; `validate_dual_mode` for answers of specification S8.
        limit: bytes of the longest answer that is read; a longer one passes unread.
        name: of this part of the application, in the log.
        report: gets the name and the faults of each malformed answer, which then leaves as it is; such as
            `log_faults`.

    Raises:
        ConfigurationError: `report` is a coroutine function.
    """

    def __init__(
        self,
        app: App,
        *,
        check: Check = validate_response,
        limit: int = LIMIT,
        name: str = "http",
        report: FaultReport | None = None,
    ) -> None:
        require_plain_function(report)
        self.app = app
        self.check = check
        self.limit = limit
        self.name = name
        self.report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "HEAD":
            await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, _AnswerInProgress(self, send).send)

    def faults(self, body: Any) -> list[str]:
        """The faults of a body. A repeated key in one object is a fault, because readers take different ones."""
        try:
            answer = json.loads(body, object_pairs_hook=_object, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return ["The response is not JSON."]
        return self.check(answer)


class _AnswerInProgress:
    """One answer: its start is held back until its body is known."""

    def __init__(self, middleware: ValidateResponses, send: Send) -> None:
        self.middleware = middleware
        self.pass_on = send
        self.start: Message | None = None
        self.body = bytearray()

    async def send(self, message: Message) -> None:
        """The `send` of the application."""
        if message["type"] == "http.response.start" and _is_readable(message):
            self.start = message
        elif self.start is None:
            await self.pass_on(message)
        elif message["type"] == "http.response.body" and self._can_hold(message):
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish()
        else:  # a stream after all, or a file that the server sends by itself
            await self._release()
            await self.pass_on(message)

    def _can_hold(self, message: Message) -> bool:
        assert self.start is not None
        size = len(self.body) + len(message.get("body", b""))
        if size > self.middleware.limit:
            return False
        return not message.get("more_body", False) or _is_short(self.start, self.middleware.limit)

    async def _release(self) -> None:
        start, self.start = self.start, None
        assert start is not None
        await self.pass_on(start)
        if self.body:
            await self.pass_on({"type": "http.response.body", "body": bytes(self.body), "more_body": True})
            self.body.clear()

    async def _finish(self) -> None:
        start, self.start = self.start, None
        assert start is not None
        body = bytes(self.body)
        middleware = self.middleware
        if middleware.report is not None:
            report_faults(middleware.name, body, check=middleware.faults, report=middleware.report)
        elif faults := middleware.faults(body):
            body = json.dumps(error_response(malformed_answer(faults, middleware.name))).encode()
            start = {**start, "status": 500, "headers": _headers_of(start.get("headers", ()), len(body))}
        await self.pass_on(start)
        await self.pass_on({"type": "http.response.body", "body": body})


def _is_readable(start: Message) -> bool:
    headers = {bytes(name).lower(): bytes(value).strip().lower() for name, value in start.get("headers", ())}
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip()
    is_json = media_type == b"application/json" or media_type.endswith(b"+json")
    is_plain = headers.get(b"content-encoding", b"identity") == b"identity"
    return is_json and is_plain and start["status"] not in _BODILESS and not start.get("trailers", False)


def _is_short(start: Message, limit: int) -> bool:
    """Whether the answer has a Content-Length that is within the limit."""
    lengths = [bytes(value) for name, value in start.get("headers", ()) if name.lower() == b"content-length"]
    return len(lengths) == 1 and lengths[0].isdigit() and int(lengths[0][:20]) <= limit


def _headers_of(headers: Iterable[tuple[bytes, bytes]], length: int) -> Headers:
    """The headers of another body: those about the connection and its caller (CORS, cookies) stay."""
    remaining = [(name, value) for name, value in headers if name.lower() not in _OF_THE_BODY]
    return [
        *remaining,
        (b"content-type", b"application/json"),
        (b"content-length", str(length).encode()),
        (b"cache-control", b"no-store"),
    ]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key stands twice")
    return fields


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
