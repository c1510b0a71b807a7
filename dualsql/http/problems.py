"""Errors as HTTP answers; the rule: one body everywhere, and no word in it that was not written for callers.

The errors that only HTTP can meet are at home here:

DualResponseError
├── CallerGoneError            CALLER_GONE              the connection closed before the request was over
├── MethodNotAllowedError      METHOD_NOT_ALLOWED       a resource has no such method
├── SlowBodyError              SLOW_BODY                the body took longer than the settings allow
├── UnsupportedBodyError       UNSUPPORTED_MEDIA_TYPE   the body is not plain application/json
├── ForbiddenError
│   └── ForeignRequestError    FOREIGN_REQUEST          its Host or Origin is not ours
└── LimitExceededError
    └── BodyTooLargeError      BODY_TOO_LARGE           the body has more bytes than the settings allow
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dualsql.errors import DualResponseError, ForbiddenError, LimitExceededError, ResourcePendingError
from dualsql.http.answers import JSONAnswer
from dualsql.incidents import log_failure, log_unforeseen, new_incident, resource_hash
from dualsql_client.wire import Problem

logger = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE")
RETRY_SECONDS = 2

Endpoint = Callable[[Request], Awaitable[Response]]


class CallerGoneError(DualResponseError):
    """The connection closed before the request was over; nobody reads the answer."""

    code = "CALLER_GONE"


class MethodNotAllowedError(DualResponseError):
    """A resource has no such method."""

    code = "METHOD_NOT_ALLOWED"

    def __init__(self, message: str, *, known: Sequence[str] = METHODS) -> None:
        super().__init__(message, hint=f"Known here: {', '.join(known)}.")
        self.known = known


class NotAcceptableError(DualResponseError):
    """The rows cannot be had in any form that the caller accepts."""

    code = "NOT_ACCEPTABLE"


class OldProtocolError(DualResponseError):
    """The body's end could not be told from a connection that broke."""

    code = "OLD_PROTOCOL"
    default_hint = "Ask with HTTP/1.1 (nginx: proxy_http_version 1.1), or for format=ndjson."


class SlowBodyError(DualResponseError):
    """The body took longer than `Settings.body_timeout`."""

    code = "SLOW_BODY"


class UnsupportedBodyError(DualResponseError):
    """The body is something else than plain application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    default_hint = "Send JSON in UTF-8, not compressed, with Content-Type: application/json."


class ForeignRequestError(ForbiddenError):
    """The request was made for another host, or by another site's page."""

    code = "FOREIGN_REQUEST"


class BodyTooLargeError(LimitExceededError):
    """The body has more bytes than `Settings.maximum_body_size`."""

    code = "BODY_TOO_LARGE"


class Kind(NamedTuple):
    """How errors of one code are answered. `word` is the body's `error`."""

    status: int
    word: str


INTERNAL = Kind(500, "internal_error")

KINDS: Mapping[str, Kind] = {
    "DUAL_RESPONSE_ERROR": INTERNAL,
    "BAD_CONFIGURATION": INTERNAL,
    "TAMPERED_RESOURCE": INTERNAL,
    "NOT_FREEZABLE": INTERNAL,
    "QUERY_EXECUTION_FAILED": Kind(502, "query_failed"),
    "COUNT_EXECUTION_FAILED": Kind(502, "query_failed"),
    "DATABASE_BUSY": Kind(503, "unavailable"),
    "DATABASE_UNREACHABLE": Kind(503, "unavailable"),
    "TOO_MANY_QUERIES": Kind(503, "unavailable"),
    "QUERY_TIMEOUT": Kind(504, "timeout"),
    "STORAGE_ERROR": Kind(503, "unavailable"),
    "RESOURCE_NOT_FOUND": Kind(404, "not_found"),
    "RESOURCE_EXPIRED": Kind(410, "expired"),
    "RESOURCE_PENDING": Kind(409, "pending"),
    "RESOURCE_FAILED": Kind(409, "failed"),
    "QUERY_INTERRUPTED": Kind(503, "unavailable"),
    "QUERY_CANCELLED": Kind(503, "unavailable"),
    "UNAUTHENTICATED": Kind(401, "unauthorized"),
    "INSUFFICIENT_SCOPE": Kind(403, "forbidden"),
    "FORBIDDEN": Kind(403, "forbidden"),
    "FORBIDDEN_SQL": Kind(403, "forbidden"),
    "FOREIGN_REQUEST": Kind(403, "forbidden"),
    "BAD_PARAMETER": Kind(400, "bad_request"),
    "BAD_CURSOR": Kind(400, "bad_request"),
    "CALLER_GONE": Kind(400, "bad_request"),
    "RESULT_CHANGED": Kind(409, "conflict"),
    "UNKNOWN_COLUMN": Kind(422, "unprocessable"),
    "VALUE_NOT_REPRESENTABLE": Kind(422, "unprocessable"),
    "INVALID_SQL": Kind(400, "bad_request"),
    "UNKNOWN_TABLE": Kind(422, "unprocessable"),
    "NO_TOTAL_ORDER": Kind(422, "unprocessable"),
    "METHOD_NOT_ALLOWED": Kind(405, "method_not_allowed"),
    "NOT_ACCEPTABLE": Kind(406, "not_acceptable"),
    "SLOW_BODY": Kind(408, "timeout"),
    "BODY_TOO_LARGE": Kind(413, "too_large"),
    "LIMIT_EXCEEDED": Kind(413, "too_large"),
    "OLD_PROTOCOL": Kind(426, "upgrade_required"),
    "UNSUPPORTED_MEDIA_TYPE": Kind(415, "unsupported_media_type"),
}

