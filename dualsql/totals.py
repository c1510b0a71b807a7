"""How many rows a result has, and how surely that is known; the rule: no number without the word for its worth."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from dualsql.errors import BadParameterError
from dualsql_client.conversions import shown
from dualsql_client.wire import TotalCountKind

Count = Literal["exact", "estimated", "none", "auto"] | str
"""How to count: one of these words, or "capped:N", which stops counting behind row N."""

Way = Literal["exact", "estimated", "capped", "none", "auto"]

_WAYS: tuple[Way, ...] = ("exact", "estimated", "none", "auto")
_CAPPED = re.compile(r"capped:([1-9][0-9]{0,15})", re.ASCII)


class Total(NamedTuple):
    """A number of rows and its worth; the number is None where nobody counted."""

    rows: int | None
    kind: TotalCountKind

    def at_least(self, rows: int) -> Total:
        """The total of a result that is known to have so many rows."""
        return Total(rows, "capped") if self.rows is not None and self.rows < rows else self

    def at_most(self, rows: int) -> Total:
        """The total of a result that is known to end there, or before."""
        return Total(rows, "estimated") if self.rows is not None and self.rows > rows else self


UNCOUNTED = Total(None, "none")


class CountAsked(NamedTuple):
    """How to count, once the words were read; `cap` belongs to "capped"."""

    way: Way
    cap: int = 0


def parse_count(asked: Any) -> CountAsked:
    """What the words say.

    Raises:
        BadParameterError: they say nothing.
    """
    if isinstance(asked, str):
        capped = _CAPPED.fullmatch(asked)
        if capped is not None:
            return CountAsked("capped", int(capped[1]))
        for way in _WAYS:
            if asked == way:
                return CountAsked(way)
    raise BadParameterError(
        f"count={shown(asked, 80)} is not known.",
        hint='Use "auto", "exact", "estimated", "capped:10000" or "none".',
        details={"name": "count"},
    )
