"""Medians of runs taken in turns. What is compared is measured alternately, in one go.

A shared machine is slow for seconds at a time. Two candidates measured one after the other would each meet
different weather; taking turns, they share it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from statistics import median
from time import perf_counter

Work = Callable[[], Awaitable[object]]

LEAST_RUNS, MOST_RUNS = 5, 200
BUDGET = 2.0
"""Seconds one candidate may take: what is quick runs more often than five times."""


async def medians(candidates: Mapping[str, Work]) -> dict[str, float]:
    """The median seconds of each candidate, after one run that does not count."""
    taken = await _in_turns(candidates, BUDGET)
    return {name: median(seconds) for name, seconds in taken.items()}


async def fastest(candidates: Mapping[str, Work], budget: float = BUDGET / 4) -> dict[str, float]:
    """The fewest seconds of each candidate: what is left when others on the machine are not counted."""
    taken = await _in_turns(candidates, budget)
    return {name: min(seconds) for name, seconds in taken.items()}


async def _in_turns(candidates: Mapping[str, Work], budget: float) -> dict[str, list[float]]:
    slowest = max([await _seconds(work) for work in candidates.values()])
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(max(LEAST_RUNS, min(MOST_RUNS, int(budget / slowest)))):
        for name, work in candidates.items():
            taken[name].append(await _seconds(work))
    return taken


async def _seconds(work: Work) -> float:
    begun = perf_counter()
    await work()
    return perf_counter() - begun
