"""Where a page begins and ends, told by the values of keys; the rule: of equal rows, as many are shown as there are.

A place is a gap between two rows. Where rows may be equal throughout, it can lie among equal ones: then it is told
how many of them were passed on the way to it, or, for a reader who turns round, how many are left ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A gap beside a row, and the way to read on from it.

    Attributes:
        values: of the row's keys, as their forms read them.
        is_backward: the rows before it are meant, not those after it.
        passed: how many rows of these values lie behind; the rest of them are ahead.
        left: how many lie ahead, where that is what is known; `passed` means nothing then.
    """

    values: Values
    is_backward: bool = False
    passed: int = 1
    left: int | None = None

    @property
    def holds_itself(self) -> bool:
        """Whether a row of these values is ahead, if there is only one."""
        return self.passed == 0 if self.left is None else self.left > 0

    def as_of_one(self) -> Place:
        """The same gap, told in one way, where no two rows have the same values."""
        return replace(self, passed=0 if self.holds_itself else 1, left=None)

    def reversed(self) -> Place:
        """The same gap, read the other way."""
        if self.left is None:
            return replace(self, is_backward=not self.is_backward, left=self.passed)
        return replace(self, is_backward=not self.is_backward, passed=self.left, left=None)


def place_ahead(page: Sequence[Values], start: Place | None, *, is_begun: bool) -> Place | None:
    """The gap after the last row of a page, in the direction of reading.

    Args:
        page: the values of its rows, at least one.
        start: the place that the page was read from; None for an offset.
        is_begun: nothing equal to the first row can lie before it; for an offset.

    Returns None where it cannot be known how many equal rows lie behind.
    """
    last = page[-1]
    run = next((number for number, values in enumerate(reversed(page)) if not _same(values, last)), len(page))
    if run == len(page):
        if start is None and not is_begun:
            return None
        if start is not None and _same(start.values, last):
            if start.left is not None:
                return replace(start, left=max(start.left - run, 0))
            return replace(start, passed=start.passed + run)
    return Place(values=last, is_backward=start is not None and start.is_backward, passed=run)


def place_behind(page: Sequence[Values], start: Place | None, *, is_begun: bool) -> Place | None:
    """The gap before the first row of a page, to be read from the other way; see `place_ahead`."""
    first = page[0]
    if start is None:
        return Place(values=first, is_backward=True, left=0) if is_begun else None
    if _same(start.values, first):
        return start.reversed()
    return Place(values=first, is_backward=not start.is_backward, left=0)


def _same(one: Values, other: Values) -> bool:
    # NaN is the one value that is not itself.
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))  # noqa: PLR0124
