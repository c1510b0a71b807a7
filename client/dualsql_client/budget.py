"""The limits of one fetch: attempts, time without progress, total time, bytes."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from dualsql_client.conversions import read_http_date
from dualsql_client.errors import FetchError, NotConfiguredError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How requests are repeated after temporary failures, and how broken streams are resumed.

    The limits are those of a whole call, such as one `fetch_all`, with all its attempts and pages.

    Attributes:
        budget: how long a call continues without a new row. The default is longer than the restart of a server or of
            its database. Requests other than streams also end within the client's `timeout`, and requests to a server
            that has never answered end after 5 seconds.
        times: the most attempts after the first; 0 for none. An attempt that received 1 MiB of rows is not counted, so
            a long download may break more often.
        first: the longest wait before the first of them. It doubles each time, and the wait is random below it, so that
            many clients of one server do not return at once.
        longest: the limit of the doubling. A server may request more (Retry-After) within the budget.
        total: the most that a call waits for the server in all, also when rows arrive.

    Raises:
        NotConfiguredError: one of them is of another type, or negative.
    """

    budget: timedelta = timedelta(seconds=90)
    times: int = 100
    first: timedelta = timedelta(milliseconds=250)
    longest: timedelta = timedelta(seconds=15)
    total: timedelta = timedelta(hours=12)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, kind = getattr(self, each.name), type(each.default)
            if type(value) is not kind or value < kind():
                example = "100" if kind is int else "timedelta(seconds=90)"
                raise NotConfiguredError(
                    f"Retry({each.name}={str(value)[:80]}) is no {kind.__name__} of at least 0.",
                    hint=f"Such as Retry({each.name}={example}).",
                )


_FREE_BYTES = 1024 * 1024
"""An attempt that received so many is not counted: `maximum_stream_bytes` ends the call before such attempts do."""

_SLOW_BYTES = 64 * 1024
"""So many bytes of an incomplete row count as progress: a large row may take longer than the budget."""


class Budget:
    """The attempts, time and bytes that remain for one call.

    Args:
        maximum_bytes: of all answers together, after decompression.

    Attributes:
        rows, bytes, failures: so far.
    """

    def __init__(
        self, retry: Retry, *, maximum_bytes: float = math.inf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._retry, self._maximum_bytes, self._now = retry, maximum_bytes, now
        self.rows = self.bytes = self.failures = 0
        self._started_at = now()
        self._stalled_at: float | None = None
        self._counted = self._doublings = self._bytes_at_failure = self._bytes_at_progress = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time that the application takes with the rows."""
        began_at = self._now()
        try:
            yield
        finally:
            seconds = self._now() - began_at
            self._started_at += seconds
            if self._stalled_at is not None:
                self._stalled_at += seconds

    def spend(self, size: int) -> None:
        """Count bytes of an answer.

        Raises:
            FetchError: there were too many.
        """
        self.bytes += size
        if self.bytes > self._maximum_bytes:
            raise FetchError(
                f"The pages of the result are longer than {self._maximum_bytes:,} bytes.",
                status=200,
                hint="Ask for fewer rows or columns, or raise the client's maximum_stream_bytes.",
                details=self._so_far(),
            )

    def progress(self, rows: int, *, is_partial: bool = False) -> None:
        """Count rows that arrived.

        Args:
            is_partial: the bytes are part of a row, or of a file whose rows the client does not read.

        Raises:
            FetchError: there was too little progress for too long, or the call takes too long.
        """
        self.rows += rows
        if rows or (is_partial and self.bytes - self._bytes_at_progress >= _SLOW_BYTES):
            self._stalled_at, self._doublings, self._bytes_at_progress = None, 0, self.bytes
        now = self._now()
        if not rows and self._stalled_at is None:
            self._stalled_at = now
        if self._remaining(now) <= 0:
            raise self.annotated(
                FetchError(
                    "The answer takes longer than the client waits.",
                    status=200,
                    hint="Raise the budget or the total of the client's Retry.",
                )
            )

    def page(self, rows: int, total: int | None = None) -> None:
        """Count a page that announces another. A page without new rows counts as an attempt.

        Args:
            total: rows that the server has counted; a page beyond them has no new rows.

        Raises:
            FetchError: see `progress`; or there were too many pages without new rows.
        """
        is_new = rows > 0 and (total is None or self.rows < total)
        self.progress(rows)
        if not is_new and self.delay() is None:
            raise self.annotated(
                FetchError("The server announces more pages, and they bring no rows.", status=200)
            )

    def delay(self, requested: float | None = None, *, most: float = math.inf) -> float | None:
        """Seconds to wait after one more failure; None when there were enough.

        Args:
            requested: seconds to wait according to the server.
            most: another limit of the seconds without progress.
        """
        now = self._now()
        if self._stalled_at is None:
            self._stalled_at = now
        self._counted += self.bytes - self._bytes_at_failure < _FREE_BYTES
        self._bytes_at_failure = self.bytes
        self.failures += 1
        remaining = self._remaining(now, most)
        if self._counted > self._retry.times or remaining <= 0 or (requested or 0.0) > remaining:
            return None
        # A larger power of 2 may overflow, and has long passed `longest`.
        longest = self._retry.first.total_seconds() * 2.0 ** min(self._doublings, 40)
        wait = random.uniform(0, min(self._retry.longest.total_seconds(), longest))  # noqa: S311 - no secret
        self._doublings += 1
        # The last attempt begins when the budget ends, not before.
        return max(min(wait, remaining), requested or 0.0)

    def annotated(self, error: FetchError) -> FetchError:
        """The error that ends the call, with the rows, bytes, attempts and seconds so far."""
        if self.failures > 1 or self.bytes:
            so_far = self._so_far()
            error.details |= so_far
            error.message += (
                f" Given up after {self.rows:,} rows, {self.bytes:,} bytes, {self.failures:,} failed attempts and "
                f"{so_far['seconds']:.1f} seconds."
            )
        return error

    def _remaining(self, now: float, most: float = math.inf) -> float:
        """Seconds until the call ends, if no new row arrives."""
        idle = 0.0 if self._stalled_at is None else now - self._stalled_at
        total = self._retry.total.total_seconds() - (now - self._started_at)
        return min(min(self._retry.budget.total_seconds(), most) - idle, total)

    def _so_far(self) -> dict[str, float]:
        seconds = round(self._now() - self._started_at, 3)
        return {"rows": self.rows, "bytes": self.bytes, "attempts": self.failures, "seconds": seconds}


def retry_after(text: str | None) -> float | None:
    """The seconds of a Retry-After header (RFC 9110, 10.2.3); None when it cannot be read."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    moment = read_http_date(text)
    return None if moment is None else max(0.0, (moment - datetime.now(UTC)).total_seconds())
