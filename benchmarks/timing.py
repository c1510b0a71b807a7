"""Medians of alternating rounds; the rule: what is compared is measured in turns, in one run.

A shared machine is slow for seconds at a time. Two candidates measured one after the other would each meet
different weather; taking turns, they share it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from statistics import median
from time import perf_counter

Work = Callable[[], Awaitable[object]]

ROUNDS = 5
BUDGET = 0.25
"""Seconds one candidate may take in one round: what is quick is repeated and averaged."""


async def medians(candidates: Mapping[str, Work], rounds: int = ROUNDS) -> dict[str, float]:
    """The median seconds of each candidate, after one round that does not count."""
    repeats = {name: _repeats(await _seconds(work, 1)) for name, work in candidates.items()}
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, work in candidates.items():
            taken[name].append(await _seconds(work, repeats[name]))
    return {name: median(seconds) for name, seconds in taken.items()}


def _repeats(seconds: float) -> int:
    return max(1, min(20, int(BUDGET / seconds)))


async def _seconds(work: Work, repeats: int) -> float:
    begun = perf_counter()
    for _ in range(repeats):
        await work()
    return (perf_counter() - begun) / repeats
