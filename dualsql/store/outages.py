"""What the log says of work that fails again and again; the rule: changes at once, the rest ever more rarely."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from dualsql.incidents import cause_of

logger = logging.getLogger(__name__)

FIRST_REMINDER = timedelta(seconds=10)
LONGEST_SILENCE = timedelta(hours=1)


class Outage:
    """Counts the failures of one kind of work, and says when they begin, that they go on, and when they end.

    Args:
        work: what fails, as the subject of a sentence.
        clock: seconds that only ever grow.
    """

    def __init__(self, work: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._work = work
        self._clock = clock
        self._failures = 0
        self._begun = self._reminder = 0.0

    def failed(self, error: Exception) -> None:
        """Note a failure; the first is logged with its cause."""
        now = self._clock()
        self._failures += 1
        if self._failures == 1:
            self._begun, self._reminder = now, now + FIRST_REMINDER.total_seconds()
            cause = cause_of(error) or str(error)
            logger.warning("%s failed and is tried again until it succeeds: %s", self._work, cause)
        elif now >= self._reminder:
            logger.warning("%s has failed for %.0f seconds: %s", self._work, now - self._begun, error)
            silence = min(2 * (now - self._begun), LONGEST_SILENCE.total_seconds())
            self._reminder = now + silence

    def succeeded(self) -> None:
        """Note a success; the first after a failure is logged."""
        if self._failures:
            lasted = self._clock() - self._begun
            logger.warning("%s works again after %.0f seconds.", self._work, lasted)
            self._failures = 0
