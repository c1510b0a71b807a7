"""Sample and count a result; the rule: one round trip when the sample is everything."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import Executable

from dualsql.errors import CountExecutionError
from dualsql.execute.rows import Rows, fetch_rows
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing


class Sample(NamedTuple):
    """The first rows, and how many there are in all (None when nobody counted)."""

    rows: Rows
    total_count: int | None


async def fetch_sample(
    source: Source,
    sample: Executable,
    count: Executable | None,
    narrowing: Narrowing,
    *,
    size: int,
    timeout: timedelta,
    head_start: timedelta,
) -> Sample:
    """Run `sample`, which asks for one row more than `size`, and `count` only when that row is there.

    A sample that is not back after `head_start` gets the count beside it, on a second connection if one is
    free: for a query that sorts or groups, both cost the same and need not wait for each other.
    """
    sampling = asyncio.ensure_future(fetch_rows(source, sample, narrowing, timeout=timeout))
    counting: asyncio.Future[int] | None = None
    try:
        await asyncio.wait({sampling}, timeout=head_start.total_seconds())
        if count is not None and not sampling.done() and source.has_room():
            counting = asyncio.ensure_future(fetch_count(source, count, narrowing, timeout=timeout))
        rows = await sampling
        if len(rows) <= size:
            return Sample(rows, len(rows))
        if count is None:
            return Sample(rows[:size], None)
        total = await (counting or fetch_count(source, count, narrowing, timeout=timeout))
        return Sample(rows[:size], max(total, len(rows)))
    finally:
        await _abandon(sampling, counting)


async def fetch_count(source: Source, count: Executable, narrowing: Narrowing, *, timeout: timedelta) -> int:
    """The one number `count` selects."""
    rows = await fetch_rows(source, count, narrowing, timeout=timeout, failure=CountExecutionError)
    return int(rows[0][0])


async def _abandon(*running: asyncio.Future[Rows] | asyncio.Future[int] | None) -> None:
    unfinished = [future for future in running if future is not None]
    for future in unfinished:
        future.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
