"""CPU time on a quiet core. A core that shares its caches and its clock takes longer for all code."""

from __future__ import annotations

from time import thread_time

_LEAST = 0.0053
"""Seconds that the reference takes at least: 0.0066 on the quiet core on which the limits were chosen. On another kind
of core, it took 1.7 times as long, and texts 2.1 times."""


def on_a_quiet_core(seconds: float) -> float:
    """What would take so long there, by what a fixed piece of work takes now."""
    begun = thread_time()
    sorted(str(number)[::-1] for number in range(36_000))
    return seconds * min(1, _LEAST / (thread_time() - begun))
