"""Waiting for a query that still runs; the rule: ever more rarely, never sooner than was asked, and not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from dualsql_client.errors import FetchError, FetchTimeoutError
from dualsql_client.retrying import Attempts
from dualsql_client.transport import Transport

_FIRST, _LONGEST = 0.1, 5.0
"""Seconds between the first two questions, and the most that the client waits by itself."""

_LONGEST_ASKED = 60.0
"""The most that a server may ask to be left alone."""


async def settled(transport: Transport, uri: str, seconds: float | None) -> Any:
    """What the server says about a resource once it is no longer pending.

    Raises:
        FetchTimeoutError: it still is after so many seconds.
        FetchError: no usable answer came, again and again.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _settled(transport, uri)
    except TimeoutError as error:
        raise FetchTimeoutError(
            f"The query still runs after {seconds:g} seconds.", hint="Wait again, or fetch the rows later."
        ) from error


async def _settled(transport: Transport, uri: str) -> Any:
    pause, attempts = _FIRST, Attempts(transport.retry)
    while True:
        try:
            answer, asked = await transport.describe(uri)
        except FetchError as error:
            asked = error.retry_after
            if not error.may_pass or attempts.delay(min(asked or 0.0, _LONGEST_ASKED)) is None:
                raise
        else:
            attempts.restart()
            if not isinstance(answer, dict) or answer.get("status") != "pending":
                return answer
        await asyncio.sleep(max(pause, min(asked or 0.0, _LONGEST_ASKED)))
        pause = min(2 * pause, _LONGEST)