RETRY_SOON = {"Retry-After": str(RETRY_SECONDS)}

_HEADERS: Mapping[int, Mapping[str, str]] = {
    # Not with 413: closing while the caller still sends makes TCP drop the answer before it is read.
    408: {"Connection": "close"},
    426: {"Upgrade": "HTTP/1.1", "Connection": "upgrade"},
    503: RETRY_SOON,
}

_STATUS_NAMES = {status.value: status.name for status in HTTPStatus}


def answering(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with every exception it raises turned into an answer."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:  # noqa: BLE001 - the outermost edge: what is not ours becomes a fixed text
            return problem_response(error, _told(request))

    return answer


def problem_response(error: Exception, where: str = "a request") -> Response:
    """The one error body, with the status that belongs to it.

    A 5xx carries `details.incident`, under which the log has the error and its cause, and `where` it arose.
    An HTTPException, which an `authenticate` callable may raise, keeps its status and headers.
    """
    if isinstance(error, HTTPException):
        return _refusal(error)
    if not isinstance(error, DualResponseError):
        return _answer(_hidden(), _log_unforeseen(error, where))
    return _answer(error, _log_incident(error, where))


def _answer(error: DualResponseError, incident: str) -> Response:
    kind = kind_of(error)
    message, hint = error.told
    problem = Problem(
        error=kind.word, message=message, code=error.code, hint=hint, details=dict(error.details)
    )
    if incident:
        problem["details"]["incident"] = incident
    headers = dict(_HEADERS.get(kind.status, {}))
    if isinstance(error, ResourcePendingError):
        headers |= RETRY_SOON
    if isinstance(error, MethodNotAllowedError):
        headers["Allow"] = ", ".join(error.known)
    challenge = getattr(error, "challenge", None)
    if challenge is not None:
        headers["WWW-Authenticate"] = challenge
    return JSONAnswer(problem, kind.status, headers)


def kind_of(error: DualResponseError) -> Kind:
    """How to answer `error`: as its own code says, or as the nearest ancestor's that is known here."""
    codes = (getattr(ancestor, "code", "") for ancestor in type(error).__mro__)
    return next((KINDS[code] for code in codes if code in KINDS), INTERNAL)


def _hidden() -> DualResponseError:
    return DualResponseError("The server failed to answer.", hint="Tell its operator the incident.")


def _log_incident(error: DualResponseError, where: str) -> str:
    """Log a failure of the server's side. Its number; empty for what is the caller's to mend."""
    if kind_of(error).status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return ""
    incident = new_incident()
    log_failure(logger, error, where, incident=incident)
    return incident


def _log_unforeseen(error: Exception, where: str) -> str:
    incident = new_incident()
    log_unforeseen(logger, error, "incident %s: an unforeseen error in %s", incident, where)
    return incident


def _told(request: Request) -> str:
    """The request as the log names it: an id opens a resource, and a query string may hold a link or a value."""
    path, hashes = request.url.path, ""
    for name, value in request.path_params.items():
        path = path.replace(str(value), f"{{{name}}}")
        hashes += f", resource {resource_hash(str(value))}" if name == "resource_id" else ""
    return f"{request.method} {path}{hashes}"


def _refusal(error: HTTPException) -> Response:
    name = _STATUS_NAMES.get(error.status_code, "REFUSED")
    problem = Problem(error=name.lower(), message=error.detail, code=name, hint="", details={})
    return JSONAnswer(problem, error.status_code, error.headers)
