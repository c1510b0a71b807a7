"""Medians of runs taken in turns, and their spread. What is compared is measured alternately, in one go.

A shared machine is slow for seconds at a time. Two candidates measured one after the other would each meet
different weather; taking turns, they share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Work = Callable[[], Awaitable[object]]

LEAST_RUNS, MOST_RUNS = 5, 200
BUDGET = 2.0
"""Seconds one candidate may take: what is quick runs more often than five times."""

_BEHIND = 0.1
"""Seconds to wait at most for what a candidate leaves behind."""


@dataclass(frozen=True)
class Rounds:
    """What one figure was made of.

    Attributes:
        what: the figure, for people.
        low, high: the first and the third quartile of more than five rounds, else the lowest and the highest.
    """

    what: str
    rounds: int
    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """From `low` to `high`, as a part of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


_seen: list[Rounds] = []


@contextmanager
def recording() -> Iterator[list[Rounds]]:
    """The rounds of all figures that are measured in the block."""
    _seen.clear()
    yield _seen


def median_of(what: str, values: Sequence[float]) -> float:
    """The median of the rounds, whose spread is kept beside it."""
    ordered = sorted(values)
    cut = len(ordered) // 4 if len(ordered) > LEAST_RUNS else 0
    rounds = Rounds(what, len(ordered), median(ordered), ordered[cut], ordered[-1 - cut])
    _seen.append(rounds)
    return rounds.median


async def medians(candidates: Mapping[str, Work], of: str, budget: float = BUDGET) -> dict[str, float]:
    """The median seconds of each candidate, after one run that does not count.

    Args:
        of: what they are compared at, for people.
    """
    times = await _in_turns(candidates, budget)
    return {name: median_of(f"{of}: {name}, s", seconds) for name, seconds in times.items()}


async def fastest(candidates: Mapping[str, Work], of: str, budget: float = BUDGET / 4) -> dict[str, float]:
    """The fewest seconds of each candidate: what is left when others on the machine are not counted.

    Args:
        of: as of `medians`; empty to keep no rounds, where there are hundreds of statements.
    """
    times = await _in_turns(candidates, budget)
    for name, seconds in times.items() if of else ():
        median_of(f"{of}: {name}, s", seconds)
    return {name: min(seconds) for name, seconds in times.items()}


async def _in_turns(candidates: Mapping[str, Work], budget: float) -> dict[str, list[float]]:
    slowest = max([await _seconds(work) for work in candidates.values()])
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(max(LEAST_RUNS, min(MOST_RUNS, int(budget / slowest)))):
        for name, work in candidates.items():
            times[name].append(await _seconds(work))
    return times


async def _seconds(work: Work) -> float:
    """How long `work` takes; what it leaves behind, such as the end of a session, is not counted to the next."""
    running, start = asyncio.all_tasks(), perf_counter()
    await work()
    seconds = perf_counter() - start
    if behind := asyncio.all_tasks() - running:
        await asyncio.wait(behind, timeout=_BEHIND)
    return seconds
