"""The priority of threads that run statements: lower than that of the event loop."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from subprocess import DEVNULL

_LOWER = 5
"""How much lower the priority of a thread that runs statements is: it gets a third of what others get."""


def run_after_event_loop() -> None:
    """Let the event loop go before the statements of the present thread.

    Ten long statements and an event loop get an eleventh of the CPUs each. So pages of others took up to 1.4 s beside
    them, and take up to 0.1 s with this (99 of 100; tests/drills/test_crowds.py).
    """
    if _may_set_priority():
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _LOWER)


@cache
def _may_set_priority() -> bool:
    """Whether a thread has a priority of its own, and a process that sets one is not killed for it."""
    if sys.platform != "linux":
        return False
    if "\nSeccomp:\t0\n" in Path("/proc/self/status").read_text():
        return True
    # A filter of system calls is in force, such as systemd's SystemCallFilter: a process tries.
    trial = "import os; os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0))"
    command = [sys.executable, "-S", "-E", "-c", trial]
    ended = subprocess.run(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, check=False)  # noqa: S603
    return ended.returncode == 0
