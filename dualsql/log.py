"""Log records of requests and of failures.

A request is one line, and so is an expected error. An unexpected error has a traceback. A continuing outage is logged
at intervals.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from typing import Any, NamedTuple

from dualsql.errors import DualResponseError

_MOST_WAITING = 16
_MOST_CAUSES = 4
_LONGEST_MESSAGE = 200
_LONGEST_LINE = 4_000
_LONGEST_TRACEBACK = 32_000

_waiting: set[Future[None]] = set()


def new_incident() -> str:
    """A new incident number, which is in the answer to the caller and in the log."""
    return secrets.token_hex(8)


def resource_hash(resource_id: str) -> str:
    """A hash that identifies a resource in the log. Its id is not logged, because it may give access."""
    # Callers send ids that no server made, perhaps with lone surrogates.
    return sha256(resource_id.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def principal_hash(principal: Any) -> str:
    """What the log calls a principal. It is the same in every process; who knows an id and a tenant can compute it."""
    # As JSON: joined texts would be the same for ("a", "bc") and ("ab", "c").
    named = json.dumps([principal.id, principal.tenant])
    return sha256(named.encode()).hexdigest()[:12]


request_logger = logging.getLogger("dualsql.requests")

REQUEST_ID_HEADER = "X-Request-Id"
# What proxies and clouds make (UUID, ULID, hex). Nothing that could end a line, or be read as a field of it.
REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# https://www.w3.org/TR/trace-context/#traceparent-header
TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """What the log tells of one HTTP request or one call of a tool. Filled in while it is answered.

    Attributes:
        id: from the caller if well-formed, else made here.
        trace_id: of the W3C trace that the caller named; empty without one.
        route: the path with placeholders, or the name of the tool; never a path as it was sent.
        principal: a Principal; the log gets its hash.
        resource_id: the log gets its hash.
        address: of the caller, as the ASGI server gives it; not logged.
        rows: that were read; of a tool, those that it showed.
        bytes: of the body as sent.
        lane: how the rows were read last: `session`, `page_reader`, or the name of a stream backend.
        started: of `time.perf_counter`.
    """

    id: str
    trace_id: str = ""
    method: str = ""
    prefix: str = ""
    route: str = "-"
    status: int | None = None
    code: str | None = None
    principal: Any = None
    resource_id: str | None = None
    address: str | None = None
    rows: int | None = None
    bytes: int | None = None
    lane: str | None = None
    started: float = field(default_factory=time.perf_counter)

    def fields(self) -> dict[str, Any]:
        """What is known, by the names of the log."""
        found = {
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "code": self.code,
            "rows": self.rows,
            "bytes": self.bytes,
            "lane": self.lane,
            "duration_ms": round((time.perf_counter() - self.started) * 1000, 1),
            "principal": None if self.principal is None else principal_hash(self.principal),
            "resource": None if self.resource_id is None else resource_hash(self.resource_id),
            "request_id": self.id,
            "trace_id": self.trace_id or None,
        }
        return {name: value for name, value in found.items() if value is not None}


REQUEST: ContextVar[RequestRecord | None] = ContextVar("dualsql_request", default=None)
"""The request that is being answered."""


class RequestIds(NamedTuple):
    """How a request is found again, and where it came from; the trace is empty if the caller named none."""

    id: str
    trace_id: str
    address: str | None = None

    @classmethod
    def of(cls, request_id: object, traceparent: object, address: str | None = None) -> RequestIds:
        """What the caller sent, where it is well-formed; otherwise a new id, and no trace."""
        is_id = isinstance(request_id, str) and REQUEST_ID.fullmatch(request_id)
        found = TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
        return cls(str(request_id) if is_id else new_incident(), found[1] if found else "", address)


def log_request(record: RequestRecord) -> None:
    """Log the line of a request that was answered, at INFO."""
    if request_logger.isEnabledFor(logging.INFO):
        fields = record.fields()
        shown = (f"{name}={value}" for name, value in fields.items() if name not in ("method", "route"))
        line = f"{record.method} {record.route} {' '.join(shown)}"
        request_logger.info("%s", line, extra={"dualsql_fields": fields})


@contextmanager
def logged_request(record: RequestRecord) -> Iterator[RequestRecord]:
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
        """See `logging.Formatter`."""
        if not self._as_json:
            return self._text(record)
        request = REQUEST.get()
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        fields = _fields_of(record)
        if fields is None:
            told["message"] = record.getMessage()[:_LONGEST_LINE]
            fields = {} if request is None else {"request_id": request.id, "trace_id": request.trace_id}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)[:_LONGEST_TRACEBACK]
        return json.dumps({**told, **{name: value for name, value in fields.items() if value != ""}})

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
    found: Mapping[str, Any] | None = getattr(record, "dualsql_fields", None)
    return found


def log_slow_query(database: str, fingerprint: str, seconds: float) -> None:
    """Log a statement that took long: which database, how long, and the hash of its text."""
    request = REQUEST.get()
    logging.getLogger("dualsql.queries").warning(
        "a slow query took %.2f s in the database %r: statement %s%s",
        seconds,
        database,
        fingerprint,
        f", resource {resource_hash(request.resource_id)}" if request and request.resource_id else "",
    )


def cause_of(error: BaseException) -> str:
    """The causes of `error` in one line: class, SQLSTATE or error number, and message of each.

    Use it for the log only, because a driver's message may contain data. Empty for an error without a cause.
    """
    return "; caused by ".join(map(_described, _causes(error)))


def log_failure(
    logger: logging.Logger,
    error: DualResponseError,
    where: str,
    *,
    incident: str = "",
    level: int | None = None,
) -> None:
    """Log an expected error in one line: its code, its place, its message if callers get another one, and its cause.

    Args:
        where: the request or the tool, without ids, query strings and values.
        level: by default ERROR.
    """
    words = f"{error.code} in {where}" if where else error.code
    if error.caller_words is not None:  # callers do not see its own
        words += f": {error.message}"
    cause = cause_of(error)
    number = f"incident {incident}: " if incident else ""
    logger.log(
        logging.ERROR if level is None else level, "%s%s%s", number, words, f": {cause}" if cause else ""
    )


def log_unforeseen(logger: logging.Logger, error: BaseException, message: str, *values: object) -> None:
    """Log an unexpected error with its traceback.

    On an event loop, a thread writes it. If too many records wait for that thread, the traceback is omitted.
    """
    write = partial(logger.error, message, *values, exc_info=error)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        write()
        return
    if len(_waiting) >= _MOST_WAITING:
        logger.error(f"{message}: %s", *values, _described(error))  # noqa: G004 - the message is a format
        return
    future = _writer().submit(copy_context().run, write)
    _waiting.add(future)
    future.add_done_callback(_waiting.discard)


def wait_until_logged() -> None:
    """Wait until the thread has written all tracebacks."""
    _writer().submit(int).result()


@cache
def _writer() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "dualsql-log")


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        original: Any = getattr(cause, "orig", None)
        cause = original if isinstance(original, BaseException) else cause
        # SQLAlchemy wraps the error of asyncpg in another one with the same message.
        inner = cause.__cause__
        if inner is None or str(inner) not in str(cause):
            yield cause
        cause = inner


def _described(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    state = _state(error)
    message = " ".join("".join(c if c.isprintable() else " " for c in str(error)[:1000]).split())
    return f"{name}{f' [{state}]' if state else ''}: {message[:_LONGEST_MESSAGE]}"


def _state(error: BaseException) -> str:
    named = (getattr(error, name, None) for name in ("sqlstate", "pgcode", "sqlite_errorname"))
    found = next((str(one) for one in named if one), "")
    number = next(iter(error.args), None)
    return found or (str(number) if isinstance(number, int) else "")


logger = logging.getLogger(__name__)

FIRST_REMINDER = timedelta(seconds=10)
LONGEST_SILENCE = timedelta(hours=1)


class Outage:
    """Logs an outage of one kind of work: its first failure, reminders while it continues, and its end.

    Args:
        work: the work that fails, as the subject of a sentence.
        clock: monotonic seconds.
    """

    def __init__(self, work: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._work = work
        self._clock = clock
        self._failures = 0
        self._begun = self._reminder = 0.0

    def failed(self, error: Exception) -> None:
        """Record a failure. The first one is logged with its cause."""
        now = self._clock()
        self._failures += 1
        if self._failures == 1:
            self._begun, self._reminder = now, now + FIRST_REMINDER.total_seconds()
            cause = cause_of(error) or str(error)
            logger.warning("%s failed and is tried again until it succeeds: %s", self._work, cause)
        elif now >= self._reminder:
            logger.warning("%s has failed for %.0f seconds: %s", self._work, now - self._begun, error)
            silence = min(2 * (now - self._begun), LONGEST_SILENCE.total_seconds())
            self._reminder = now + silence

    def succeeded(self) -> None:
        """Record a success. The first one after a failure is logged."""
        if self._failures:
            lasted = self._clock() - self._begun
            logger.warning("%s works again after %.0f seconds.", self._work, lasted)
            self._failures = 0
