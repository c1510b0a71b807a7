"""Work for a caller who is still there; the rule: when nobody waits for the rows, the database stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from dualsql.http.problems import CallerGoneError

T = TypeVar("T")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the caller hangs up.

    `receive` must have delivered the whole body, or a body that may be thrown away.

    Raises:
        CallerGoneError: the caller hung up before `work` was done.
    """
    working = asyncio.create_task(work)
    hanging_up = asyncio.create_task(_hang_up(receive))
    try:
        await asyncio.wait({working, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hanging_up.cancel()
        if not working.done():
            working.cancel()
            # The session must have ended its statement before this request counts as over.
            await asyncio.wait({working})
    if working.cancelled():
        raise CallerGoneError("The connection closed before the rows were read.")
    return working.result()


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
