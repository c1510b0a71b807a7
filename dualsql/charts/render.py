"""Draws a chart as Vega-Lite and as a picture.

Vega reads field names as paths, and objects as expressions or addresses. Therefore the fields have fixed names and only
strings, numbers, booleans and null of the data reach the specification. The renderer has no access to network or files.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from typing import Any, Literal

from dualsql.charts.chart import COLOR, TIMES, Chart, X, Y
from dualsql.errors import ConfigurationError, QueryExecutionError
from dualsql.formats.text import single_line
from dualsql.response import Picture
from dualsql_client.wire import Bucket, Column, Row

logger = logging.getLogger(__name__)

VegaLite = dict[str, Any]

MEDIA_TYPE = "application/vnd.vegalite+json"

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_WIDTH, _HEIGHT = 640, 400
_LONGEST_TEXT = 80
_DATE = len("2026-11-21")
_INSTANT = len("2026-11-21T10:30:00")
_MARKS: Mapping[str, VegaLite] = {
    "bar": {"type": "bar"},
    "line": {"type": "line", "point": True},
    "point": {"type": "circle", "opacity": 0.7, "size": 40},
    "histogram": {"type": "rect", "stroke": "white"},
}

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
"""By the smallest unit that is told: the format of labels in d3, and the months or the time from one to the next."""

_FOUR_DIGITS = date(2000, 1, 1)
_LABEL_CHARACTER = 8
"""Width of a character of a label with what is left free around it, in pixels."""

_UPRIGHT_CHARACTER = 12
"""The same of a category's name: a Chinese character is wider."""

_MOST_WHOLE = 16
"""The most ticks that Vega gives an axis of this size."""

# Not the week: that of Vega begins on Sunday.
_TIME_UNITS: Mapping[Bucket, str] = {
    "year": "year",
    "quarter": "yearquarter",
    "month": "yearmonth",
    "day": "yearmonthdate",
    "hour": "yearmonthdatehours",
}


def drawn(chart: Chart, columns: Sequence[Column], rows: Sequence[Row], *, note: str = "") -> VegaLite:
    """The chart of these rows, as plain JSON.

    Args:
        columns, rows: the answer to `chart_query(chart)` or a part of it; or the bins of a histogram: low, high and
            count.
        note: what of it is left out, for the line below the title.
    """
    if chart.mark == "histogram":
        encoding, values = _bins(chart, columns[0], rows)
    else:
        encoding, values = _marks(chart, columns, rows)
    title: VegaLite = {"text": _text(chart.title or chart.words)}
    if note:
        title["subtitle"] = note
    return {
        "$schema": _SCHEMA,
        "title": title,
        "width": _WIDTH,
        "height": _HEIGHT,
        "data": {"values": values},
        "mark": _mark(chart, values),
        "encoding": encoding,
    }


