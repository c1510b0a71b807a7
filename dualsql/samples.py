"""The feature Samples: the last rows of a result, random ones, or rows at even distances."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dualsql.databases.session import Sample
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
        """See `Feature`."""
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


def parse_sample(asked: Any) -> SampleMethod:
    """Parse the text.

    Raises:
        BadParameterError: the text is not valid.
    """
    if isinstance(asked, str):
        seeded = _SEEDED.fullmatch(asked)
        if seeded is not None:
            return SampleMethod("random", int(seeded[1]))
        for way in _SAMPLE_WAYS:
            if asked == way:
                return SampleMethod(way)
    raise BadParameterError(
        f"sample must not be {shown(asked, 80)}.",
        hint='Use "head", "tail", "random", "random:42" or "spread".',
        details={"name": "sample"},
    )


def sampler(asked: str) -> SampleTaker:
    """What reads the sample that an option `sample` asks for; raises BadParameterError for an unknown one."""
    return partial(_take_sample, parse_sample(asked))


async def _take_sample(asked: SampleMethod, view: View, size: int, count: CountMethod) -> Sample:
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
