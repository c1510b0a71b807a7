"""Error answers as client errors; the rule: the server's code, message, hint and details are carried over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dualsql_client.errors import (
    FetchError,
    ResourceExpiredError,
    ResourceFailedError,
    ResourceNotFoundError,
    ResourcePendingError,
)

MAXIMUM_TEXT = 2_000

_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")
_BY_STATUS: Mapping[int, type[FetchError]] = {404: ResourceNotFoundError, 410: ResourceExpiredError}
_KINDS: tuple[type[FetchError], ...] = (*_BY_STATUS.values(), ResourcePendingError, ResourceFailedError)
_BY_CODE: Mapping[str, type[FetchError]] = {kind.default_code: kind for kind in _KINDS}


def fetch_error(status: int, body: object) -> FetchError:
    """The error for an answer with an error status.

    Args:
        body: the decoded JSON of the answer (wire.Problem, or less), or None when it had none.
    """
    problem: Mapping[str, Any] = body if isinstance(body, dict) else {}
    code = problem.get("code")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        code = None
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status, FetchError)
    details = problem.get("details")
    return kind(
        _text(problem, "message") or f"The server answered with status {status}.",
        status=status,
        code=code,
        hint=_text(problem, "hint"),
        details=details if isinstance(details, dict) else None,
    )


def failed_with(error: Mapping[str, Any]) -> ResourceFailedError:
    """The error for a resource whose metadata says what its query failed with."""
    said = _text(error, "message") or "The server does not say why."
    return ResourceFailedError(
        f"The query failed: {said}", hint=_text(error, "hint"), details={"error": dict(error)}
    )


def _text(problem: Mapping[str, Any], name: str) -> str | None:
    value = problem.get(name)
    return value[:MAXIMUM_TEXT] if isinstance(value, str) and value else None
