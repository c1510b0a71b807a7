"""When to try again; the rule: a bounded number of times, later each time, and never sooner than was asked."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a broken stream is gone on with.

    Attributes:
        times: attempts in a row that bring no new row; any row starts the count anew.
        first: the most that is waited before the first of them. The bound doubles each time, and what is waited is
            drawn below it, so that many clients of one server do not come back at once.
        longest: the most that is waited at all. A server that asks for more (Retry-After) is not asked again.
    """

    times: int = 5
    first: timedelta = timedelta(milliseconds=250)
    longest: timedelta = timedelta(seconds=30)

    def delay(self, failures: int, asked: float | None) -> float | None:
        """Seconds to wait after so many failures before this one; None when it was enough."""
        longest = self.longest.total_seconds()
        if failures >= self.times or (asked or 0.0) > longest:
            return None
        drawn = random.uniform(0, min(longest, self.first.total_seconds() * 2**failures))  # noqa: S311 - no secret
        return max(drawn, asked or 0.0)


def retry_after(written: str | None) -> float | None:
    """Seconds that a Retry-After header (RFC 9110, 10.2.3) asks for; None when it cannot be read."""
    if not written:
        return None
    if written.isascii() and written.isdigit():
        return float(written[:9])
    try:
        moment = parsedate_to_datetime(written)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
