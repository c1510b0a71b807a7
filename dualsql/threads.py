"""Work in a thread beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def shielded(future: asyncio.Future[T]) -> T:
    """The result of a future that goes on without a caller who leaves. asyncio.shield() logs its error, from 3.14."""
    future.add_done_callback(lambda each: each.cancelled() or each.exception())
    await asyncio.wait({future})
    return future.result()


async def finished(future: asyncio.Future[T]) -> T:
    """The result of a future, which ends before a cancellation is passed on."""
    try:
        return await shielded(future)
    finally:
        await asyncio.wait({future})


async def in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What `work` returns. It ends before a cancellation is passed on: nothing that it uses is given back meanwhile."""
    return await finished(asyncio.ensure_future(asyncio.to_thread(work, *arguments, **options)))
