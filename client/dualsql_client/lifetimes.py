"""How long a resource lives, by the server's clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from dualsql_client.conversions import read_http_date
from dualsql_client.errors import DualResponseClientError

_UNDETECTABLE = timedelta(seconds=2)
"""A Date header has whole seconds and was on its way for a while: less is no skew."""

_INCREDIBLE = timedelta(days=3_650)
"""Nobody's clock is that wrong, and sums with it may leave the calendar."""

_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(seconds=0.1), timedelta(days=1)


class ServerClock:
    """The server's clock."""

    def __init__(self) -> None:
        self._skew = timedelta()

    def now(self) -> datetime:
        """This computer's time, corrected by what the server's last answer said; aware, UTC."""
        return datetime.now(UTC) + self._skew

    def note(self, date: str | None, age: str | None = None) -> None:
        """Read an answer's Date header (RFC 9110, 6.6.1); one that a cache kept (Age) says nothing about now."""
        said = None if age else read_http_date(date)
        if said is None:
            return
        skew = said - datetime.now(UTC)
        if abs(skew) < _INCREDIBLE:
            self._skew = skew if abs(skew) > _UNDETECTABLE else timedelta()


@asynccontextmanager
async def kept_alive(
    touch: Callable[[], Awaitable[object]],
    time_left: Callable[[], timedelta | None],
) -> AsyncIterator[None]:
    """Read one row of a resource whenever half of its lifetime is over, as long as that extends the lifetime.

    Where it does not (the server's lifetimes do not slide, or the longest is reached), it is read once and no more.
    """
    task = asyncio.create_task(_touching(touch, time_left))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _touching(
    touch: Callable[[], Awaitable[object]], time_left: Callable[[], timedelta | None]
) -> None:
    while (left := time_left()) is not None and left > timedelta():
        wait = min(max(left / 2, _SHORTEST_WAIT), _LONGEST_WAIT)
        await asyncio.sleep(wait.total_seconds())
        expected = left - wait
        try:
            await touch()
        except DualResponseClientError:
            return  # who reads the rows will be told
        after = time_left()
        if after is None or after <= expected:
            return
