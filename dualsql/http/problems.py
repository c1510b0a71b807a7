"""Errors as HTTP answers, all with the same JSON body."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.errors import Cause, DualResponseError, ForbiddenError, LimitExceededError, ResourcePendingError
from dualsql.events import EVENTS, ErrorAnswered
from dualsql.formats import json
from dualsql.formats.table import DEFAULT_FORMAT
from dualsql.log import REQUEST, log_failure, log_unforeseen, new_incident, resource_hash
from dualsql_client.wire import Problem

PRIVATE_HEADERS = {
    # The URL gives access to the rows: no cache may keep them, and no other site may learn the URL.
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PRIVATE = [(name.lower().encode(), value.encode()) for name, value in PRIVATE_HEADERS.items()]


class JSONAnswer(Response):
    """A JSON response that writes numbers, dates and bytes without loss; bytes are JSON already."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else json.dumps(content)


def make_private(_: Scope, start: Message) -> None:
    """Put `PRIVATE_HEADERS` on an answer. A header that it has already stays as it is."""
    headers = start.get("headers", ())
    names = dict(headers)
    start["headers"] = [*headers, *[each for each in _PRIVATE if each[0] not in names]]


logger = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE")
RETRY_SECONDS = 2

Endpoint = Callable[[Request], Awaitable[Response]]
"""Answers a request of one route."""


class CallerGoneError(DualResponseError):
    """The connection closed before the request was answered."""

    code = "CALLER_GONE"
    cause = "caller"
    default_hint = "Send the request again."


class MethodNotAllowedError(DualResponseError):
    """The path does not have this method."""

    code = "METHOD_NOT_ALLOWED"
    cause = "caller"

    def __init__(self, message: str, *, methods: Sequence[str] = METHODS) -> None:
        self.allow = ", ".join(methods)
        super().__init__(message, hint=f"Allowed here: {self.allow}.")


class NotAcceptableError(DualResponseError):
    """The server has no format or coding that the caller accepts."""

    code = "NOT_ACCEPTABLE"
    cause = "caller"


class OldProtocolError(DualResponseError):
    """Over this protocol, the end of the body could not be told from a broken connection."""

    code = "OLD_PROTOCOL"
    cause = "caller"
    default_hint = (
        f"Use HTTP/1.1 (nginx: proxy_http_version 1.1) or format={DEFAULT_FORMAT} with its summary."
    )


class SlowBodyError(DualResponseError):
    """The body took longer than `Settings.body_timeout`."""

    code = "SLOW_BODY"
    cause = "caller"
    default_hint = "Send it faster, or ask for less in one request."


