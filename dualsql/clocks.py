"""A time limit for SQLite, which knows none; the rule: it stops a statement in the statement's own thread.

SQLite calls its progress handler every so many instructions of its virtual machine, and stops when told to.
"""

from __future__ import annotations

import math
import time
from typing import Any

# A call takes the GIL: at this pace, some hundred times a second.
_INSTRUCTIONS = 100_000

BLINK = 0.005
"""Seconds that an event loop may wait for SQLite itself."""

# Less than a millisecond.
_INSTRUCTIONS_IN_A_BLINK = 10_000


class Clock:
    """The instant a connection's statement has to end at, on the clock of `time.monotonic`."""

    __slots__ = ("ends_at",)

    def __init__(self, ends_at: float = math.inf) -> None:
        self.ends_at = ends_at

    def is_over(self) -> bool:
        """SQLite's progress handler: true stops the statement."""
        return time.monotonic() > self.ends_at

    def install(self, driver: Any, *, for_a_blink: bool = False) -> Any:
        """Make `driver`, sqlite3's connection or aiosqlite's, look at this clock. The latter's must be awaited.

        Args:
            for_a_blink: look so often that a statement can be stopped within `BLINK`.
        """
        every = _INSTRUCTIONS_IN_A_BLINK if for_a_blink else _INSTRUCTIONS
        return driver.set_progress_handler(self.is_over, every)
