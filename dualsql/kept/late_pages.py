"""Pages that take too long: with `Prefer: respond-async` (RFC 7240), the rows of the result are kept meanwhile.

The query of the result runs once more, in the background, as a refresh. The caller gets 202 and the metadata, waits
until `kept.rows_so_far` is gone, and repeats the request: any order of the kept rows is fast.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.errors import DualResponseError
from dualsql.http.problems import KINDS, RETRY_SOON, JSONAnswer
from dualsql_client.wire import ResourceDescription

if TYPE_CHECKING:
    from dualsql.server import ResultServer

Refresh = Callable[..., Awaitable[ResourceDescription]]

_PREFERENCE = "respond-async"
_PAGE = re.compile(r"/([^/]+)(?:/query|/sql)?")
_WAIT = re.compile(r'wait="?(\d{1,6})"?')
_LATE = KINDS["QUERY_TIMEOUT"].status
_LENGTH = frozenset({b"content-length", b"content-type", b"retry-after"})


class LatePages:
    """Answers pages that run into their time limit, or into the caller's, with 202 where that may keep the rows."""

    def __init__(self, app: ASGIApp, *, server: ResultServer, refresh: Refresh) -> None:
        self._app = app
        self._server = server
        self._refresh = refresh

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_asked = scope["type"] == "http" and scope["method"] in ("GET", "POST")
        preferences = _preferences(scope) if is_asked else frozenset()
        page = _PAGE.fullmatch(scope["path"].removeprefix(scope.get("root_path", ""))) if is_asked else None
        if page is None or _PREFERENCE not in preferences:
            await self._app(scope, receive, send)
            return
        wait = next((int(found[1]) for each in preferences if (found := _WAIT.fullmatch(each))), None)
        answer = _LateAnswer(receive, send, partial(self._begin, Request(scope), page[1]))
        watch = asyncio.create_task(answer.end_after(wait)) if wait is not None else None
        try:
            await self._app(scope, answer.receive, answer.send)
        finally:
            if watch is not None:
                watch.cancel()

    async def _begin(self, request: Request, resource_id: str) -> ResourceDescription | None:
        """The metadata of the result, whose rows are being read; None if that does not help or is refused."""
        server = self._server
        try:
            principal = await server.access.identify(request)
            metadata = await server.describe(resource_id, principal)
            if metadata["status"] == "pending" or metadata.get("kept", {}).get("kept"):
                return None
            return await self._refresh(resource_id, principal, wait=timedelta())
        except DualResponseError:
            return None


def _preferences(scope: Scope) -> frozenset[str]:
    """The preferences of a request, in lower case, without their parameters."""
    values = b",".join(value for name, value in scope["headers"] if name == b"prefer").decode("latin-1")
    return frozenset(each.partition(";")[0].strip().lower() for each in values.split(","))


class _LateAnswer:
    """What a request receives and sends, whose answer may be replaced by 202.

    Args:
        begin: begins to keep the rows; None if they are not going to be.
    """

    def __init__(
        self, receive: Receive, send: Send, begin: Callable[[], Awaitable[ResourceDescription | None]]
    ) -> None:
        self._receive = receive
        self._send = send
        self._begin = begin
        self._start: Message | None = None
        self._metadata: ResourceDescription | None = None
        self._is_ended = asyncio.Event()

    async def end_after(self, seconds: int) -> None:
        """End the request, which stops its query, if it takes longer and the rows are going to be kept."""
        await asyncio.sleep(seconds)
        self._metadata = await self._begin()
        if self._metadata is not None:
            self._is_ended.set()

    async def receive(self) -> Message:
        """The next message of the caller; that it has left, once the request has ended."""
        tasks = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._is_ended.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return await tasks[0] if tasks[0].done() else {"type": "http.disconnect"}
        finally:
            for task in tasks:
                task.cancel()

    async def send(self, message: Message) -> None:
        """Send a message of the answer, or 202 in place of the answer to a page that took too long."""
        if message["type"] == "http.response.start":
            is_ended = self._is_ended.is_set() and message["status"] >= 400
            if message["status"] == _LATE and not is_ended:
                self._metadata = self._metadata or await self._begin()
            if self._metadata is not None and (is_ended or message["status"] == _LATE):
                self._start = message
                return
        elif self._start is not None:
            if not message.get("more_body"):
                await self._accept(self._start, self._metadata)
            return
        await self._send(message)

    async def _accept(self, start: Message, metadata: ResourceDescription | None) -> None:
        # The other headers are those of all answers: of CORS, of privacy.
        headers = {"Preference-Applied": _PREFERENCE, **RETRY_SOON}
        answer = JSONAnswer(metadata, status_code=202, headers=headers)
        kept = [each for each in start["headers"] if each[0].lower() not in _LENGTH]
        await self._send({**start, "status": 202, "headers": [*kept, *answer.raw_headers]})
        await self._send({"type": "http.response.body", "body": answer.body})
