"""The feature Samples: the last rows of a result, random ones, or rows at even distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualsql.databases.fetch import Sample
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.plan import sampling
from dualsql.resource import CountMethod, SampleMethod
from dualsql.results.view import View

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Samples(Feature):
    """Samples other than the first rows: the argument `sample` of `create_response`."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        """See `Feature`."""
        parts.creator.take_sample = take_sample


async def take_sample(view: View, size: int, count: CountMethod, asked: SampleMethod) -> Sample:
    """The sample rows and the total number of rows.

    Raises:
        NoTotalOrderError: the rows have no total order, so only the first ones can be sampled.
    """
    sample = await _others(view, size, count, asked)
    # All rows of a small result are shown in its own order.
    if sample.total.kind == "exact" and sample.total.rows == len(sample.rows):
        return sample if asked.way == "tail" else await view.sample(size, count)
    return sample._replace(taken=asked.label)


async def _others(view: View, size: int, count: CountMethod, asked: SampleMethod) -> Sample:
    ordered = view.ordered()
    if asked.way == "spread":
        return await _spread(view, size)
    if asked.way == "random":
        return await view.sampled(sampling.scattered(ordered, size + 1, asked.seed), size, count)
    sample = await view.sampled(sampling.tail(ordered, size + 1), size, count)
    return sample._replace(rows=sample.rows[::-1])


async def _spread(view: View, size: int) -> Sample:
    ordered = view.ordered()
    sampling.spread(ordered, ())  # raises before anything is counted
    total = await view.total(CountMethod("exact"))
    assert total.rows is not None
    select = sampling.spread(ordered, sampling.even_ranks(total.rows, size))
    return Sample(await view.answer(select, timeout=view.settings.query_timeout), total)
