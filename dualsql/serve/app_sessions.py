"""Which clients of the stateless MCP endpoint have declared MCP Apps.

Before protocol 2026-07-28 a client says so in `initialize` alone. The endpoint keeps no session, so the id of the
session that it gives to such a client says it in each later request. It gives no right.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.formats import json
from dualsql.mcp.listing import APPS_SESSION, SESSION_HEADER, UI_EXTENSION

_VERSION_HEADER = "mcp-protocol-version"
"""It is in every request but `initialize` (since 2025-06-18)."""


class AppSessions:
    """Names the session of a client that declares MCP Apps.

    Args:
        most: bytes of a request; a longer one is passed on unread.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to the answer of such an `initialize`."""
        headers = Headers(scope=scope)
        if _VERSION_HEADER in headers or SESSION_HEADER in headers:
            await self._app(scope, receive, send)
            return
        messages = [await receive()]
        body = messages[0].get("body", b"")
        while messages[-1].get("more_body") and len(body) <= self._most:
            messages.append(await receive())
            body += messages[-1].get("body", b"")
        declares = _declares_apps(body)

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        async def send_with_session(message: Message) -> None:
            if declares and message["type"] == "http.response.start" and message["status"] == 200:
                MutableHeaders(scope=message)[SESSION_HEADER] = APPS_SESSION
            await send(message)

        await self._app(scope, replay, send_with_session)


def _declares_apps(body: bytes) -> bool:
    """Whether this is an `initialize` of a client with MCP Apps."""
    if b'"initialize"' not in body or UI_EXTENSION.encode() not in body:
        return False
    try:
        message = json.loads(body)
        return (
            message["method"] == "initialize"
            and UI_EXTENSION in message["params"]["capabilities"]["extensions"]
        )
    except (ValueError, KeyError, TypeError):
        return False
