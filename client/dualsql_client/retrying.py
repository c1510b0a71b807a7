"""When to try again: a bounded number of times and for a bounded time, later each time, never sooner than was asked."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dualsql_client.instants import read_http_date


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How requests that failed for a reason that may pass are repeated, and broken streams are resumed.

    Attributes:
        budget: how long after a failure another attempt is made. Any new row of a stream starts it anew. The default
            outlasts the restart of a server or of its database. Requests for less than a stream also stay within the
            client's `timeout`, and a server that has never answered is given up after 5 seconds.
        times: the most attempts in a row that bring no new row; 0 for none.
        first: the longest wait before the first of them. It doubles each time, and the actual wait is drawn below it,
            so that many clients of one server do not come back at once.
        longest: what the doubling stops at. A server may ask for more (Retry-After), as long as the budget allows it.
    """

    budget: timedelta = timedelta(seconds=90)
    times: int = 100
    first: timedelta = timedelta(milliseconds=250)
    longest: timedelta = timedelta(seconds=15)


class Attempts:
    """Failures in a row, and how long to wait after each."""

    def __init__(self, retry: Retry, *, now: Callable[[], float] = time.monotonic) -> None:
        self._retry = retry
        self._now = now
        self._failures = 0
        self._began_at = 0.0

    def restart(self) -> None:
        """Forget the failures: something was achieved."""
        self._failures = 0

    def delay(self, asked: float | None = None, *, most: float = math.inf) -> float | None:
        """Seconds to wait after one more failure; None when there were enough.

        Args:
            asked: seconds that the server wants to be left alone.
            most: seconds that bound the budget further.
        """
        now = self._now()
        if not self._failures:
            self._began_at = now
        left = min(self._retry.budget.total_seconds(), most) - (now - self._began_at)
        if self._failures >= self._retry.times or left <= 0 or (asked or 0.0) > left:
            return None
        # Beyond 2**40 the doubling has long stopped at `longest`.
        doubled = self._retry.first.total_seconds() * 2.0 ** min(self._failures, 40)
        drawn = random.uniform(0, min(self._retry.longest.total_seconds(), doubled))  # noqa: S311 - no secret
        self._failures += 1
        # The last attempt is made when the budget ends, not before.
        return max(min(drawn, left), asked or 0.0)


def retry_after(written: str | None) -> float | None:
    """Seconds that a Retry-After header (RFC 9110, 10.2.3) asks for; None when it cannot be read."""
    if not written:
        return None
    if written.isascii() and written.isdigit():
        return float(written[:9])
    moment = read_http_date(written)
    return None if moment is None else max(0.0, (moment - datetime.now(UTC)).total_seconds())
