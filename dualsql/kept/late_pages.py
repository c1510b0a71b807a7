"""Pages that take too long: with `Prefer: respond-async` (RFC 7240), the rows of the result are kept meanwhile.

The query of the result runs once more, in the background, as a refresh. The caller gets 202 and the metadata, waits
until `kept.rows_so_far` is gone, and repeats the request: any order of the kept rows is fast.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dualsql.errors import DualResponseError, QueryTimeoutError
from dualsql.http.problems import RETRY_SOON, JSONAnswer, request_name
from dualsql.log import log_unforeseen
from dualsql_client.wire import ResourceDescription

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_log = logging.getLogger(__name__)

Refresh = Callable[..., Awaitable[ResourceDescription]]

METHODS = ("GET", "POST")
RESPOND_ASYNC = "respond-async"
ACCEPTED = 202
_WAIT = re.compile(r'wait\s*=\s*"?([0-9]{1,6})"?')


class LatePages:
    """Answers requests that run into their time limit, or into the caller's, with 202 where that keeps the rows.

    Args:
        app: the routes of results, for requests that have the header.
        other: the path of the route whose requests it leaves alone.
    """

    def __init__(self, app: ASGIApp, *, server: ResultServer, refresh: Refresh, other: str) -> None:
        self._app = app
        self._server = server
        self._refresh = refresh
        self._other = other

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope.get("method") in METHODS:
            preferences = _preferences(scope)
            if RESPOND_ASYNC in preferences:
                return self._answer(scope, receive, send, _wait_of(preferences))
        return self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, wait: int | None) -> None:
        is_begun = False

        async def send_on(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        answering = asyncio.ensure_future(self._app(scope, receive, send_on))
        metadata: ResourceDescription | None = None
        try:
            await asyncio.wait({answering}, timeout=wait)
            if not is_begun and not answering.done():
                metadata = await self._begin(scope)
            if metadata is None or is_begun or answering.done():
                try:
                    return await answering
                except QueryTimeoutError:
                    metadata = metadata or (None if is_begun else await self._begin(scope))
                    if metadata is None or is_begun:
                        raise
            # Before the query has ended: to stop it may take a while.
            answering.cancel()
            headers = {"Preference-Applied": RESPOND_ASYNC, **RETRY_SOON}
            await JSONAnswer(metadata, ACCEPTED, headers)(scope, receive, send)
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    async def _begin(self, scope: Scope) -> ResourceDescription | None:
        """The metadata of the result, whose rows are being read; None if that does not help or is refused."""
        request = Request(scope)
        # The router has chosen the route by now.
        resource_id = request.path_params.get("resource_id")
        if resource_id is None or scope["route"].path == self._other:
            return None
        try:
            principal = await self._server.access.identify(request)
            metadata = await self._server.describe(resource_id, principal)
            if metadata["status"] == "pending" or metadata.get("kept", {}).get("kept"):
                return None
            return await self._refresh(resource_id, principal, wait=timedelta())
        except (DualResponseError, HTTPException):
            return None
        except Exception as error:  # noqa: BLE001 - such as of an application's `authenticate` that reads the body
            log_unforeseen(
                _log, error, "an unforeseen error in keeping the rows of %s", request_name(request)
            )
            return None


def _preferences(scope: Scope) -> Sequence[str]:
    """The preferences of a request, in lower case, without their parameters."""
    values = b",".join(value for name, value in scope["headers"] if name == b"prefer").decode("latin-1")
    return [each.partition(";")[0].strip().lower() for each in values.split(",")]


def _wait_of(preferences: Sequence[str]) -> int | None:
    """The seconds of the first preference of that name, which counts (RFC 7240, section 2)."""
    text = next((each for each in preferences if re.match(r"wait\b", each)), "")
    match = _WAIT.fullmatch(text)
    return None if match is None else int(match[1])
