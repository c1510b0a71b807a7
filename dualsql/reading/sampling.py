"""Take a sample of a view as it was asked for; the rule: what is everything is shown in its own order."""

from __future__ import annotations

from dualsql import plan
from dualsql.execute import Sample
from dualsql.reading.view import View
from dualsql.samples import SampleAsked
from dualsql.totals import CountAsked


async def take_sample(view: View, size: int, count: CountAsked, asked: SampleAsked) -> Sample:
    """Some of the rows, and how many there are in all.

    Raises:
        NoTotalOrderError: no other rows than the first can be told apart.
    """
    if asked.way == "head":
        return await view.sample(size, count)
    sample = await _others(view, size, count, asked)
    if sample.total.kind == "exact" and sample.total.rows == len(sample.rows):
        return sample if asked.way == "tail" else await view.sample(size, count)
    return sample._replace(taken=asked.label)


async def _others(view: View, size: int, count: CountAsked, asked: SampleAsked) -> Sample:
    ordered = view.ordered()
    if asked.way == "spread":
        return await _spread(view, size)
    if asked.way == "random":
        return await view.sampled(plan.scattered(ordered, size + 1, asked.seed), size, count)
    sample = await view.sampled(plan.tail(ordered, size + 1), size, count)
    return sample._replace(rows=sample.rows[::-1])


async def _spread(view: View, size: int) -> Sample:
    ordered = view.ordered()
    plan.spread(ordered, ())  # refused before anything is counted
    total = await view.total(CountAsked("exact"))
    assert total.rows is not None
    select = plan.spread(ordered, plan.even_ranks(total.rows, size))
    return Sample(await view.answer(select, timeout=view.settings.query_timeout), total)
