"""Lifetimes of resources, by the server's clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from dualsql_client.conversions import read_http_date
from dualsql_client.errors import DualResponseClientError

_UNDETECTABLE = timedelta(seconds=2)
"""A Date header has whole seconds and takes time to arrive: a smaller difference is no skew."""

_INCREDIBLE = timedelta(days=3_650)
"""A larger difference is an error in the header, and a sum with it may be no datetime."""

_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(seconds=0.1), timedelta(days=1)


class ServerClock:
    """The server's clock, estimated from its answers."""

    def __init__(self) -> None:
        self._skew = timedelta()

    def now(self) -> datetime:
        """This computer's time, corrected by the Date of the server's last answer; aware, UTC."""
        return datetime.now(UTC) + self._skew

    def note(self, date: str | None, age: str | None = None) -> None:
        """Read an answer's Date header (RFC 9110, 6.6.1); that of a cached answer (Age) is ignored."""
        server_time = None if age else read_http_date(date)
        if server_time is None:
            return
        skew = server_time - datetime.now(UTC)
        if abs(skew) < _INCREDIBLE:
            self._skew = skew if abs(skew) > _UNDETECTABLE else timedelta()


@asynccontextmanager
async def kept_alive(
    touch: Callable[[], Awaitable[object]],
    time_left: Callable[[], timedelta | None],
) -> AsyncIterator[None]:
    """Call `touch` whenever half of a resource's lifetime is over, as long as that extends the lifetime.

    If it does not (the lifetimes of the server do not slide, or have reached their maximum), it is called once.
    """
    task = asyncio.create_task(_touch_repeatedly(touch, time_left))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _touch_repeatedly(
    touch: Callable[[], Awaitable[object]], time_left: Callable[[], timedelta | None]
) -> None:
    while (lifetime := time_left()) is not None and lifetime > timedelta():
        wait = min(max(lifetime / 2, _SHORTEST_WAIT), _LONGEST_WAIT)
        await asyncio.sleep(wait.total_seconds())
        expected = lifetime - wait
        try:
            await touch()
        except DualResponseClientError:
            return  # the application's next request raises the same error
        after = time_left()
        if after is None or after <= expected:
            return
