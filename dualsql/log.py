"""Log records of failures, and the record of the present request.

An expected error is one line. An unexpected error has a traceback. A continuing outage is logged at intervals.
`dualsql.request_log` writes the lines of requests.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dualsql.errors import DualResponseError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_MOST_WAITING = 16
_MOST_CAUSES = 4
_LONGEST_MESSAGE = 200

_waiting: set[Future[None]] = set()


def new_incident() -> str:
    """A new incident number, which is in the answer to the caller and in the log."""
    return secrets.token_hex(8)


def resource_hash(resource_id: str) -> str:
    """A hash that identifies a resource in the log. Its id is not logged, because it may give access."""
    # Callers send ids that no server made, perhaps with lone surrogates.
    return sha256(resource_id.encode("utf-8", "backslashreplace")).hexdigest()[:12]


REQUEST_ID_HEADER = "X-Request-Id"


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RequestRecord:
    """What is known of one HTTP request or one call of a tool. Filled in while it is answered.

    Attributes:
        id: from the caller if well-formed, else made here.
        trace_id: of the W3C trace that the caller named; empty without one.
        principal: a Principal; the log gets its hash.
        resource_id: the log gets its hash.
        address: of the caller, as the ASGI server gives it; not logged.
        link_id: of the signed link that the caller reads by; not logged.
        rows: that were read; of a tool, those that it showed.
        lane: how the rows were read last: `session`, `page_reader`, or the name of a stream backend.
    """

    id: str
    trace_id: str = ""
    code: str | None = None
    principal: Any = None
    resource_id: str | None = None
    address: str | None = None
    link_id: str | None = None
    rows: int | None = None
    lane: str | None = None


REQUEST: ContextVar[RequestRecord | None] = ContextVar("dualsql_request", default=None)
"""The request that is being answered; None without the feature Log."""


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
    level: int = logging.ERROR,
) -> None:
    """Log an expected error in one line: code, place, its message and hint if callers get others, and cause.

    Args:
        where: the request or the tool, without ids, query strings and values.
    """
    words = f"{error.code} in {where}" if where else error.code
    if error.caller_words is not None:  # callers do not see its own
        words += f": {error}"
    cause = cause_of(error)
    number = f"incident {incident}: " if incident else ""
    logger.log(level, "%s%s%s", number, words, f": {cause}" if cause else "")


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


@cache
def _writer() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

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
    states = (getattr(error, name, None) for name in ("sqlstate", "pgcode", "sqlite_errorname"))
    state = next((str(one) for one in states if one), "")
    number = next(iter(error.args), None)
    return state or (str(number) if isinstance(number, int) else "")


logger = logging.getLogger(__name__)

_FIRST_REMINDER, _LONGEST_SILENCE = 10.0, 3_600.0
"""Seconds."""


class Outage:
    """Logs an outage of one kind of work: its first failure, reminders while it continues, and its end.

    Args:
        work: the work that fails, as the subject of a sentence.
        clock: monotonic seconds.
    """

    def __init__(self, work: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.work = work
        self._clock = clock
        self._failures = 0
        self._begun = self._reminder = 0.0

    def failed(self, error: Exception) -> None:
        """Record a failure. The first one is logged with its cause."""
        now = self._clock()
        self._failures += 1
        if self._failures == 1:
            self._begun, self._reminder = now, now + _FIRST_REMINDER
            cause = cause_of(error) or str(error)
            logger.warning("%s failed and is tried again until it succeeds: %s", self.work, cause)
        elif now >= self._reminder:
            logger.warning("%s has failed for %.0f seconds: %s", self.work, now - self._begun, error)
            self._reminder = now + min(2 * (now - self._begun), _LONGEST_SILENCE)

    def succeeded(self) -> None:
        """Record a success. The first one after a failure is logged."""
        if self._failures:
            logger.warning("%s works again after %.0f seconds.", self.work, self._clock() - self._begun)
            self._failures = 0
