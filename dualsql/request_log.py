"""The feature Log: each request has an id and a line in the log.

A line has the route, and not the path; the hashes of ids, and no id; and neither values nor SQL.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.events import EVENTS, Measurement
from dualsql.feature import Feature
from dualsql.http.problems import METHODS
from dualsql.http.router import FeatureRoutes
from dualsql.log import REQUEST, REQUEST_ID_HEADER, RequestRecord, resource_hash

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_LONGEST_LINE = 4_000
_LONGEST_TRACEBACK = 32_000

request_logger = logging.getLogger("dualsql.requests")

# What proxies and clouds make (UUID, ULID, hex). Nothing that could end a line, or be read as a field of it.
REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# https://www.w3.org/TR/trace-context/#traceparent-header
TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


@dataclass(slots=True, kw_only=True)
class LoggedRequest(RequestRecord):
    """A request that gets a line in the log.

    Attributes:
        route: the path with placeholders, or the name of the tool; never a path as it was sent.
        bytes: of the body as sent.
        started: of `time.perf_counter`.
    """

    method: str = ""
    prefix: str = ""
    route: str = "-"
    status: int | None = None
    bytes: int | None = None
    started: float = field(default_factory=time.perf_counter)


def principal_hash(principal: Any) -> str:
    """The name of a principal in the log, the same in every process. It can be computed from the id and the tenant."""
    # As JSON: joined texts would be the same for ("a", "bc") and ("ab", "c").
    identity = json.dumps([principal.id, principal.tenant])
    return sha256(identity.encode()).hexdigest()[:12]


def _fields(record: LoggedRequest) -> dict[str, Any]:
    """The fields of a request in the log."""
    attributes = {
        "method": record.method,
        "route": record.route,
        "status": record.status,
        "code": record.code,
        "rows": record.rows,
        "bytes": record.bytes,
        "lane": record.lane,
        "duration_ms": round((time.perf_counter() - record.started) * 1000, 1),
        "principal": None if record.principal is None else principal_hash(record.principal),
        "resource": None if record.resource_id is None else resource_hash(record.resource_id),
        "request_id": record.id,
        "trace_id": record.trace_id or None,
    }
    return {name: value for name, value in attributes.items() if value is not None}


class RequestIds(NamedTuple):
    """How a request is found again, and where it came from; the trace is empty if the caller named none.

    Attributes:
        traceparent: of a header that counts, because the call itself has none.
    """

    id: str
    trace_id: str
    address: str | None = None
    traceparent: str = ""

    @classmethod
    def of(cls, request_id: object, traceparent: object, address: str | None = None) -> RequestIds:
        """The ids that the caller sent, if they are well-formed; otherwise a new id, and no trace."""
        return cls(*_well_formed(request_id, traceparent), address)


def _well_formed(request_id: object, traceparent: object) -> tuple[str, str]:
    is_id = isinstance(request_id, str) and REQUEST_ID.fullmatch(request_id)
    parent = TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    return str(request_id) if is_id else os.urandom(8).hex(), parent[1] if parent else ""


def log_request(record: LoggedRequest) -> None:
    """Log the line of a request that was answered, at INFO."""
    if request_logger.isEnabledFor(logging.INFO):
        fields = _fields(record)
        pairs = (f"{name}={value}" for name, value in fields.items() if name not in ("method", "route"))
        line = f"{record.method} {record.route} {' '.join(pairs)}"
        request_logger.info("%s", line, extra={"dualsql_fields": fields})


@contextmanager
def logged_request(record: LoggedRequest) -> Iterator[LoggedRequest]:
    """The block answers the request, which is logged at its end."""
    token = REQUEST.set(record)
    try:
        yield record
    finally:
        REQUEST.reset(token)
        log_request(record)


class LogFormatter(logging.Formatter):
    """Writes records as text, or each as one line of JSON, with the id of the request in which they arose.

    As text, a record begins a line and its traceback is indented: other packages log what callers send, which may hold
    line ends and escape sequences. A message has at most 4,000 characters, and a traceback 32,000.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        if not self._as_json:
            return self._text(record)
        request = REQUEST.get()
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        fields = _fields_of(record)
        if fields is None:
            line["message"] = record.getMessage()[:_LONGEST_LINE]
            fields = {} if request is None else {"request_id": request.id, "trace_id": request.trace_id}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[:_LONGEST_TRACEBACK]
        return json.dumps({**line, **{name: value for name, value in fields.items() if value != ""}})

    def _text(self, record: logging.LogRecord) -> str:
        # Not `Formatter.format`, which takes over the traceback that another formatter has written.
        record.message, record.asctime = record.getMessage(), self.formatTime(record)
        below = self.formatException(record.exc_info)[:_LONGEST_TRACEBACK] if record.exc_info else ""
        lines = (f"  {_in_one_line(line)}" for line in below.split("\n") if line)
        return "\n".join([self.formatMessage(record), *lines])

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        """The first line of a text: what was logged, and the request."""
        request = REQUEST.get()
        line = _in_one_line(super().formatMessage(record))
        return (
            line if request is None or _fields_of(record) is not None else f"{line} request_id={request.id}"
        )


def _in_one_line(text: str) -> str:
    """The text with escapes in place of what ends a line, moves a cursor or is not seen."""
    text = text[:_LONGEST_LINE]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _fields_of(record: logging.LogRecord) -> Mapping[str, Any] | None:
    fields: Mapping[str, Any] | None = getattr(record, "dualsql_fields", None)
    return fields


