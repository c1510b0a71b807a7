"""Ten bins between a lowest and a highest value; the rule: they touch, and each value falls into one of them.

A bin is from its first edge on and below its second one; the last holds the highest value too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

BINS = 10


def edges(lowest: Any, highest: Any, bins: int = BINS) -> Sequence[Any] | None:
    """Where the bins begin and, last, where they end; None for values that cannot be divided."""
    if type(lowest) is not type(highest) or isinstance(lowest, bool):
        return None
    if isinstance(lowest, int):
        return _whole(lowest, highest, bins)
    if isinstance(lowest, float | Decimal):
        return _even(lowest, highest, bins) if math.isfinite(lowest) and math.isfinite(highest) else None
    if isinstance(lowest, datetime):
        # asyncpg gives the infinities of a column with zones as instants without one.
        is_alike = (lowest.tzinfo is None) is (highest.tzinfo is None)
        return _even(lowest, highest, bins) if is_alike else None
    if isinstance(lowest, date):
        return [date.fromordinal(day) for day in _whole(lowest.toordinal(), highest.toordinal(), bins)]
    return None


def _whole(lowest: int, highest: int, bins: int) -> list[int]:
    """Of whole numbers there may be fewer than bins."""
    count = highest - lowest + 1
    bins = min(bins, count)
    return [*(lowest + count * number // bins for number in range(bins)), highest]


def _even(lowest: Any, highest: Any, bins: int) -> list[Any]:
    if lowest == highest:
        return [lowest, highest]
    # One by one: a range may be larger than the largest float.
    found = {_between(lowest, highest, number, bins) for number in range(1, bins)}
    return [lowest, *sorted(edge for edge in found if lowest < edge < highest), highest]


def _between(lowest: Any, highest: Any, number: int, bins: int) -> Any:
    if isinstance(lowest, datetime):
        step = (highest - lowest) * number / bins
        return (
            lowest + timedelta(seconds=int(step.total_seconds()))
            if step > timedelta(minutes=1)
            else lowest + step
        )
    return lowest - lowest / bins * number + highest / bins * number
