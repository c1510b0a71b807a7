"""Work on callers' SQL texts, which may take 75 ms to read, to store or to compile: in a worker thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import TypeVar

from dualsql.databases.slots import TEXT_THREADS, QueryLimits
from dualsql.threads import shielded

T = TypeVar("T")


async def compute_in_thread(limits: QueryLimits, compute: Callable[[], T]) -> T:
    """Call `compute` in a worker thread: the event loop answers other requests meanwhile. Returns its result.

    A thread cannot be stopped: the slot of a caller that is cancelled is free when `compute` ends, and the limits of
    texts bound that.

    Raises:
        TooManyQueriesError: too many wait already, or no thread became free in `Settings.queue_timeout`.
    """
    caller = await limits.texts.take()
    try:
        running = asyncio.wrap_future(_threads().submit(copy_context().run, _without_stop_iteration, compute))
    except BaseException:  # the interpreter ends
        limits.texts.give_back(caller)
        raise
    running.add_done_callback(lambda _: limits.texts.give_back(caller))
    return await shielded(running)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(TEXT_THREADS, "dualsql-text")


def _without_stop_iteration(compute: Callable[[], T]) -> T:
    try:
        return compute()
    except StopIteration as error:
        # Raised by a hook. A future refuses it, and its caller would wait for ever.
        raise RuntimeError("StopIteration") from error