_SCOPE_KEY = "dualsql.request"
_MEASURED_METHODS = frozenset("CONNECT DELETE GET HEAD OPTIONS PATCH POST PUT QUERY TRACE".split())
"""Of HTTP; OpenTelemetry's conventions call any other one _OTHER."""
_ID_HEADER = REQUEST_ID_HEADER.lower().encode()
_IDS = frozenset({_ID_HEADER, b"traceparent"})


class RequestLog:
    """Gives each request an id, which the answer's X-Request-Id has too, and logs one line when it was answered.

    What the caller sends as X-Request-Id is kept if it is well-formed. In either case the application inside finds the
    id in the headers of the request. The line is logged to "dualsql.requests" at INFO; see `LoggedRequest`.

    Args:
        prefix: the path at which the application is mounted.
        is_measured: measure the requests, where there is telemetry.
    """

    def __init__(self, app: ASGIApp, *, prefix: str = "", is_measured: bool = False) -> None:
        self.app = app
        self.prefix = prefix
        self.is_measured = is_measured

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return self.app(scope, receive, send)
        if _SCOPE_KEY not in scope:
            return self._log(scope, receive, send)
        scope[_SCOPE_KEY].prefix = self.prefix  # around an application that holds this one
        return self._answer(scope, receive, send)

    async def _log(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = scope[_SCOPE_KEY] = _begun(scope, self.prefix)
        header, size = scope["headers"][-1], 0

        def send_on(message: Message) -> Awaitable[None]:
            nonlocal size
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message.get("headers", ()), header]
            else:
                size += len(message.get("body", b""))
            return send(message)

        token = REQUEST.set(record)
        try:
            await self._answer(scope, receive, send_on)
        finally:
            REQUEST.reset(token)
            if request_logger.isEnabledFor(logging.INFO):
                record.bytes = 0 if scope["method"] == "HEAD" else size
                _log(record, scope)

    def _answer(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        is_measured = self.is_measured and EVENTS.listener is not None
        return (self._measured if is_measured else self.app)(scope, receive, send)

    async def _measured(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"] if scope["method"] in _MEASURED_METHODS else "_OTHER"
        attributes = {
            "http.request.method": method,
            "url.scheme": "https" if scope["scheme"] == "https" else "http",
        }
        record: LoggedRequest = scope[_SCOPE_KEY]
        # Only the headers of a caller who names a trace are searched for it.
        headers = scope["headers"] if record.trace_id else ()
        with EVENTS.measured("request", method, attributes, headers=headers) as measurement:
            if measurement is not None:
                record.trace_id = measurement.trace_id or record.trace_id
            try:
                await self.app(scope, receive, send)
            finally:
                if measurement is not None and measurement.is_seen:
                    _measure(measurement, method, scope)


def has_begun(scope: Scope) -> bool:
    """Whether the answer to a request has begun; False for one that is not logged."""
    record: LoggedRequest | None = scope.get(_SCOPE_KEY)
    return record is not None and record.status is not None


def _begun(scope: Scope, prefix: str) -> LoggedRequest:
    """The record of a request, whose id stands in the headers from here on."""
    headers = scope["headers"]
    texts = {name: value.decode("latin-1") for name, value in headers if name in _IDS}
    others = [header for header in headers if header[0] != _ID_HEADER] if _ID_HEADER in texts else headers
    # One that is sent twice is none.
    request_id = texts.get(_ID_HEADER) if len(others) == len(headers) - 1 else None
    client = scope.get("client")
    text, trace_id = _well_formed(request_id, texts.get(b"traceparent"))
    scope["headers"] = [*others, (_ID_HEADER, text.encode())]
    return LoggedRequest(id=text, trace_id=trace_id, prefix=prefix, address=client[0] if client else None)


def _measure(measurement: Measurement, method: str, scope: Scope) -> None:
    """Say by which route the request was answered, and how."""
    record: LoggedRequest = scope[_SCOPE_KEY]
    # Without one no answer began, which the ASGI server answers with 500.
    status = record.status or 500
    measurement.note({"http.response.status_code": status})
    route = _route(record, scope)
    if route is not None:
        measurement.rename(f"{method} {route}")
        measurement.note({"http.route": route})
    if measurement.is_sampled:
        measurement.note({"network.protocol.version": "2" if scope["http_version"] == "2" else "1.1"})
    if status >= 500:
        measurement.fail(record.code or str(status))
    elif status < 400 and record.code is not None:  # a stream that was cut
        measurement.fail(record.code)


def _route(record: LoggedRequest, scope: Scope) -> str | None:
    """The path with placeholders. An unknown path is left out: it may hold an id."""
    route = scope.get("route")
    return record.prefix + route.path if isinstance(route, Route) else None


def _log(record: LoggedRequest, scope: Scope) -> None:
    method = scope["method"]
    record.method = method if method in METHODS else "OTHER"
    record.route = _route(record, scope) or "-"
    record.resource_id = scope.get("path_params", {}).get("resource_id", record.resource_id)
    log_request(record)


class Log(Feature):
    """Ids of requests (`X-Request-Id`) and their lines in the log "dualsql.requests"; see docs/operations.md."""

    def routes(self, server: ResultServer) -> FeatureRoutes:
        prefix = urlsplit(server.base_url).path
        return FeatureRoutes(middleware=[Middleware(RequestLog, prefix=prefix, is_measured=True)])
