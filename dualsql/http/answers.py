"""How every answer looks on the wire; the rule: exact JSON, and headers that keep a capability private."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.formats import json

PRIVATE_HEADERS = {
    # The address is the key to the rows: no cache may keep them and no other site may learn it.
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class JSONAnswer(Response):
    """A value as JSON, whose numbers, dates and bytes lose nothing."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content)


class PrivateHeaders:
    """Put `PRIVATE_HEADERS` on whatever the application inside answers, refusals included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_privately(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(PRIVATE_HEADERS)
            await send(message)

        await self.app(scope, receive, send_privately)
