"""REST answers in the dual-mode shape, for callers who ask for a format; the rule: for others, nothing changes.

seeds/001: `X-Response-Format: json | markdown`, `X-Execution-Context: chat | code`. What would have been answered is
the `data`; for a person in a chat there is a `display` of it, too.
"""

from __future__ import annotations

import time
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from dualsql.envelope import (
    VARY,
    Bounds,
    Display,
    Wanted,
    create_dual_mode_error,
    create_dual_mode_response,
    display,
    present,
    wanted,
)
from dualsql.formats import json
from dualsql.http.answers import JSONAnswer
from dualsql.http.problems import Endpoint

_FORMAT = "x-response-format"
_KEPT = ("allow", "retry-after", "www-authenticate")

# What is answered was bounded by the settings of the server: this is no second opinion on it.
_BOUNDS = Bounds(values=100_000_000, characters=2**31)


def negotiating(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose JSON is a dual-mode answer for callers who ask for one."""

    async def answer(request: Request) -> Response:
        started = time.perf_counter()
        response = await endpoint(request)
        response.headers.add_vary_header(VARY)
        asked = _asked(request.headers)
        if asked is None or request.method == "HEAD" or not isinstance(response, JSONAnswer):
            return response
        return _enveloped(response, asked, time.perf_counter() - started)

    return answer


def _asked(headers: Headers) -> Wanted | None:
    """What is asked for; None where no format is, and X-Execution-Context alone asks for none: JSON is for code."""
    named = {value.strip().lower() for value in headers.getlist(_FORMAT)}
    return wanted(headers) if named in ({"json"}, {"markdown"}) else None


def _enveloped(response: JSONAnswer, asked: Wanted, seconds: float) -> JSONAnswer:
    said = json.loads(bytes(response.body))
    if response.status_code < 400:
        answer = create_dual_mode_response(
            said,
            operation="page" if "data" in said else "describe",
            shown=_shown(said, asked),
            seconds=seconds,
            cached=said.get("cached") is True,
            bounds=_BOUNDS,
        )
    else:
        answer = create_dual_mode_error(
            said["message"],
            said["code"],
            operation="read",
            suggestion=said["hint"] or None,
            details=said["details"],
            seconds=seconds,
        )
    headers = {"Vary": response.headers["vary"]}
    headers |= {name: response.headers[name] for name in _KEPT if name in response.headers}
    return JSONAnswer(present(answer, asked), response.status_code, headers)


def _shown(said: dict[str, Any], asked: Wanted) -> Display:
    """A page's rows, or all that is said of the resource."""
    if asked.is_structured:
        return Display(type="markdown", content="")
    rows = said.get("data")
    seen = said if rows is None else {"rows": rows, "total_count": said.get("total_count")}
    return display(seen, "markdown", bounds=_BOUNDS)
