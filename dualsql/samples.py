"""Which rows a sample shows; the rule: whoever reads it can tell which, and take the same ones again."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from dualsql.errors import BadParameterError
from dualsql_client.conversions import shown

SampleOption = Literal["head", "tail", "random", "spread"] | str
"""The first rows, the last ones, rows at random ("random:42" are others than "random:43"), or rows at even ranks."""

SampleWay = Literal["head", "tail", "random", "spread"]

_WAYS: tuple[SampleWay, ...] = ("head", "tail", "random", "spread")
_SEEDED = re.compile(r"random:([0-9]{1,9})", re.ASCII)


class SampleAsked(NamedTuple):
    """Which rows, once the words were read; `seed` belongs to "random"."""

    way: SampleWay
    seed: int = 0

    @property
    def label(self) -> str:
        """The words that ask for the same rows."""
        return f"random:{self.seed}" if self.way == "random" else self.way


HEAD = SampleAsked("head")


def parse_sample(asked: Any) -> SampleAsked:
    """What the words say.

    Raises:
        BadParameterError: they say nothing.
    """
    if isinstance(asked, str):
        seeded = _SEEDED.fullmatch(asked)
        if seeded is not None:
            return SampleAsked("random", int(seeded[1]))
        for way in _WAYS:
            if asked == way:
                return SampleAsked(way)
    raise BadParameterError(
        f"sample={shown(asked, 80)} is not known.",
        hint='Use "head", "tail", "random", "random:42" or "spread".',
        details={"name": "sample"},
    )
