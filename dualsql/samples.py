"""The feature Samples: the last rows of a result, random ones, or rows at even distances."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dualsql.databases.fetch import Sample
from dualsql.errors import BadParameterError, shown
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.plan import sampling
from dualsql.resource import CountMethod
from dualsql.results.create import SampleTaker
from dualsql.results.view import View

if TYPE_CHECKING:
    from dualsql.server import ResultServer


class Samples(Feature):
    """Samples other than the first rows: the argument `sample` of `create_response`."""

    def attach(self, server: ResultServer, parts: Parts) -> None:
        parts.creator.sampler = sampler


SampleWay = Literal["head", "tail", "random", "spread"]
"""Which rows a sample has: the first, the last, some by chance, or some at even distances."""

_SAMPLE_WAYS: tuple[SampleWay, ...] = ("head", "tail", "random", "spread")
_SEEDED = re.compile(r"random:([0-9]{1,9})", re.ASCII)


class SampleMethod(NamedTuple):
    """Which rows a sample has, parsed; `seed` belongs to "random"."""

    way: SampleWay
    seed: int = 0

    @property
    def label(self) -> str:
        """The value of `sample` that gives the same rows again."""
        return f"random:{self.seed}" if self.way == "random" else self.way


def parse_sample(text: Any) -> SampleMethod:
    """Parse the text.

    Raises:
        BadParameterError: the text is not valid.
    """
    if isinstance(text, str):
        seeded = _SEEDED.fullmatch(text)
        if seeded is not None:
            return SampleMethod("random", int(seeded[1]))
        for way in _SAMPLE_WAYS:
            if text == way:
                return SampleMethod(way)
    raise BadParameterError(
        f"sample must not be {shown(text, 80)}.",
        hint='Use "head", "tail", "random", "random:42" or "spread".',
        details={"name": "sample"},
    )


def sampler(text: str) -> SampleTaker:
    """The function that reads the sample of an option `sample`; raises BadParameterError for an unknown one."""
    return partial(_take_sample, parse_sample(text))


async def _take_sample(method: SampleMethod, view: View, size: int, count: CountMethod) -> Sample:
    """The sample rows and the total number of rows.

    Raises:
        NoTotalOrderError: the rows have no total order, so only the first ones can be sampled.
    """
    sample = await _others(view, size, count, method)
    # All rows of a small result are shown in its own order.
    if sample.total.kind == "exact" and sample.total.rows == len(sample.rows):
        return sample if method.way == "tail" else await view.sample(size, count)
    return sample._replace(method=method.label)


async def _others(view: View, size: int, count: CountMethod, method: SampleMethod) -> Sample:
    ordered = view.ordered()
    if method.way == "spread":
        return await _spread(view, size)
    if method.way == "random":
        return await view.sampled(sampling.scattered(ordered, size + 1, method.seed), size, count)
    sample = await view.sampled(sampling.tail(ordered, size + 1), size, count)
    return sample._replace(rows=sample.rows[::-1])


async def _spread(view: View, size: int) -> Sample:
    ordered = view.ordered()
    sampling.spread(ordered, ())  # raises before anything is counted
    total = await view.total(CountMethod("exact"))
    assert total.rows is not None
    select = sampling.spread(ordered, sampling.even_ranks(total.rows, size))
    return Sample(await view.answer(select), total)
