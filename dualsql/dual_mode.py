"""The feature DualMode: answers in JSON in the dual-mode form, for callers who ask for it (specification S8)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
from dualsql.feature import Feature
from dualsql.formats import json
from dualsql.http.problems import JSONAnswer
from dualsql.http.router import FeatureRoutes

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_FORMAT = "x-response-format"
_KEPT = ("allow", "location", "retry-after", "www-authenticate")

# The settings of the server have bounded the answer already.
_BOUNDS = Bounds(values=100_000_000, characters=2**31)


class DualMode(Feature):
    """Dual-mode answers over REST; see docs/envelope.md."""

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""
        return FeatureRoutes(present=present_dual_mode)


_OPERATIONS: Mapping[tuple[str, str], str] = {
    ("", "PUT"): "pin",
    ("", "DELETE"): "delete",
    ("pin", "PUT"): "pin",
    ("pin", "DELETE"): "unpin",
}


def present_dual_mode(request: Request, response: Response, below: str, started: float) -> Response:
    """The answer to a request, as a dual-mode answer instead of JSON if the caller asks for one; see `Presenter`."""
    if any(name == b"vary" for name, _ in response.raw_headers):
        response.headers.add_vary_header(VARY)
    else:
        response.raw_headers.append((b"vary", VARY.encode()))
    asked = _asked(request.headers)
    if asked is None or request.method == "HEAD" or not isinstance(response, JSONAnswer):
        return response
    operation = _OPERATIONS.get((below, request.method), below)
    return _enveloped(response, asked, operation, time.perf_counter() - started)


def _asked(headers: Headers) -> Wanted | None:
    """The dual-mode answer that is asked for. None without a format: X-Execution-Context alone asks for plain JSON."""
    named = {value.strip().lower() for value in headers.getlist(_FORMAT)}
    return wanted(headers) if named in ({"json"}, {"markdown"}) else None


def _enveloped(response: JSONAnswer, asked: Wanted, operation: str, seconds: float) -> JSONAnswer:
    said = json.loads(bytes(response.body))
    if response.status_code < 400:
        answer = create_dual_mode_response(
            said,
            operation=operation or _what(said),
            shown=_shown(said, asked),
            seconds=seconds,
            cached=said.get("cached") is True,
            bounds=_BOUNDS,
        )
    else:
        answer = create_dual_mode_error(
            said["message"],
            said["code"],
            operation=operation or "read",
            suggestion=said["hint"] or None,
            details=said["details"],
            seconds=seconds,
        )
    headers = {"Vary": response.headers["vary"]}
    headers |= {name: response.headers[name] for name in _KEPT if name in response.headers}
    return JSONAnswer(present(answer, asked), response.status_code, headers)


def _what(said: Mapping[str, Any]) -> str:
    return "page" if "data" in said else "list" if "resources" in said else "describe"


def _shown(said: dict[str, Any], asked: Wanted) -> Display:
    """The rows of a page, or the metadata of the resource."""
    if asked.is_structured:
        return Display(type="markdown", content="")
    rows = said.get("data")
    seen = said if rows is None else {"rows": rows, "total_count": said.get("total_count")}
    return display(seen, "markdown", bounds=_BOUNDS)