class UnsupportedBodyError(DualResponseError):
    """The body is not uncompressed application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    cause = "caller"
    default_hint = "Send JSON in UTF-8, not compressed, with Content-Type: application/json."


class ForeignRequestError(ForbiddenError):
    """The Host or Origin header is not allowed."""

    code = "FOREIGN_REQUEST"


class BodyTooLargeError(LimitExceededError):
    """The body has more bytes than `Settings.maximum_body_size`."""

    code = "BODY_TOO_LARGE"
    default_hint = "Send less in one request, or ask the operator for a higher maximum_body_size."

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body is larger than {limit} bytes.", details={"maximum_body_size": limit})


class ProblemKind(NamedTuple):
    """How errors with one code are answered. `word` is the `error` of the body."""

    status: int
    word: str


_CODES: Mapping[tuple[int, str], str] = {
    (400, "bad_request"): "BAD_PARAMETER BAD_CURSOR CALLER_GONE INVALID_SQL",
    (401, "unauthorized"): "UNAUTHENTICATED",
    (403, "forbidden"): "FORBIDDEN INSUFFICIENT_SCOPE FORBIDDEN_SQL FOREIGN_REQUEST",
    (404, "not_found"): "RESOURCE_NOT_FOUND",
    (405, "method_not_allowed"): "METHOD_NOT_ALLOWED",
    (406, "not_acceptable"): "NOT_ACCEPTABLE",
    (408, "timeout"): "SLOW_BODY",
    (409, "pending"): "RESOURCE_PENDING",
    (409, "failed"): "RESOURCE_FAILED",
    (409, "conflict"): "RESULT_CHANGED",
    (410, "expired"): "RESOURCE_EXPIRED",
    (413, "too_large"): "LIMIT_EXCEEDED BODY_TOO_LARGE",
    (415, "unsupported_media_type"): "UNSUPPORTED_MEDIA_TYPE",
    (422, "unprocessable"): "UNKNOWN_COLUMN UNKNOWN_TABLE VALUE_NOT_REPRESENTABLE NO_TOTAL_ORDER",
    (426, "upgrade_required"): "OLD_PROTOCOL",
    (429, "rate_limited"): "RATE_LIMITED",
    (500, "internal_error"): "DUAL_RESPONSE_ERROR BAD_CONFIGURATION TAMPERED_RESOURCE NOT_FREEZABLE",
    (501, "not_implemented"): "MISSING_EXTRA",
    (502, "query_failed"): "QUERY_EXECUTION_FAILED COUNT_EXECUTION_FAILED",
    (503, "unavailable"): (
        "DATABASE_BUSY DATABASE_UNREACHABLE TOO_MANY_QUERIES SERVER_UNAVAILABLE STORAGE_ERROR "
        "QUERY_INTERRUPTED QUERY_CANCELLED"
    ),
    (504, "timeout"): "QUERY_TIMEOUT",
}
KINDS = {code: ProblemKind(*kind) for kind, codes in _CODES.items() for code in codes.split()}

RETRY_SOON = {"Retry-After": str(RETRY_SECONDS)}

_ATTRIBUTES = {"Retry-After": "retry_after", "Allow": "allow", "WWW-Authenticate": "challenge"}
_HEADERS: Mapping[int, Mapping[str, str]] = {
    # Not for 413: if the connection closes while the caller still sends, TCP can drop the answer.
    408: {"Connection": "close"},
    426: {"Upgrade": "HTTP/1.1", "Connection": "upgrade"},
    503: RETRY_SOON,
}


class Problems:
    """Answers with a problem where the application inside raises before its answer has begun.

    Each of `starts` is called with the start of each answer, to which it may add headers.
    """

    def __init__(self, app: ASGIApp, starts: Sequence[Callable[[Scope, Message], None]] = ()) -> None:
        self.app = app
        self.starts = starts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Handlers of an application in which this one is mounted would answer in another form.
        scope.pop("starlette.exception_handlers", None)
        is_started = False

        def send_on(message: Message) -> Awaitable[None]:
            nonlocal is_started
            is_started = True
            if message["type"] == "http.response.start":
                for each in self.starts:
                    each(scope, message)
            return send(message)

        try:
            await self.app(scope, receive, send_on)
        except Exception as error:
            if is_started or scope["type"] != "http":
                raise
            await problem_response(error, request_name(Request(scope)))(scope, receive, send_on)


_NONE, _FULL = Match.NONE, Match.FULL  # Python 3.11 takes 20 times as long to look one up in its class


class _MethodRoute(Route):
    """A route with an endpoint for each method, and one for the others; `Problems` answers their errors."""

    by_method: Mapping[str, Endpoint]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        match, outer = self.path_regex.match(path), scope.get("path_params", {})
        if match is None or scope["type"] != "http":
            return _NONE, {}
        return _FULL, {"endpoint": self.endpoint, "path_params": outer | match.groupdict()}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint: Endpoint = self.by_method.get(scope["method"], self.endpoint)
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


def method_route(path: str, endpoints: Mapping[str, Endpoint], methods: Sequence[str]) -> Route:
    """A route with an endpoint for each method; GET answers HEAD, too. Other methods get 405.

    Args:
        methods: listed in the answer 405, and in that to OPTIONS, which every path has and which looks up no id.
    """
    methods = methods if "OPTIONS" in methods else (*methods, "OPTIONS")

    async def answer_others(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": ", ".join(methods)})
        raise MethodNotAllowedError("The method is not allowed for this path.", methods=methods)

    route = _MethodRoute(path, answer_others, methods=methods)
    route.by_method = dict(endpoints, HEAD=endpoints["GET"]) if "GET" in endpoints else endpoints
    return route


def problem_response(error: Exception, where: str = "a request") -> Response:
    """The error as an answer with its status.

    A 5xx has `details.incident`; the log has the error, its cause and the request under the same number. An
    HTTPException, which an `authenticate` callable may raise, keeps its status and headers.
    """
    if isinstance(error, HTTPException):
        status = error.status_code
        code = next((each.name for each in HTTPStatus if each == status), "REFUSED")
        note_code(code, "caller" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server")
        problem = Problem(error=code.lower(), message=error.detail, code=code, hint="", details={})
        return JSONAnswer(problem, status, error.headers)
    incident = ""
    if not isinstance(error, DualResponseError):
        incident = new_incident()
        log_unforeseen(logger, error, "incident %s: an unforeseen error in %s", incident, where)
        error = DualResponseError(
            "The server failed with an internal error.", hint="Report the incident number to the operator."
        )
    elif kind_of(error).status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        incident = new_incident()
        log_failure(logger, error, where, incident=incident)
    return problem_answer(error, incident)


def problem_answer(error: DualResponseError, incident: str = "") -> Response:
    """The error as an answer, without a line in the log."""
    kind = kind_of(error)
    note_code(error.code, error.cause)
    message, hint = error.for_caller
    details = error.details | ({"incident": incident} if incident else {})
    problem = Problem(error=kind.word, message=message, code=error.code, hint=hint, details=details)
    headers = dict(RETRY_SOON if isinstance(error, ResourcePendingError) else _HEADERS.get(kind.status, {}))
    for name, attribute in _ATTRIBUTES.items():
        value = getattr(error, attribute, None)
        if value is not None:
            headers[name] = str(value)
    return JSONAnswer(problem, kind.status, headers)


def note_code(code: str, cause: Cause) -> None:
    """Note with which error the current request is answered, for the log and the metrics."""
    EVENTS.report(ErrorAnswered(code, "http", cause))
    if (record := REQUEST.get()) is not None:
        record.code = code


def kind_of(error: DualResponseError) -> ProblemKind:
    """How to answer `error`: by its own code, or else by that of its nearest ancestor in the table."""
    codes = (getattr(ancestor, "code", "") for ancestor in type(error).__mro__)
    return next(KINDS[code] for code in codes if code in KINDS)


def request_name(request: Request) -> str:
    """The request as the log names it: without the id, which gives access, and without the query string."""
    path, hashes = request.url.path, ""
    for name, value in request.path_params.items():
        path = path.replace(str(value), f"{{{name}}}")
        hashes += f", resource {resource_hash(str(value))}" if name == "resource_id" else ""
    return f"{request.method} {path}{hashes}"


T = TypeVar("T")


class Interruption(AbstractContextManager[Any, None]):
    """Cancels the task of its block after some seconds, or calls `then`. If it has cancelled, it raises `error`."""

    # `asyncio.timeout` costs three times as much, and most blocks end before anything is awaited.
    def __init__(
        self, error: type[Exception], message: str, seconds: float, then: Callable[[], None] | None = None
    ) -> None:
        self._error, self._message, self._is_requested = error, message, False
        self._task: Any = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(seconds, then or self)

    def __call__(self) -> None:
        if not self._task.cancelling():  # otherwise the block is unwinding
            self._is_requested = self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        if self._is_requested and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise self._error(self._message) from None


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T], *, after: float = 0) -> T:
    """Await `work`, and cancel it when the caller disconnects; the connection is watched `after` so many seconds.

    The body must have been read, or may be discarded.

    Raises:
        CallerGoneError: the caller disconnected first.
    """
    watches: list[asyncio.Task[None]] = []

    async def stop_when_disconnected() -> None:
        with suppress(Exception):  # a failing connection counts as closed
            while (await receive())["type"] != "http.disconnect":
                pass
        stop()

    def watch() -> None:
        watches.append(asyncio.create_task(stop_when_disconnected()))

    gone = "The connection closed before the rows were read."
    try:
        with Interruption(CallerGoneError, gone, after, watch) as stop:
            return await work
    finally:
        for each in watches:
            each.cancel()
