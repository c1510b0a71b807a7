"""The feature DualMode: answers in JSON in the dual-mode form, for callers who ask for it (specification S8)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping
from functools import lru_cache
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
    RequestedForm,
    create_dual_mode_error,
    create_dual_mode_response,
    display,
    present,
    requested_form,
)
from dualsql.feature import Feature
from dualsql.formats import json
from dualsql.http.router import COLLECTION, PATH, FeatureRoutes

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_FORMAT = "x-response-format"
_FORMAT_NAME = _FORMAT.encode()

# The settings of the server have bounded the answer already.
_BOUNDS = Bounds(values=100_000_000, characters=2**31)


class DualMode(Feature):
    """Dual-mode answers over REST; see docs/envelope.md."""

    def routes(self, server: ResultServer) -> FeatureRoutes:
        return FeatureRoutes(middleware=[Middleware(DualModeAnswers)], starts=[_vary])


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

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        is_asked = _FORMAT_NAME in dict(scope.get("headers", ())) and scope.get("method") != "HEAD"
        form = _form_of_answer(Headers(scope=scope)) if is_asked and scope["type"] == "http" else None
        if form is None:
            return self.app(scope, receive, send)
        started = time.perf_counter()
        start: Message | None = None  # of an answer that gets the form: its length is known when its body is
        body = bytearray()

        async def send_on(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                if _below(scope) is not None and _is_json(message):
                    start = message
                    return
            elif start is not None:
                body.extend(message.get("body", b""))
                if message.get("more_body", False):
                    return
                seconds = time.perf_counter() - started
                answer = _answer(json.loads(bytes(body)), start["status"], form, _operation(scope), seconds)
                if answer is not None:
                    body[:] = json.dumps(answer)
                    headers = MutableHeaders(raw=start["headers"])
                    headers["content-length"] = str(len(body))
                    del headers["etag"]
                await send(start)
                message["body"] = bytes(body)
            await send(message)

        return self.app(scope, receive, send_on)


def _vary(scope: Scope, start: Message) -> None:
    """Say that an answer depends on the headers that ask for a form."""
    below = _below(scope)
    if below == "" or (below is not None and _is_json(start)):
        headers = start["headers"]
        if b"vary" in dict(headers):
            MutableHeaders(raw=headers).add_vary_header(VARY)
        else:
            headers.append((b"vary", VARY.encode()))


def _below(scope: Scope) -> str | None:
    """The end of the path, such as "pin": empty for a result and the collection; None for other routes."""
    route = scope.get("route")
    return _end_of(route.path) if isinstance(route, Route) else None


@lru_cache(256)
def _end_of(path: str) -> str | None:
    return path.removeprefix(PATH).strip("/") if path == COLLECTION or path.startswith(PATH) else None


def _is_json(start: Message) -> bool:
    """Whether it is a whole answer in JSON. A stream in JSON has no length before its end."""
    headers = dict(start["headers"])
    return headers.get(b"content-type") == b"application/json" and b"content-length" in headers


def _operation(scope: Scope) -> str:
    """The name of the operation by its path and method; empty if it follows from the answer."""
    below = _below(scope) or ""
    return _OPERATIONS.get((below, scope["method"]), below)


def _form_of_answer(headers: Headers) -> RequestedForm | None:
    """The form of the answer. None without a format: X-Execution-Context alone asks for plain JSON."""
    formats = {value.strip().lower() for value in headers.getlist(_FORMAT)}
    return requested_form(headers) if formats in ({"json"}, {"markdown"}) else None


def _answer(
    plain: Any, status: int, form: RequestedForm, operation: str, seconds: float
) -> DualModeAnswer | None:
    """The answer in the form; None for a list, and for an error that is not dualsql's: features may send them."""
    if not isinstance(plain, dict):
        return None
    if status < 400:
        answer = create_dual_mode_response(
            plain,
            operation=operation
            or ("page" if "data" in plain else "list" if "resources" in plain else "describe"),
            shown=_display(plain, form),
            seconds=seconds,
            cached=plain.get("cached") is True,
            bounds=_BOUNDS,
        )
    elif {"message", "code", "hint", "details"} <= plain.keys():
        answer = create_dual_mode_error(
            plain["message"],
            plain["code"],
            operation=operation or "read",
            suggestion=plain["hint"] or None,
            details=plain["details"],
            seconds=seconds,
        )
    else:
        return None
    return present(answer, form)


def _display(plain: dict[str, Any], form: RequestedForm) -> Display:
    """The rows of a page, or the metadata of the resource."""
    if form.is_structured:
        return Display(type="markdown", content="")
    rows = plain.get("data")
    content = plain if rows is None else {"rows": rows, "total_count": plain.get("total_count")}
    return display(content, "markdown", bounds=_BOUNDS)
