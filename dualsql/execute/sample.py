"""Sample and count a result; the rule: one round trip when the sample is everything."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import Executable

from dualsql.columns import driver_names
from dualsql.execute.counting import Counter
from dualsql.execute.rows import Rows, fetch_rows
from dualsql.totals import CountAsked, Total


class Sample(NamedTuple):
    """Some rows, how many there are in all, and which these are, in the words that ask for them."""

    rows: Rows
    total: Total
    taken: str = "head"


async def fetch_sample(
    sample: Executable, counter: Counter, asked: CountAsked, *, size: int, head_start: timedelta
) -> Sample:
    """Run `sample`, which asks for one row more than `size`, and count only when that row is there.

    A sample that is not back after `head_start` gets the count beside it, on a second connection if one is
    free: for a query that sorts or groups, both cost the same and need not wait for each other.
    """
    described = driver_names(counter.shape.columns)
    source, timeout = counter.source, counter.settings.query_timeout
    sampling = asyncio.ensure_future(
        fetch_rows(source, sample, counter.narrowing, described=described, timeout=timeout)
    )
    counting: asyncio.Future[Total] | None = None
    try:
        await asyncio.wait({sampling}, timeout=head_start.total_seconds())
        if asked.way != "none" and not sampling.done() and source.has_room():
            counting = asyncio.ensure_future(counter.total(asked))
        rows = await sampling
        if len(rows) <= size:
            return Sample(rows, Total(len(rows), "exact"))
        total = await (counting or counter.total(asked))
        # One row more was seen, which "capped" means.
        return Sample(rows[:size], total.at_least(size))
    finally:
        await _abandon(sampling, counting)


async def _abandon(*running: asyncio.Future[Any] | None) -> None:
    unfinished = [future for future in running if future is not None]
    for future in unfinished:
        future.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
