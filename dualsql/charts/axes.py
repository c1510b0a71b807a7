"""The axes of a chart: their labels at whole units of time, and at whole numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

from dualsql_client.wire import Row
from dualsql_client.wire_requests import Bucket

VegaLite = dict[str, Any]

WIDTH, HEIGHT = 640, 400
"""Of the plot, in pixels, where nobody asks for another width."""

INSTANT = len("2026-11-21T10:30:00")

_DAY = timedelta(days=1)
_HOURS = [("%Y-%m-%d %H:%M", _DAY * hours / 24) for hours in (1, 3, 6, 12)]
_DAYS = [("%Y-%m-%d", _DAY), ("%Y-%m-%d", 2 * _DAY)]
_WEEKS = [("%Y-%m-%d", 7 * _DAY), ("%Y-%m-%d", 14 * _DAY), ("%Y-%m-%d", 28 * _DAY)]
_MONTHS = [("%Y-%m", months) for months in (1, 2, 3, 6)]
_QUARTERS = [("%Y-Q%q", 3), ("%Y-Q%q", 6)]
_YEARS = [("%Y", 12 * years) for years in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)]
_STEPS: Mapping[Bucket, Sequence[tuple[str, timedelta | int]]] = {
    "hour": [*_HOURS, *_DAYS, *_WEEKS, *_MONTHS, *_YEARS],
    "day": [*_DAYS, *_WEEKS, *_MONTHS, *_YEARS],
    "week": [*_WEEKS, *_MONTHS, *_YEARS],
    "month": [*_MONTHS, *_YEARS],
    "quarter": [*_QUARTERS, *_YEARS],
    "year": _YEARS,
}
"""By the smallest unit of the labels: the format of labels in d3, and the months or the time from one to the next."""

_FOUR_DIGITS = date(2000, 1, 1)
_LABEL_CHARACTER = 8
"""Width of a character of a label with what is left free around it, in pixels."""

_MOST_WHOLE = 16
"""The most ticks that Vega gives an axis of this size."""

# Not the week: that of Vega begins on Sunday.
TIME_UNITS: Mapping[Bucket, str] = {
    "year": "year",
    "quarter": "yearquarter",
    "month": "yearmonth",
    "day": "yearmonthdate",
    "hour": "yearmonthdatehours",
}


def whole_axis(values: Sequence[int | float]) -> VegaLite:
    """Ticks at whole numbers, if all values are whole.

    Vega divides a small range into halves, also with a `tickMinStep`. Four digits may be a year, and have no
    separator, as in the grid of a page.
    """
    if not all(float(value).is_integer() for value in values):
        return {}
    low, high = min(values, default=0), max(values, default=0)
    highest = max(-low, high)
    form = "d" if highest < 10_000 else ",d"
    # A browser's numbers hold no digits beyond these, nor can those that draw pictures read them.
    if high - low > _MOST_WHOLE or highest >= 2**53:
        return {"axis": {"format": form, "tickMinStep": 1}}
    return {"axis": {"values": list(range(int(low), int(high) + 1)), "format": form}}


def time_axis(dates: Sequence[datetime], bucket: Bucket | None, width: int) -> VegaLite:
    """Labels that have the year with the month, at whole units of time, as many as there is room for."""
    if not dates or (bucket is None and span(dates) < 3 * _DAY / 24):
        return {"format": "%Y-%m-%d %H:%M:%S", "labelOverlap": True}
    low, high = min(dates), max(dates)
    for form, step in _STEPS[bucket or "hour"]:
        room = width // (_LABEL_CHARACTER * len(f"{_FOUR_DIGITS:{form}}"))
        places = list(islice(ticks(low, high, step), room + 1))
        if len(places) <= room:
            break
    return {"format": form, "values": [place.isoformat() for place in places], "labelOverlap": True}


def ticks(low: datetime, high: datetime, step: timedelta | int) -> Iterator[datetime]:
    """The multiples of a step from `low` to `high`; weeks begin on Monday, as the first of all days is one."""
    first = datetime.min  # noqa: DTZ901 - an axis has no zones
    if not isinstance(step, int):
        return (
            # -(-a // b) is a / b, rounded up.
            first + step * number
            for number in range(-(-(low - first) // step), (high - first) // step + 1)
        )
    is_amid = (low.day, low.time()) != (1, first.time())
    least, most = (12 * end.year + end.month - 1 for end in (low, high))
    months = range(-(-(least + is_amid) // step) * step, most + 1, step)
    return (first.replace(month // 12, month % 12 + 1) for month in months)


def span(dates: Sequence[datetime]) -> timedelta:
    return max(dates) - min(dates) if dates else timedelta()


def dates_of(values: Sequence[Row], name: str) -> list[datetime]:
    """The instants of a column that has no other values, without their zones."""
    return [datetime.fromisoformat(value[name][:INSTANT]) for value in values]


def instant_of(value: Any) -> str | None:
    """A date or an instant as JavaScript reads it; None if it cannot, as "infinity"."""
    text = str(value)
    if not _DATES.fullmatch(text):
        return None
    with suppress(ValueError):
        datetime.fromisoformat(text)
        # Vega reads a date without a time as midnight in UTC, which is the day before in half of all time zones.
        return text if "T" in text else f"{text}T00:00:00"
    return None


_DATES = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def label_of(value: Any, bucket: Bucket) -> Any:
    """The beginning of a bucket as the label of a category: 2026, 2026-Q1, 2026-01, 2026-01-31 or 2026-01-31 10:00."""
    instant = instant_of(value)
    if instant is None:
        return value
    if bucket == "quarter":
        return f"{instant[:4]}-Q{(int(instant[5:7]) + 2) // 3}"
    return instant[: _LABEL_LENGTHS[bucket]].replace("T", " ")


_LABEL_LENGTHS: Mapping[Bucket, int] = {"year": 4, "month": 7, "week": 10, "day": 10, "hour": 16}