def _mark(chart: Chart, values: Sequence[Row]) -> VegaLite:
    mark = dict(_MARKS[chart.mark])
    if chart.mark == "bar" and chart.bucket == "week":
        mark["width"] = max(1, _WIDTH // max(1, _span(_dates(values, X)) // timedelta(weeks=1) + 1) - 1)
    return mark


def _marks(chart: Chart, columns: Sequence[Column], rows: Sequence[Row]) -> tuple[VegaLite, list[Row]]:
    kinds = {column["name"]: _kind(column) for column in columns}
    if chart.mark == "bar" and kinds[X] == "quantitative":
        kinds[X] = "ordinal"  # on a numeric axis, bars would have no width
    texts = _Texts()
    values = [{name: _value(row[name], kind, texts) for name, kind in kinds.items()} for row in rows]
    if chart.bucket is not None:
        # The beginning of a bucket is a date, wherever it is read.
        values = [value | {X: value[X] and str(value[X])[:_INSTANT]} for value in values]
    titles = {X: chart.x, Y: chart.measured, COLOR: chart.color}
    encoding: VegaLite = {
        name: {"field": name, "type": kinds[name], "title": _text(str(titles[name]))}
        for name in (X, Y, COLOR)
        if name in kinds
    }
    for column in columns:
        if column["name"] in (X, Y):
            encoding[column["name"]] |= _axis(chart, column, kinds[column["name"]], values)
    if TIMES in kinds and (numbers := {1, *_column(values, TIMES)}) != {1}:
        sizes = sorted({1, max(numbers) // 2, max(numbers)} - {0})
        legend = {"values": sizes, "format": ",d"}
        encoding["size"] = {"field": TIMES, "type": "quantitative", "title": "rows", "legend": legend}
    return encoding, values


def _axis(chart: Chart, column: Column, kind: str, values: Sequence[Row]) -> VegaLite:
    name = column["name"]
    if kind in ("nominal", "ordinal"):
        names = {str(value[name]) for value in values}
        is_roomy = len(names) * max(map(len, names), default=0) * _UPRIGHT_CHARACTER <= _WIDTH
        return {"sort": None} | (
            {"axis": {"labelAngle": 0}} if is_roomy and name == X else {}
        )  # as the rows come
    if kind == "temporal":
        bucket = chart.bucket if name == X else None
        is_banded = chart.mark == "bar" and bucket in _TIME_UNITS
        unit: VegaLite = {"timeUnit": _TIME_UNITS[bucket]} if is_banded and bucket is not None else {}
        return unit | {"axis": _time_axis(_dates(values, name), bucket)}
    scale: VegaLite = {"scale": {"zero": False, "padding": 10}} if chart.mark == "point" else {}
    return scale | (
        _whole_axis(_heights(values) if name == Y else _column(values, X)) if _is_whole(column) else {}
    )


def _is_whole(column: Column) -> bool:
    return column["encoding"] == "integer"


def _column(values: Sequence[Row], name: str) -> list[int | float]:
    return [value[name] for value in values if value[name] is not None]


def _heights(values: Sequence[Row]) -> list[int | float]:
    """Of bars that are stacked, those of the stacks; elsewhere no more than that."""
    heights: defaultdict[Any, float] = defaultdict(float)
    for value in values:
        heights[value[X]] += value[Y] or 0
    return [0, *heights.values(), *_column(values, Y)]


def _whole_axis(values: Sequence[int | float]) -> VegaLite:
    """Ticks at whole numbers: Vega divides a small range into halves, also with a `tickMinStep`."""
    low, high = min(values, default=0), max(values, default=0)
    if high - low > _MOST_WHOLE:
        return {}
    return {"axis": {"values": list(range(int(low), int(high) + 1)), "format": ",d"}}


def _time_axis(dates: Sequence[datetime], bucket: Bucket | None) -> VegaLite:
    """Labels that tell the year with the month, at whole units of time, as many as there is room for."""
    if not dates or (bucket is None and _span(dates) < 3 * _DAY / 24):
        return {"format": "%Y-%m-%d %H:%M:%S", "labelOverlap": True}
    low, high = min(dates), max(dates)
    for form, step in _STEPS[bucket or "hour"]:
        room = _WIDTH // (_LABEL_CHARACTER * len(f"{_FOUR_DIGITS:{form}}"))
        ticks = list(islice(_ticks(low, high, step), room + 1))
        if len(ticks) <= room:
            break
    return {"format": form, "values": [tick.isoformat() for tick in ticks], "labelOverlap": True}


def _ticks(low: datetime, high: datetime, step: timedelta | int) -> Iterator[datetime]:
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


def _span(dates: Sequence[datetime]) -> timedelta:
    return max(dates) - min(dates) if dates else timedelta()


def _dates(values: Sequence[Row], name: str) -> list[datetime]:
    """The instants that can be read, without their zones."""
    dates = []
    for value in values:
        with suppress(ValueError):
            dates.append(datetime.fromisoformat(str(value[name])[:_INSTANT]))
    return dates


def _bins(chart: Chart, column: Column, rows: Sequence[Row]) -> tuple[VegaLite, list[Row]]:
    kind = _kind(column)
    values = [
        {"low": _value(row["low"], kind), "high": _value(row["high"], kind), "count": row["count"]}
        for row in rows
    ]
    axis: VegaLite = {"axis": _time_axis(_dates(values, "low"), None)} if kind == "temporal" else {}
    if _is_whole(column):
        axis = _whole_axis([edge for value in values for edge in (value["low"], value["high"])])
    counts = _whole_axis([0, *_column(values, "count")]) | {"scale": {"zero": True}}
    return {
        "x": {"field": "low", "type": kind, "title": _text(chart.x), "scale": {"zero": False}, **axis},
        "x2": {"field": "high"},
        "y": {"field": "count", "type": "quantitative", "title": "rows", **counts},
        "y2": {"datum": 0},
    }, values


def _kind(column: Column) -> str:
    return {"number": "quantitative", "date": "temporal"}.get(column["type"], "nominal")


class _Texts:
    """Shortens texts to the length of a label; different texts, and what has no value, have different labels."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._used_labels: set[str] = set()

    def shown(self, text: str) -> str:
        """The label of `text`."""
        if text not in self._labels:
            short, number = _text(text), 2
            short = '"null"' if short == "null" else short  # Vega writes null for what has no value
            label = short
            while label in self._used_labels:
                label, number = f"{short} ({number})", number + 1
            self._labels[text] = label
            self._used_labels.add(label)
        return self._labels[text]


def _value(value: Any, kind: str, texts: _Texts | None = None) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if kind == "quantitative":
        return _number(value)
    if isinstance(value, int | float):
        return value
    if kind == "temporal":
        # Vega reads a date without a time as midnight in UTC, which is the day before in half of all time zones.
        return f"{value}T00:00:00" if len(str(value)) == _DATE else _text(str(value))
    return (texts or _Texts()).shown(value if isinstance(value, str) else str(value))


def _number(value: Any) -> int | float | None:
    """The value as a JSON number. A decimal that is written as text becomes the nearest float."""
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    try:
        number = float(Decimal(str(value)))
    except (InvalidOperation, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text(text: str) -> str:
    return single_line(text, _LONGEST_TEXT)


PictureFormat = Literal["png", "svg"]

_SCALE = 1.5
_NO_URLS: list[str] = []
"""The addresses that data may come from. Without it, vl-convert fetches any address."""


_FONT_HINT = "Install fonts for its script, such as the package fonts-noto-cjk, and start the server again."
_LATIN = 0x250
"""Where the scripts begin of which the fonts in vl-convert have a part only."""


def require_pictures() -> None:
    """Raise ConfigurationError unless the extra `charts` is installed."""
    if find_spec("vl_convert") is None:
        raise ConfigurationError("Pictures require vl-convert-python.", hint='pip install "dualsql[charts]"')


def picture(chart: VegaLite, kind: PictureFormat) -> Picture:
    """Draw a picture. This uses a core for about a tenth of a second, the first time for a few seconds.

    Raises:
        ConfigurationError: the extra `charts` is not installed.
        QueryExecutionError: the picture could not be drawn.
    """
    require_pictures()
    import vl_convert

    try:
        if kind == "png":
            content = vl_convert.vegalite_to_png(
                _with_fonts_missing(chart), scale=_SCALE, allowed_base_urls=_NO_URLS
            )
            return Picture(content, "image/png")
        svg = vl_convert.vegalite_to_svg(chart, allowed_base_urls=_NO_URLS)
        return Picture(svg.encode(), "image/svg+xml")
    except ValueError as error:
        raise QueryExecutionError("The chart could not be drawn.", hint="Request it as Vega-Lite.") from error


def _with_fonts_missing(chart: VegaLite) -> VegaLite:
    """The chart, which says that it shows boxes in place of texts where no font has their characters."""
    blocks = {
        # One character of each 256 stands for their script: a look at one takes 1 ms.
        ord(character) >> 8: character
        for text in _texts(chart)
        for character in text
        if ord(character) >= _LATIN
    }
    missing = next((character for character in blocks.values() if not _has_glyph(character)), None)
    if missing is None:
        return chart
    logger.warning("No font of this machine has U+%04X, which a chart shows. %s", ord(missing), _FONT_HINT)
    note = "Boxes stand for characters that this server has no font for"
    lines = [line for line in (chart["title"].get("subtitle"), note) if line]
    return chart | {"title": chart["title"] | {"subtitle": lines}}


def _texts(chart: VegaLite) -> Iterator[str]:
    yield chart["title"]["text"]
    for part in chart["encoding"].values():
        yield part.get("title", "")
    for row in chart["data"]["values"]:
        yield from (value for value in row.values() if isinstance(value, str))


_NOWHERE = "\U0010fffd"
"""A private character. Fonts of icons have those of the first plane, such as U+F8FF."""


@lru_cache(maxsize=4_096)
def _has_glyph(character: str) -> bool:
    """Whether it is drawn as anything else than a character that no font has; takes 1 ms."""
    return character.isspace() or _glyph(character) != _glyph(_NOWHERE)


def _glyph(character: str) -> bytes:
    import vl_convert

    text = f'<text x="2" y="18" font-size="16" font-family="sans-serif">{character}</text>'
    return vl_convert.svg_to_png(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="32" height="24">{text}</svg>'
    )
