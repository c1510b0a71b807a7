"""The bins of a histogram.

Their width is that of Freedman and Diaconis (1981), 2 * IQR / n^(1/3), rounded to a step that people count in. If a few
values are so far away that the others would fill a fifth of the chart, the bins cover the middle 98 or 90 of 100
values, and the chart says how many are beyond them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from itertools import pairwise
from typing import Any

from dualsql import profiles
from dualsql.charts.axes import ticks
from dualsql.charts.chart import Chart
from dualsql.charts.rows import Marks
from dualsql.formats import cells, json
from dualsql.results.view import View

MOST_BINS = 60

_PERCENTS = (1, 5, 25, 75, 95, 99)
_FEWEST_INSIDE = MOST_BINS // 5


@dataclass(frozen=True, slots=True)
class Spread:
    """The number of values, the ends of their range, and the values at 1, 5, 25, 75, 95 and 99 of 100."""

    count: int
    lowest: Any
    highest: Any
    percentiles: Sequence[Any]


async def bin_marks(chart: Chart, view: View) -> Marks:
    """The bins of all values that the reader may see."""
    (values,) = view.shape.columns
    data = profiles.profiled_rows(view.ordered(), [values], view.rules.form.hides)
    (profiled,) = data.profiled
    if profiled.is_masked:
        return Marks([], (f"Not drawn: the values of {chart.x} are hidden",))
    (row,) = await view.answer(profiles.summary_statement(data))
    rows, statistics = profiles.read_summary(data, row)
    summary = statistics[values.name]
    notes = _left_out(summary["nulls"], f"whose {chart.x} is NULL")
    is_finite = all(map(_is_finite, (summary["minimum"], summary["maximum"])))
    counted = profiles.counted_values(
        data, profiled, is_positive=chart.scale == "log", is_finite=not is_finite
    )
    (row,) = await view.answer(profiles.spread_statement(data, counted, _PERCENTS))
    spread = Spread(int(row[0] or 0), row[1], row[2], row[3:])
    left_out = rows - summary["nulls"] - spread.count
    reason = "no finite number above 0" if chart.scale == "log" else "no finite number"
    notes += _left_out(left_out, f"whose {chart.x} is {reason}")
    if not spread.count:
        return Marks([], notes)
    bounds = edges_of(spread, is_log=chart.scale == "log")
    if bounds is None:
        kind = "dates" if isinstance(spread.lowest, date) else "numbers"
        return Marks([], (*notes, f"Not drawn: {chart.x} has values that are no {kind}"))
    is_below, is_above = spread.lowest < bounds[0], bounds[-1] <= spread.highest
    ends = [*bounds[:1] * is_below, *bounds, *bounds[-1:] * is_above]
    counts = profiles.read_bins(await view.answer(profiles.count_bins(data, counted, ends)), len(ends) - 1)
    write = _writer(view)
    if is_below:
        notes += _left_out(counts.pop(0), f"below {write(bounds[0])}, down to {write(spread.lowest)}")
    if is_above:
        notes += _left_out(counts.pop(), f"from {write(bounds[-1])} up to {write(spread.highest)}")
    # A bar of one whole number stands around it.
    shift = (
        0.5 if chart.scale == "linear" and isinstance(bounds[0], int) and bounds[1] - bounds[0] == 1 else 0
    )
    marks = [
        {"low": low - shift, "high": high - shift, "count": count}
        if shift
        else {"low": write(low), "high": write(high), "count": count}
        for (low, high), count in zip(pairwise(bounds), counts, strict=True)
    ]
    return Marks(marks, notes)


def _left_out(number: int, which: str) -> tuple[str, ...]:
    return (f"Not drawn: {number:,} row{'s' * (number != 1)} {which}",) if number else ()


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float | Decimal) or math.isfinite(value)


def _writer(view: View) -> Callable[[Any], Any]:
    """A function that writes a value as the rows of the result have it."""
    converters = cells.converters(view.shape.columns, view.dialect)

    def write(value: Any) -> Any:
        return json.loads(json.dumps(cells.converted([[value]], converters)[0][0]))

    return write


def edges_of(spread: Spread, *, is_log: bool = False) -> Sequence[Any] | None:
    """The edges of the bins; None for values that cannot be divided.

    A bin holds the values from its lower edge to below its upper edge. Values before the first or behind the last edge
    are in no bin.
    """
    ends = (spread.lowest, spread.highest)
    if any(isinstance(end, bool) or not isinstance(end, int | float | Decimal | date) for end in ends):
        return None
    if not isinstance(spread.lowest, date):
        is_whole = all(isinstance(value, int) for value in (*ends, *spread.percentiles))
        numbers = [Decimal(value) for value in (*ends, *spread.percentiles)]
        exact = (
            _log_edges(*numbers[:2], is_whole=is_whole)
            if is_log
            else _divide(_number_edges(1 if is_whole else None), spread.count)(numbers)
        )
        kind = int if is_whole else type(spread.lowest)
        edges = sorted({_as(kind, edge) for edge in exact})
        return edges if len(edges) > 1 else None
    if not isinstance(spread.lowest, datetime):
        midnights = [datetime.combine(day, time()) for day in (*ends, *spread.percentiles)]
        edges = _divide(_time_edges(_DAY), spread.count)(midnights)
        return [edge.date() for edge in edges]
    zone = spread.lowest.tzinfo
    # asyncpg returns the infinities of a column with time zones as instants without one.
    if any((value.tzinfo is None) is not (zone is None) for value in (*ends, *spread.percentiles)):
        return None
    instants = [
        (value.astimezone(zone) if zone else value).replace(tzinfo=None)
        for value in (*ends, *spread.percentiles)
    ]
    return [edge.replace(tzinfo=zone) for edge in _divide(_time_edges(timedelta()), spread.count)(instants)]


Divide = Callable[[Any, Any, Any], list[Any]]
"""Edges from at most the lowest value to above the highest one, at the step that is next to the width."""


def _divide(edges: Divide, count: int) -> Callable[[Sequence[Any]], list[Any]]:
    """The edges for the values of a `Spread`."""

    def divide(values: Sequence[Any]) -> list[Any]:
        lowest, highest, first, second, low, high, last_but_one, last = values
        span, inside = highest - lowest, last - first
        width = (high - low) * 2 / max(1, round(count ** (1 / 3))) or inside / 20 or span / 10
        if span <= width * MOST_BINS:
            return edges(lowest, highest, width)
        wide = span / MOST_BINS
        if inside >= wide * _FEWEST_INSIDE:
            return edges(lowest, highest, wide)
        if inside <= width * MOST_BINS:
            return edges(first, last, width)
        return edges(second, last_but_one, max(width, (last_but_one - second) / MOST_BINS))

    return divide


_EXACT = Context(prec=100, Emax=10_000, Emin=-10_000)


def _number_edges(least: int | None) -> Divide:
    def edges(lowest: Decimal, highest: Decimal, width: Decimal) -> list[Decimal]:
        step = _step(max(width, Decimal(least or 0)) or abs(lowest) / 10 or Decimal(1))
        first, last = (
            int(_EXACT.divide(end, step).to_integral_value(ROUND_FLOOR, _EXACT)) for end in (lowest, highest)
        )
        return [_EXACT.multiply(step, Decimal(number)) for number in range(first, last + 2)]

    return edges


_NEAR = Decimal("1.5")
"""How much larger than a step its width may be."""


def _step(width: Decimal) -> Decimal:
    """1, 2 or 5 times a power of ten, next to `width`."""
    power = Decimal(1).scaleb(width.adjusted(), _EXACT)
    return next(power * times for times in (1, 2, 5, 10) if power * times * _NEAR >= width)


def _log_edges(lowest: Decimal, highest: Decimal, *, is_whole: bool) -> list[Decimal]:
    """Edges at the same numbers of each power of ten, at about even distances of their logarithms."""
    powers = range(lowest.adjusted(), highest.adjusted() + 2)
    stride = -(-len(powers) // MOST_BINS)
    of_ten = next(
        (numbers for numbers in _OF_TEN[2 * is_whole :] if len(numbers) * len(powers) <= MOST_BINS),
        _OF_TEN[-1],
    )
    edges = [Decimal(number).scaleb(power, _EXACT) for power in powers[::stride] for number in of_ten]
    edges.append(Decimal(1).scaleb(powers[0] + stride * -(-len(powers) // stride), _EXACT))
    first = max(number for number, edge in enumerate(edges) if edge <= lowest)
    last = min(number for number, edge in enumerate(edges) if edge > highest)
    return edges[first : last + 1]


_OF_TEN: Sequence[Sequence[str]] = (
    ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8"),  # the series R10 of ISO 3
    ("1", "1.6", "2.5", "4", "6.3"),
    ("1", "2", "5"),
    ("1",),
)


def _as(kind: type[Any], edge: Decimal) -> Any:
    if kind is not float:
        return kind(edge)
    nearest = max(-sys.float_info.max, min(float(edge), sys.float_info.max))
    return nearest or math.copysign(_LEAST_FLOAT, edge) if edge else 0.0


_LEAST_FLOAT = math.ulp(0.0)


_DAY = timedelta(days=1)
_MONTH = 30 * _DAY
_STEPS: Sequence[timedelta | int] = (
    *(timedelta(milliseconds=number) for number in (1, 10, 100)),
    *(timedelta(seconds=number) for number in (1, 5, 15, 30)),
    *(timedelta(minutes=number) for number in (1, 5, 15, 30)),
    *(timedelta(hours=number) for number in (1, 3, 6, 12)),
    *(timedelta(days=number) for number in (1, 7)),
    *(1, 3, 6),
    *(12 * years for years in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)),
)
"""A time, or a number of months."""


def _time_edges(least: timedelta) -> Divide:
    def edges(lowest: datetime, highest: datetime, width: timedelta) -> list[datetime]:
        seconds = max(width, least) / float(_NEAR) or _DAY
        step = next((step for step in _STEPS if _length(step) >= seconds), _STEPS[-1])
        # Twice: a month may be longer than 30 days.
        start, end = _move(lowest, -2 * _length(step)), _move(highest, 2 * _length(step))
        moments = list(ticks(start, end, step))
        before = [moment for moment in moments if moment <= lowest][-1:] or [lowest]
        behind = [moment for moment in moments if moment > highest][:1] or [datetime.max]  # noqa: DTZ901 - an axis has no zones
        return [*before, *(moment for moment in moments if lowest < moment <= highest), *behind]

    return edges


def _length(step: timedelta | int) -> timedelta:
    return step * _MONTH if isinstance(step, int) else step


def _move(moment: datetime, by: timedelta) -> datetime:
    """The moment so much later; at most the ends of the calendar."""
    try:
        return moment + by
    except OverflowError:
        return datetime.max if by > timedelta() else datetime.min  # noqa: DTZ901 - an axis has no zones
