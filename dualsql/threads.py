"""Work in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What `work` returns. It ends before a cancellation is passed on: nothing that it uses is given back meanwhile."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **options))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


async def run_heavy(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What `work` returns, which makes many objects: in a thread, without a search for garbage.

    A search among a million new lists holds Python's lock for half a second.
    """
    return await in_thread(without_collector()(work), *arguments, **options)


@contextmanager
def without_collector() -> Iterator[None]:
    """Turn garbage collection off in the block, in all threads, and on again if it was on.

    Python searches new objects for cycles every few hundred of them. A batch has tens of thousands of objects and no
    cycles: the search takes up to two fifths of the time of a stream.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
