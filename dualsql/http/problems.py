"""Errors as HTTP answers, all with the same JSON body."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from inspect import isfunction
from typing import Any, NamedTuple, Self, TypeVar
from weakref import WeakSet

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.errors import (
    Cause,
    DualResponseError,
    ForbiddenError,
    LimitExceededError,
    RateLimitedError,
    ResourcePendingError,
    ServerUnavailableError,
    TooManyQueriesError,
)
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
"""As ASGI has them."""


class JSONAnswer(Response):
    """A JSON response that writes numbers, dates and bytes without loss."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content)


class PrivateHeaders:
    """Put `PRIVATE_HEADERS` on whatever the application inside answers, refusals included.

    A header that an answer has already stays as it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_privately(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                names = {name for name, _ in headers}
                message["headers"] = [*headers, *(each for each in _PRIVATE if each[0] not in names)]
            await send(message)

        await self.app(scope, receive, send_privately)


logger = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE")
RETRY_SECONDS = 2

Endpoint = Callable[[Request], Awaitable[Response]]
"""Answers a request of one route."""


class CallerGoneError(DualResponseError):
    """The connection closed before the request was answered."""

    code = "CALLER_GONE"
    cause = "caller"


class MethodNotAllowedError(DualResponseError):
    """The path does not have this method."""

    code = "METHOD_NOT_ALLOWED"
    cause = "caller"

    def __init__(self, message: str, *, known: Sequence[str] = METHODS) -> None:
        super().__init__(message, hint=f"Allowed here: {', '.join(known)}.")
        self.known = known


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


class ProblemKind(NamedTuple):
    """How errors with one code are answered. `word` is the `error` of the body."""

    status: int
    word: str


INTERNAL = ProblemKind(500, "internal_error")

KINDS: Mapping[str, ProblemKind] = {
    "DUAL_RESPONSE_ERROR": INTERNAL,
    "BAD_CONFIGURATION": INTERNAL,
    "MISSING_EXTRA": ProblemKind(501, "not_implemented"),
    "TAMPERED_RESOURCE": INTERNAL,
    "NOT_FREEZABLE": INTERNAL,
    "QUERY_EXECUTION_FAILED": ProblemKind(502, "query_failed"),
    "COUNT_EXECUTION_FAILED": ProblemKind(502, "query_failed"),
    "DATABASE_BUSY": ProblemKind(503, "unavailable"),
    "DATABASE_UNREACHABLE": ProblemKind(503, "unavailable"),
    "TOO_MANY_QUERIES": ProblemKind(503, "unavailable"),
    "QUERY_TIMEOUT": ProblemKind(504, "timeout"),
    "SERVER_UNAVAILABLE": ProblemKind(503, "unavailable"),
    "STORAGE_ERROR": ProblemKind(503, "unavailable"),
    "RATE_LIMITED": ProblemKind(429, "rate_limited"),
    "RESOURCE_NOT_FOUND": ProblemKind(404, "not_found"),
    "RESOURCE_EXPIRED": ProblemKind(410, "expired"),
    "RESOURCE_PENDING": ProblemKind(409, "pending"),
    "RESOURCE_FAILED": ProblemKind(409, "failed"),
    "QUERY_INTERRUPTED": ProblemKind(503, "unavailable"),
    "QUERY_CANCELLED": ProblemKind(503, "unavailable"),
    "UNAUTHENTICATED": ProblemKind(401, "unauthorized"),
    "INSUFFICIENT_SCOPE": ProblemKind(403, "forbidden"),
    "FORBIDDEN": ProblemKind(403, "forbidden"),
    "FORBIDDEN_SQL": ProblemKind(403, "forbidden"),
    "FOREIGN_REQUEST": ProblemKind(403, "forbidden"),
    "BAD_PARAMETER": ProblemKind(400, "bad_request"),
    "BAD_CURSOR": ProblemKind(400, "bad_request"),
    "CALLER_GONE": ProblemKind(400, "bad_request"),
    "RESULT_CHANGED": ProblemKind(409, "conflict"),
    "UNKNOWN_COLUMN": ProblemKind(422, "unprocessable"),
    "VALUE_NOT_REPRESENTABLE": ProblemKind(422, "unprocessable"),
    "INVALID_SQL": ProblemKind(400, "bad_request"),
    "UNKNOWN_TABLE": ProblemKind(422, "unprocessable"),
    "NO_TOTAL_ORDER": ProblemKind(422, "unprocessable"),
    "METHOD_NOT_ALLOWED": ProblemKind(405, "method_not_allowed"),
    "NOT_ACCEPTABLE": ProblemKind(406, "not_acceptable"),
    "SLOW_BODY": ProblemKind(408, "timeout"),
    "BODY_TOO_LARGE": ProblemKind(413, "too_large"),
    "LIMIT_EXCEEDED": ProblemKind(413, "too_large"),
    "OLD_PROTOCOL": ProblemKind(426, "upgrade_required"),
    "UNSUPPORTED_MEDIA_TYPE": ProblemKind(415, "unsupported_media_type"),
}

RETRY_SOON = {"Retry-After": str(RETRY_SECONDS)}

_HEADERS: Mapping[int, Mapping[str, str]] = {
    # Not for 413: if the connection closes while the caller still sends, TCP can drop the answer.
    408: {"Connection": "close"},
    426: {"Upgrade": "HTTP/1.1", "Connection": "upgrade"},
    503: RETRY_SOON,
}

_STATUS_NAMES = {status.value: status.name for status in HTTPStatus}


def answering(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with each of its exceptions turned into an answer."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:  # noqa: BLE001 - the outermost edge: what is not ours becomes a fixed text
            return problem_response(error, request_name(request))

    _ANSWERING.add(answer)
    return answer


_ANSWERING: WeakSet[Endpoint] = WeakSet()


def answering_route(route: BaseRoute) -> BaseRoute:
    """A route of a feature, with each exception turned into an answer, as `answering` does for an endpoint.

    Its middleware and its other options stay.
    """
    if isinstance(route, Route) and not is_answering(route):
        route.app = _answering_app(route.app)
    return route


def is_answering(route: Route) -> bool:
    """Whether its endpoint was made by `answering`."""
    return isfunction(route.endpoint) and route.endpoint in _ANSWERING


def _answering_app(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def send_on(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await app(scope, receive, send_on)
        except Exception as error:
            if is_started:
                raise
            await problem_response(error, request_name(Request(scope)))(scope, receive, send)

    return answer


def method_routes(path: str, endpoints: Mapping[str, Endpoint], methods: Sequence[str]) -> list[Route]:
    """One route for each method of a path below a resource; GET answers HEAD, too. Other methods get 405.

    Args:
        methods: listed in the answer 405, and in that to OPTIONS, which every path has and which looks up no id.
    """
    methods = methods if "OPTIONS" in methods else (*methods, "OPTIONS")
    allowed = {"Allow": ", ".join(methods)}

    async def list_methods(_: Request) -> Response:
        return Response(status_code=204, headers=allowed)

    unknown = MethodNotAllowedError("The method is not allowed for this path.", known=methods)

    async def refuse_method(_: Request) -> Response:
        return problem_response(unknown)

    return [
        *(Route(path, answering(endpoint), methods=[method]) for method, endpoint in endpoints.items()),
        Route(path, answering(list_methods), methods=["OPTIONS"]),
        # Without methods it matches each one that no route before it has.
        Route(path, answering(refuse_method), methods=()),
    ]


def problem_response(error: Exception, where: str = "a request") -> Response:
    """The error as an answer with its status.

    A 5xx has `details.incident`; the log has the error, its cause and the request under the same number. An
    HTTPException, which an `authenticate` callable may raise, keeps its status and headers.
    """
    if isinstance(error, HTTPException):
        return _refusal(error)
    if not isinstance(error, DualResponseError):
        return _answer(_hidden(), _log_unforeseen(error, where))
    return _answer(error, _log_incident(error, where))


def _answer(error: DualResponseError, incident: str) -> Response:
    kind = kind_of(error)
    note_code(error.code, error.cause)
    message, hint = error.for_caller
    problem = Problem(
        error=kind.word, message=message, code=error.code, hint=hint, details=dict(error.details)
    )
    if incident:
        problem["details"]["incident"] = incident
    headers = dict(_HEADERS.get(kind.status, {}))
    if isinstance(error, ResourcePendingError):
        headers |= RETRY_SOON
    if isinstance(error, RateLimitedError | TooManyQueriesError):
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowedError):
        headers["Allow"] = ", ".join(error.known)
    challenge = getattr(error, "challenge", None)
    if challenge is not None:
        headers["WWW-Authenticate"] = challenge
    return JSONAnswer(problem, kind.status, headers)


def note_code(code: str, cause: Cause) -> None:
    """Note with which error the current request is answered, for the log and the metrics."""
    EVENTS.report(ErrorAnswered(code, "http", cause))
    record = REQUEST.get()
    if record is not None:
        record.code = code


class Starting:
    """An application for the time before there is a server: it answers 503 to every request.

    Args:
        reason: says what the server waits for.
    """

    def __init__(self, reason: Callable[[], str]) -> None:
        self._reason = reason

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _answer(ServerUnavailableError(self._reason()), "")
        await PrivateHeaders(answer)(scope, receive, send)


def kind_of(error: DualResponseError) -> ProblemKind:
    """How to answer `error`: by its own code, or else by that of its nearest ancestor in the table."""
    codes = (getattr(ancestor, "code", "") for ancestor in type(error).__mro__)
    return next((KINDS[code] for code in codes if code in KINDS), INTERNAL)


def _hidden() -> DualResponseError:
    return DualResponseError(
        "The server failed with an internal error.", hint="Report the incident number to the operator."
    )


def _log_incident(error: DualResponseError, where: str) -> str:
    """Log a failure of the server and return its incident number; empty for an error of the caller."""
    if kind_of(error).status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return ""
    incident = new_incident()
    log_failure(logger, error, where, incident=incident)
    return incident


def _log_unforeseen(error: Exception, where: str) -> str:
    incident = new_incident()
    log_unforeseen(logger, error, "incident %s: an unforeseen error in %s", incident, where)
    return incident


def request_name(request: Request) -> str:
    """The request as the log names it: without the id, which gives access, and without the query string."""
    path, hashes = request.url.path, ""
    for name, value in request.path_params.items():
        path = path.replace(str(value), f"{{{name}}}")
        hashes += f", resource {resource_hash(str(value))}" if name == "resource_id" else ""
    return f"{request.method} {path}{hashes}"


def _refusal(error: HTTPException) -> Response:
    name = _STATUS_NAMES.get(error.status_code, "REFUSED")
    note_code(name, "caller" if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR else "server")
    problem = Problem(error=name.lower(), message=error.detail, code=name, hint="", details={})
    return JSONAnswer(problem, error.status_code, error.headers)


T = TypeVar("T")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, and cancel it when the caller disconnects.

    The body must have been read, or may be discarded.

    Raises:
        CallerGoneError: the caller disconnected first.
    """
    with _Watch(receive) as watch:
        try:
            return await work
        except asyncio.CancelledError:
            if watch.has_cancelled():
                raise CallerGoneError("The connection closed before the rows were read.") from None
            raise


class _Watch:
    """Cancels the current task if the caller disconnects before the end of the block."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task: asyncio.Task[Any] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._has_cancelled = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        # The task runs only when the work waits for something: work that ends at once needs no watch.
        self._beginning = asyncio.get_running_loop().call_soon(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        self._task = None
        self._beginning.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def has_cancelled(self) -> bool:
        """Whether this watch, and nothing else, cancelled the work."""
        return self._has_cancelled and self._task is not None and self._task.uncancel() == 0

    def _begin(self) -> None:
        self._watching = asyncio.create_task(_until_disconnected(self._receive))
        self._watching.add_done_callback(self._cancel)

    def _cancel(self, watching: asyncio.Task[None]) -> None:
        if watching.cancelled() or self._task is None:
            return
        watching.exception()  # a failing connection counts as closed
        if not self._task.cancelling():  # the work has ended or is unwinding
            self._has_cancelled = True
            self._task.cancel()


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
