"""Work for a caller who is still there; the rule: when nobody waits for the rows, the database stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from starlette.types import Receive

from dualsql.http.problems import CallerGoneError

T = TypeVar("T")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the caller hangs up.

    `receive` must have delivered the whole body, or a body that may be thrown away.

    Raises:
        CallerGoneError: the caller hung up before `work` was done.
    """
    with _Watch(receive) as watch:
        try:
            return await work
        except asyncio.CancelledError:
            if watch.called_off():
                raise CallerGoneError("The connection closed before the rows were read.") from None
            raise


class _Watch:
    """Cancels the task that makes it when the caller hangs up before the end of the block."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task: asyncio.Task[Any] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._has_cancelled = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        # Runs when the work waits for something: what is done at once has nobody who could leave.
        self._beginning = asyncio.get_running_loop().call_soon(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        self._task = None
        self._beginning.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def called_off(self) -> bool:
        """Whether it was this watch that cancelled the work, and nobody else did."""
        return self._has_cancelled and self._task is not None and self._task.uncancel() == 0

    def _begin(self) -> None:
        self._watching = asyncio.create_task(_hang_up(self._receive))
        self._watching.add_done_callback(self._cancel)

    def _cancel(self, watching: asyncio.Task[None]) -> None:
        if watching.cancelled() or self._task is None:
            return
        watching.exception()  # a connection that fails is as good as one that is gone
        if not self._task.cancelling():  # who unwinds already must not be disturbed
            self._has_cancelled = True
            self._task.cancel()


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
