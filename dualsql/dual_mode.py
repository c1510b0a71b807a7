"""The feature DualMode: answers in JSON in the dual-mode form, for callers who ask for it (specification S8)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.envelope import (
    VARY,
    Bounds,
    Display,
    DualModeAnswer,
    Wanted,
    create_dual_mode_error,
    create_dual_mode_response,
    display,
    present,
    wanted,
)
from dualsql.feature import Feature
from dualsql.formats import json
from dualsql.http.router import COLLECTION, PATH, FeatureRoutes

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_FORMAT = "x-response-format"

# The settings of the server have bounded the answer already.
_BOUNDS = Bounds(values=100_000_000, characters=2**31)


class DualMode(Feature):
    """Dual-mode answers over REST; see docs/envelope.md."""

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""
        return FeatureRoutes(middleware=[Middleware(DualModeAnswers)])


_OPERATIONS: Mapping[tuple[str, str], str] = {
    ("", "PUT"): "pin",
    ("", "DELETE"): "delete",
    ("pin", "PUT"): "pin",
    ("pin", "DELETE"): "unpin",
}


class DualModeAnswers:
    """Gives answers in JSON, errors included, the dual-mode form where the caller asks for one.

    Those of the routes of results and of the collection; documents, streams and pictures have formats of their own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        asked = None if scope["method"] == "HEAD" else _asked(Headers(scope=scope))
        start: Message | None = None
        body = bytearray()

        async def send_on(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                below, is_json = _below(scope), _is_json(message)
                if below == "" or (below is not None and is_json):
                    MutableHeaders(raw=message["headers"]).add_vary_header(VARY)
                    if asked is not None and is_json:
                        start = message
                        return
            elif start is not None and asked is not None:
                body.extend(message.get("body", b""))
                if message.get("more_body", False):
                    return
                below = _below(scope) or ""
                operation = _OPERATIONS.get((below, scope["method"]), below)
                seconds = time.perf_counter() - started
                said, status = json.loads(bytes(body)), start["status"]
                if _has_form(said, status):
                    content = json.dumps(_enveloped(said, status, asked, operation, seconds))
                    start["headers"] = [
                        *(
                            header
                            for header in start["headers"]
                            if header[0] not in (b"content-length", b"etag")
                        ),
                        (b"content-length", str(len(content)).encode()),
                    ]
                    body[:] = content
                await send(start)
                message["body"] = bytes(body)
            await send(message)

        await self.app(scope, receive, send_on)


def _below(scope: Scope) -> str | None:
    """The end of the path, such as "pin": empty for a result and the collection; None for all that is none of them."""
    route = scope.get("route")
    if not isinstance(route, Route) or not (route.path == COLLECTION or route.path.startswith(PATH)):
        return None
    return route.path.removeprefix(PATH).strip("/")


def _is_json(start: Message) -> bool:
    """Whether it is a whole answer in JSON. A stream in JSON has no length before its end."""
    headers = Headers(raw=start["headers"])
    return headers.get("content-type") == "application/json" and "content-length" in headers


def _asked(headers: Headers) -> Wanted | None:
    """The dual-mode answer that is asked for. None without a format: X-Execution-Context alone asks for plain JSON."""
    named = {value.strip().lower() for value in headers.getlist(_FORMAT)}
    return wanted(headers) if named in ({"json"}, {"markdown"}) else None


def _has_form(said: Any, status: int) -> bool:
    """Whether it is an object, or an error of dualsql's. A route of an application's feature may answer otherwise."""
    return isinstance(said, dict) and (status < 400 or {"message", "code", "hint", "details"} <= said.keys())


def _enveloped(
    said: dict[str, Any], status: int, asked: Wanted, operation: str, seconds: float
) -> DualModeAnswer:
    if status < 400:
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
    return present(answer, asked)


def _what(said: Mapping[str, Any]) -> str:
    return "page" if "data" in said else "list" if "resources" in said else "describe"


def _shown(said: dict[str, Any], asked: Wanted) -> Display:
    """The rows of a page, or the metadata of the resource."""
    if asked.is_structured:
        return Display(type="markdown", content="")
    rows = said.get("data")
    seen = said if rows is None else {"rows": rows, "total_count": said.get("total_count")}
    return display(seen, "markdown", bounds=_BOUNDS)
