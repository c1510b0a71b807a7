"""The errors of the client, and their construction from a server's errors.

DualResponseClientError
├── ParseError                 PARSE_ERROR          no dual response, several, or a wrong value in a column
├── NotConfiguredError         NOT_CONFIGURED       base_url is missing, or cannot be used safely
├── ToolFailedError            TOOL_FAILED          a tool failed or returned no data; the tool's code if it has one
├── MissingExtraError          MISSING_EXTRA        a package is missing that an extra installs
└── FetchError                 FETCH_ERROR          the request failed; the server's code if it sent one
    ├── FetchTimeoutError      TIMEOUT              no complete answer in time
    ├── ResourceNotFoundError  RESOURCE_NOT_FOUND   404: unknown, deleted, or not the caller's
    ├── ResourceExpiredError   RESOURCE_EXPIRED     410: its lifetime is over
    ├── ResourcePendingError   RESOURCE_PENDING     409: its query still runs
    ├── ResourceFailedError    RESOURCE_FAILED      409: its query failed; `details["error"]` says why
    ├── StreamBrokenError      STREAM_BROKEN        the connection broke after some rows, and the stream cannot resume
    └── UntrustedOriginError   UNTRUSTED_ORIGIN     the answer points to a host that was not configured
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

_TEMPORARY_STATUSES = frozenset({429, 502, 503, 504})
_TEMPORARY_CODES = frozenset(
    {
        "DATABASE_BUSY",
        "DATABASE_UNREACHABLE",
        "RATE_LIMITED",
        "SERVER_UNAVAILABLE",
        "STORAGE_ERROR",
        "TOO_MANY_QUERIES",
    }
)
"""Codes in the last record of a stream, whose status 200 was sent before."""

_PERMANENT_CODES = frozenset({"QUERY_TIMEOUT"})
"""Its status is 504, but the query would take as long again."""


class DualResponseClientError(Exception):
    """The root of all errors of the client package.

    Attributes:
        code: a stable name; the server's own for a problem the server reported.
        message: one sentence for a person or a model.
        hint: what to do next, or an empty string.
        details: JSON values for a program.
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
    """The input cannot be parsed."""

    default_code = "PARSE_ERROR"


class NotConfiguredError(DualResponseClientError):
    """The client has no address to fetch from."""

    default_code = "NOT_CONFIGURED"
    default_hint = "Give the client its server's address: base_url='https://api.example.com/resources'."


class ToolFailedError(DualResponseClientError):
    """A tool failed, or its answer lacks the requested data."""

    default_code = "TOOL_FAILED"


class MissingExtraError(DualResponseClientError):
    """The operation needs a package that is not installed."""

    default_code = "MISSING_EXTRA"


class FetchError(DualResponseClientError):
    """A request failed.

    Attributes:
        status: the HTTP status of the answer; None when no answer came, or it broke off.
        retry_after: seconds to wait, from the server's Retry-After header; None without it.
        may_pass: the same request may succeed later: the connection broke, or the server was busy, restarting, or
            without its database.
        is_unrouted: the server may have no such route: 405, 501, or a 404 without the code of a missing resource.
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
        self.is_unrouted = False
        is_temporary = status in _TEMPORARY_STATUSES or code in _TEMPORARY_CODES
        self.may_pass = is_temporary and code not in _PERMANENT_CODES


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
    """The query of the resource failed: there will be no rows. `details["error"]` is its error."""

    default_code = "RESOURCE_FAILED"
    default_hint = "Run the tool again to get a new resource."


class StreamBrokenError(FetchError):
    """A stream ended too early and did not resume; `__cause__` is the error that ended it.

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


MAXIMUM_TEXT = 2_000

_NO_DUALSQL = (
    "The server answered with status 404, and not as dualsql does: nothing of dualsql is at this address."
)
_CHECK_BASE_URL = "Check base_url, of the client and of DualResponseServer: it is where router() is mounted."
UNROUTED = frozenset({405, 501})
"""The statuses of a server that does not take this method at this address."""
_NO_ROUTE = "Not Found"
"""What FastAPI says of an unknown route. Its servers say of a missing result what their authors write."""
_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")
_BY_STATUS: Mapping[int, type[FetchError]] = {404: ResourceNotFoundError, 410: ResourceExpiredError}
_KINDS: tuple[type[FetchError], ...] = (*_BY_STATUS.values(), ResourcePendingError, ResourceFailedError)
_BY_CODE: Mapping[str, type[FetchError]] = {kind.default_code: kind for kind in _KINDS}


def fetch_error(status: int, body: object) -> FetchError:
    """The error for an answer with an error status.

    Args:
        body: the decoded JSON of the answer, such as a wire.Problem; None without one.
    """
    problem: Mapping[str, Any] = body if isinstance(body, dict) else {}
    code = problem.get("code")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        code = None
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status, FetchError)
    details = problem.get("details")
    message = _text(problem, "message") or _text(problem, "detail")
    is_foreign = status == 404 and not problem.keys() & {"code", "error"} and message in (None, _NO_ROUTE)
    error = kind(
        _NO_DUALSQL if is_foreign else message or f"The server answered with status {status}.",
        status=status,
        code=code,
        hint=_CHECK_BASE_URL if is_foreign else _text(problem, "hint"),
        details=details if isinstance(details, dict) else None,
    )
    is_coded = code == ResourceNotFoundError.default_code
    error.is_unrouted = status in UNROUTED or (status == 404 and not is_coded)
    return error


_PAGES_REMAIN = (
    "Read the rows with fetch, fetch_all or fetch_stream. The rest is in the default features of dualsql."
)


def pages_only(status: int | None, *, has_posts: bool) -> FetchError:
    """The error for an operation that a server without it refused, which has pages of the result.

    Args:
        has_posts: it has pages by POST; without them it has nothing of dualsql's but pages by GET.
    """
    has_only_get = (
        "This server has pages by GET and nothing else: no streams, no metadata, no queries, no pins."
    )
    refused = f"This server has pages of the result, and refuses this request with status {status}."
    return FetchError(refused if has_posts else has_only_get, status=status, hint=_PAGES_REMAIN)


def rows_for_metadata() -> FetchError:
    """The error for rows as the answer to a request for metadata, as servers of the reference design send them."""
    return FetchError("This server sends rows where metadata were asked for.", status=200, hint=_PAGES_REMAIN)


def query_failed(error: Mapping[str, Any]) -> ResourceFailedError:
    """The error for a resource whose query failed, from its metadata."""
    message = _text(error, "message") or "The server does not say why."
    return ResourceFailedError(
        f"The query failed: {message}", hint=_text(error, "hint"), details={"error": dict(error)}
    )


def _text(problem: Mapping[str, Any], name: str) -> str | None:
    value = problem.get(name)
    return value[:MAXIMUM_TEXT] if isinstance(value, str) and value else None


def import_extra(module: str, extra: str) -> Any:
    """Import a module that `dualsql-client[extra]` installs.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module if module.startswith("backports.") else module.partition(".")[0]
        raise MissingExtraError(
            f"This needs {package}, which is not installed.",
            hint=f'pip install "dualsql-client[{extra}]"',
            details={"extra": extra},
        ) from error
