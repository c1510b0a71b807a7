"""Every error the client raises on purpose; the rule: `code` is stable, `hint` says what to do next.

DualResponseClientError
├── ParseError                 PARSE_ERROR          no dual response, several, or a wrong value in a column
├── NotConfiguredError         NOT_CONFIGURED       base_url is missing, or cannot be used safely
├── ToolFailedError            TOOL_FAILED          a tool failed, or gave no data; its own code if it has one
├── MissingExtraError          MISSING_EXTRA        a package is needed that an extra of this one brings
└── FetchError                 FETCH_ERROR          the request failed; the server's code if it sent one
    ├── FetchTimeoutError      TIMEOUT              no complete answer in time
    ├── ResourceNotFoundError  RESOURCE_NOT_FOUND   404: unknown, deleted, or not the caller's
    ├── ResourceExpiredError   RESOURCE_EXPIRED     410: it was there, and its time is over
    ├── ResourcePendingError   RESOURCE_PENDING     409: its query still runs
    ├── ResourceFailedError    RESOURCE_FAILED      409: its query failed; `details["error"]` says why
    ├── StreamBrokenError      STREAM_BROKEN        rows came, the connection broke, and there is no going on
    └── UntrustedOriginError   UNTRUSTED_ORIGIN     the answer points to a host that was not configured
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PASSING_STATUSES = frozenset({429, 502, 503, 504})
_PASSING_CODES = frozenset({"DATABASE_BUSY", "DATABASE_UNREACHABLE", "STORAGE_ERROR", "TOO_MANY_QUERIES"})
"""Of the server, in the last record of a stream, whose status has left by then."""

_LASTING_CODES = frozenset({"QUERY_TIMEOUT"})
"""It is 504, and would run as long again."""


class DualResponseClientError(Exception):
    """The root of all errors of the client package.

    Attributes:
        code: a stable name; the server's own for a problem the server reported.
        message: one sentence for a person or a model.
        hint: what to do next, or an empty string.
        details: JSON values that a program can use.
    """

    default_code = "CLIENT_ERROR"
    default_hint = ""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.details = dict(details or {})

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class ParseError(DualResponseClientError):
    """What was given cannot be read as what it should be."""

    default_code = "PARSE_ERROR"


class NotConfiguredError(DualResponseClientError):
    """The client does not know where to fetch."""

    default_code = "NOT_CONFIGURED"
    default_hint = "Give the client its server's address: base_url='https://api.example.com/resources'."


class ToolFailedError(DualResponseClientError):
    """A tool that a program called failed, or its answer has not what was asked for."""

    default_code = "TOOL_FAILED"


class MissingExtraError(DualResponseClientError):
    """What was asked for needs a package that is not installed."""

    default_code = "MISSING_EXTRA"


class FetchError(DualResponseClientError):
    """A request failed.

    Attributes:
        status: the HTTP status of the answer; None when no answer came, or it broke off.
        retry_after: seconds that the server asked to be left alone; None when it did not.
        may_pass: the same request may succeed a little later: the connection broke, or the server was busy, restarting,
            or without its database for the moment.
    """

    default_code = "FETCH_ERROR"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, details=details)
        self.status = status
        self.retry_after: float | None = None
        passing = status in _PASSING_STATUSES or code in _PASSING_CODES
        self.may_pass = passing and code not in _LASTING_CODES


class FetchTimeoutError(FetchError):
    """The answer was not complete when `timeout` was over."""

    default_code = "TIMEOUT"
    default_hint = "Ask for fewer rows, or give the client a longer timeout."


class ResourceNotFoundError(FetchError):
    """The server has no such resource for this caller."""

    default_code = "RESOURCE_NOT_FOUND"
    default_hint = "Run the tool again to get a new resource."


class ResourceExpiredError(FetchError):
    """The resource existed and its lifetime is over."""

    default_code = "RESOURCE_EXPIRED"
    default_hint = "Run the tool again to get a new resource; pin one to keep it."


class ResourcePendingError(FetchError):
    """The query of the resource still runs: there are no rows yet."""

    default_code = "RESOURCE_PENDING"
    default_hint = "await result.wait_until_ready() first."


class ResourceFailedError(FetchError):
    """The query of the resource failed: there will be no rows. `details["error"]` is what it failed with."""

    default_code = "RESOURCE_FAILED"
    default_hint = "Run the tool again to get a new resource."


class StreamBrokenError(FetchError):
    """A stream ended too early, and was not or could not be gone on with; `__cause__` is how it ended.

    Attributes:
        rows: complete rows received before that.
    """

    default_code = "STREAM_BROKEN"

    def __init__(self, message: str, *, rows: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, details={"rows": rows})
        self.rows = rows


class UntrustedOriginError(FetchError):
    """The server tried to send the client to a host that was not configured."""

    default_code = "UNTRUSTED_ORIGIN"
    default_hint = "If that host is right, make it the client's base_url."
