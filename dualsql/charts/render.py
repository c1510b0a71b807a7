"""Draws a chart as Vega-Lite and as a picture.

Vega reads field names as paths, and objects as expressions or addresses. Therefore the fields have fixed names and only
strings, numbers, booleans and null of the data reach the specification. The renderer has no access to network or files.
"""

from __future__ import annotations

import colorsys
import json
import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal

from dualsql.charts.axes import (
    HEIGHT,
    INSTANT,
    TIME_UNITS,
    WIDTH,
    VegaLite,
    dates_of,
    instant_of,
    label_of,
    span,
    time_axis,
    whole_axis,
)
from dualsql.charts.chart import COLOR, TIMES, Chart, X, Y
from dualsql.errors import ConfigurationError, QueryExecutionError
from dualsql.formats.text import single_line
from dualsql.response import Picture
from dualsql_client.wire import Column, Row

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/vnd.vegalite+json"

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_LONGEST_TEXT = 80
_MARKS: Mapping[str, VegaLite] = {
    "bar": {"type": "bar"},
    # A round cap shows the only mark of a line, which has no length.
    "line": {"type": "line", "strokeCap": "round"},
    "point": {"type": "circle", "opacity": 0.7, "size": 40},
    "histogram": {"type": "rect", "stroke": "white"},
    "heatmap": {"type": "rect"},
}
_MARK_WORDS: Mapping[str, str] = {"bar": "bar", "heatmap": "cell"}

_MOST_DOTS = 60
"""Marks of a line that have a dot each."""

_UPRIGHT_CHARACTER = 12
"""Width of a character of a category's name with what is left free around it: a Chinese character is a wide one."""

_SLANTED_LINE = 12
"""Width of a category whose name is written at 45 degrees."""

_BAND = 18
"""Pixels of a horizontal bar, and of a row of a heat map."""

_LOWEST = (4 * _BAND, 9 * _BAND)
"""The height of few horizontal bars, and of few rows of a heat map, which has a legend beside it."""

_MOST_WHOLE_COLORS = 5
"""Whole numbers that each have a place in the legend of a heat map."""


def draw(
    chart: Chart, columns: Sequence[Column], rows: Sequence[Row], *, notes: Sequence[str] = ()
) -> VegaLite:
    """The chart of these rows, as plain JSON.

    Args:
        columns, rows: the answer to `chart_query(chart)` or a part of it; or the bins of a histogram: low, high and
            count.
        notes: what of it is left out, for the lines below the title.
    """
    notes = list(notes)
    if chart.mark == "histogram":
        encoding, values = _bins(chart, columns[0], rows)
    else:
        encoding, values, left_out = _marks(chart, columns, rows)
        notes += left_out
    if not values:
        notes = notes or ["No rows"]
        encoding = {name: part for name, part in encoding.items() if name not in _LEGENDS}
    title: VegaLite = {"text": _text(chart.title or chart.title_words)}
    if notes:
        title["subtitle"] = notes[0] if len(notes) == 1 else notes
    return {
        "$schema": _SCHEMA,
        "title": title,
        "width": chart.width,
        "height": _height(chart, encoding, values),
        "data": {"values": values},
        "mark": _mark(chart, values),
        "encoding": encoding,
    }


Theme = Literal["light", "dark"]
_GROUND, _LINE, _INK = "#14171a", "#333a42", "#e6e9ec"
_PICTURE_CONFIG: VegaLite = {
    # Fonts as wide as the renderer's, where there are any; titles and labels have room for others.
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "axis": {"labelSeparation": 6},
    "axisX": {"labelFlush": False},
    "axisY": {"titlePadding": 14},
    "padding": {"left": 5, "top": 5, "right": 24, "bottom": 5},
}
"""By default, Vega moves the first and the last label inwards, onto those beside them. The padding at the right is for
the title of a legend in a font that is wider than the renderer's."""
_DARK_CONFIG: VegaLite = {
    "background": _GROUND,
    "title": {"color": _INK, "subtitleColor": _INK},
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor"), _INK),
        **dict.fromkeys(("gridColor", "domainColor", "tickColor"), _LINE),
    },
    "legend": {"labelColor": _INK, "titleColor": _INK},
    "view": {"stroke": _LINE},
}
"""The colors of dark pages: see web/static/style.css."""


def with_theme(chart: VegaLite, theme: Theme) -> VegaLite:
    """The chart in the colors of a theme."""
    if theme == "light":
        return chart
    mark = {name: _GROUND if value == "white" else value for name, value in chart["mark"].items()}
    return {**chart, "mark": mark, "config": _DARK_CONFIG}


def _height(chart: Chart, encoding: VegaLite, values: Sequence[Row]) -> int:
    y = encoding[Y]
    if y["type"] not in _DISCRETE:
        return max(HEIGHT // 2, chart.width * HEIGHT // WIDTH)
    bands = len({value[y["field"]] for value in values})
    return max(_LOWEST[chart.mark == "heatmap"], bands * _BAND)


def _mark(chart: Chart, values: Sequence[Row]) -> VegaLite:
    mark = dict(_MARKS[chart.mark])
    if chart.mark == "bar" and chart.bucket == "week":
        mark["width"] = max(1, chart.width // max(1, span(dates_of(values, X)) // timedelta(weeks=1) + 1) - 1)
    if chart.mark == "line" and len(values) <= _MOST_DOTS:
        mark["point"] = True
    return mark


def _marks(
    chart: Chart, columns: Sequence[Column], rows: Sequence[Row]
) -> tuple[VegaLite, list[Row], list[str]]:
    """The encoding, the marks that it can draw, and a note for each reason for which others are left out."""
    kinds = {column["name"]: _kind_in(chart, column) for column in columns}
    titles = {X: chart.x, Y: str(chart.y) if chart.mark == "heatmap" else chart.measure_in_words}
    titles[COLOR] = chart.measure_in_words if chart.mark == "heatmap" else str(chart.color)
    rows, notes = _drawable(chart, rows, kinds, titles)
    labels = {name: _Labels() for name, kind in kinds.items() if kind in _DISCRETE}
    values = [_values(chart, row, kinds, labels) for row in rows]
    encoding: VegaLite = {
        name: {"field": name, "type": kinds[name], "title": _text(titles[name])}
        for name in (X, Y, COLOR)
        if name in kinds
    }
    for name in (X, Y):
        encoding[name] |= _axis(chart, name, kinds[name], rows, values)
    if COLOR in labels:
        domain = [*dict.fromkeys(value[COLOR] for value in values)]
        encoding[COLOR]["scale"] = {"domain": domain, "range": palette(len(domain))}
    elif chart.mark == "heatmap" and kinds[COLOR] == "quantitative":
        encoding[COLOR] |= _whole_legend(_column(values, COLOR))
    if TIMES in kinds and (numbers := {1, *_column(values, TIMES)}) != {1}:
        sizes = sorted({1, max(numbers) // 2, max(numbers)} - {0})
        legend = {"values": sizes, "format": ",d"}
        encoding["size"] = {"field": TIMES, "type": "quantitative", "title": "rows", "legend": legend}
    if _lies(chart, kinds, values):
        encoding[X], encoding[Y] = encoding[Y], encoding[X]
    elif kinds[X] in _DISCRETE:
        encoding[X]["axis"] = {"labelAngle": 0} if _is_roomy(chart, values) else _slanted_axis(chart, values)
    return encoding, values, notes


def _kind_in(chart: Chart, column: Column) -> str:
    """The kind of a column's scale in this chart."""
    kind, name = _kind(column), column["name"]
    if chart.mark == "heatmap" and name in (X, Y):
        return "ordinal"
    if chart.mark == "bar" and name == X and kind == "quantitative":
        return "ordinal"  # on a numeric axis, bars would have no width
    if chart.mark in ("bar", "line") and name == COLOR:
        return "nominal"  # of a number or a date, Vega makes one line with a gradient
    return kind


def _drawable(
    chart: Chart, rows: Sequence[Row], kinds: Mapping[str, str], titles: Mapping[str, str]
) -> tuple[list[Row], list[str]]:
    """The rows that have a place on each continuous scale, and what is said of the others."""
    drawable: list[Row] = []
    left_out: defaultdict[tuple[str, str], int] = defaultdict(int)
    counts_rows = TIMES in kinds or (
        chart.aggregate == "count" and chart.measure_in_words == "number of rows"
    )
    count = TIMES if TIMES in kinds else COLOR if chart.mark == "heatmap" else Y
    for row in rows:
        name = next(
            (
                name
                for name, kind in kinds.items()
                if kind not in _DISCRETE and _coordinate(row[name], kind) is None
            ),
            None,
        )
        if name is None:
            drawable.append(row)
        else:
            reason = (
                "NULL"
                if row[name] is None
                else "no finite number"
                if kinds[name] == "quantitative"
                else "no date"
            )
            left_out[name, reason] += row[count] if counts_rows else 1
    unit = "row" if counts_rows else _MARK_WORDS.get(chart.mark, "point")
    return drawable, [
        f"Not drawn: {number:,} {unit}{'s' * (number != 1)} whose {_text(titles[name])} is {reason}"
        for (name, reason), number in left_out.items()
    ]


def _values(chart: Chart, row: Row, kinds: Mapping[str, str], labels: Mapping[str, _Labels]) -> Row:
    buckets = {X: chart.bucket, Y: chart.y_bucket}
    values: Row = {}
    for name, kind in kinds.items():
        bucket = buckets.get(name)
        if kind in _DISCRETE:
            values[name] = labels[name].of(label_of(row[name], bucket) if bucket else row[name])
        else:
            coordinate = _coordinate(row[name], kind)
            # The beginning of a bucket is a date, wherever it is read.
            values[name] = coordinate[:INSTANT] if bucket and isinstance(coordinate, str) else coordinate
    return values


def _lies(chart: Chart, kinds: Mapping[str, str], values: Sequence[Row]) -> bool:
    """Whether the bars lie, since the names of their categories have no room below them."""
    if chart.mark != "bar" or kinds[X] not in _DISCRETE or kinds[Y] != "quantitative":
        return False
    return not _is_roomy(chart, values)


def _slanted_axis(chart: Chart, values: Sequence[Row]) -> VegaLite:
    axis: VegaLite = {"labelAngle": -45}
    is_crowded = len({value[X] for value in values}) * _SLANTED_LINE > chart.width
    return axis | ({"labelOverlap": True} if is_crowded else {})


def _is_roomy(chart: Chart, values: Sequence[Row]) -> bool:
    """Whether the names of the categories of x have room side by side."""
    names = {value[X] for value in values}
    return len(names) * max(map(len, names), default=0) * _UPRIGHT_CHARACTER <= chart.width


def _whole_legend(values: Sequence[int | float]) -> VegaLite:
    axis = {
        name: value for name, value in whole_axis(values).get("axis", {}).items() if name != "tickMinStep"
    }
    if len(axis.get("values", ())) > _MOST_WHOLE_COLORS:
        axis = {"format": axis["format"]}
    return {"legend": axis} if axis else {}


def _axis(chart: Chart, name: str, kind: str, rows: Sequence[Row], values: Sequence[Row]) -> VegaLite:
    if kind in _DISCRETE:
        # As the rows come; the second axis of a heat map by its values.
        order: list[str] | None = None
        if chart.mark == "heatmap" and name == Y:
            pairs = {value[name]: row[name] for row, value in zip(rows, values, strict=True)}
            order = sorted(pairs, key=lambda label: _rank(pairs[label]))
        return {"sort": order}
    if kind == "temporal":
        bucket = chart.bucket if name == X else None
        is_banded = chart.mark == "bar" and bucket in TIME_UNITS
        unit: VegaLite = {"timeUnit": TIME_UNITS[bucket]} if is_banded and bucket is not None else {}
        return unit | {"axis": time_axis(dates_of(values, name), bucket, chart.width)}
    scale: VegaLite = {"scale": {"zero": False, "padding": 10}} if chart.mark == "point" else {}
    if chart.mark == "line" and name == X:
        scale = {"scale": {"zero": False}}
    return scale | whole_axis(_heights(values) if name == Y else _column(values, X))


def _rank(value: Any) -> tuple[int, Any]:
    """Numbers, then other values, then NULL."""
    if value is None:
        return 2, ""
    number = _number(value)
    return (1, str(value)) if number is None else (0, number)


def _column(values: Sequence[Row], name: str) -> list[int | float]:
    return [value[name] for value in values]


def _heights(values: Sequence[Row]) -> list[int | float]:
    """The heights of stacks and of single marks, and 0."""
    heights: defaultdict[Any, float] = defaultdict(float)
    for value in values:
        heights[value[X]] += value[Y]
    return [0, *heights.values(), *_column(values, Y)]


def _bins(chart: Chart, column: Column, rows: Sequence[Row]) -> tuple[VegaLite, list[Row]]:
    kind = _kind(column)
    # All edges have one zone, and an axis has none.
    coordinates = [
        [
            coordinate[:INSTANT] if isinstance(coordinate := _coordinate(row[end], kind), str) else coordinate
            for end in ("low", "high")
        ]
        for row in rows
    ]
    values = [
        {"low": low, "high": high, "count": row["count"]}
        for (low, high), row in zip(coordinates, rows, strict=True)
    ]
    scale: VegaLite = {"scale": {"type": "log"} if chart.scale == "log" else {"zero": False}}
    axis: VegaLite = (
        {"axis": time_axis(dates_of(values, "low"), None, chart.width)} if kind == "temporal" else {}
    )
    if kind == "quantitative" and chart.scale != "log":
        axis = whole_axis([edge for value in values for edge in (value["low"], value["high"])])
    counts = whole_axis([0, *_column(values, "count")]) | {"scale": {"zero": True}}
    return {
        "x": {"field": "low", "type": kind, "title": _text(chart.x), **scale, **axis},
        "x2": {"field": "high"},
        "y": {"field": "count", "type": "quantitative", "title": "rows", **counts},
        "y2": {"datum": 0},
    }, values


def _kind(column: Column) -> str:
    return {"number": "quantitative", "date": "temporal"}.get(column["type"], "nominal")


_DISCRETE = frozenset({"nominal", "ordinal"})
_LEGENDS = frozenset({COLOR, "size"})
_NULL, _EMPTY = "(NULL)", "(empty)"
_QUOTED = frozenset(
    """(NULL) (empty) __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ __proto__ constructor
    hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf""".split()
)
"""Texts that a category may not have as they are: they stand for NULL and '', or Vega finds them in each object."""


class _Labels:
    """The labels of categories, all of them different: Vega compares categories as texts, and NULL as "null"."""

    def __init__(self) -> None:
        self._labels: dict[tuple[type, Any], str] = {}
        self._used = {_NULL, _EMPTY}

    def of(self, value: Any) -> str:
        """The label of a value of the JSON."""
        if value is None or value == "":
            return _NULL if value is None else _EMPTY
        key = (type(value), value)
        if key not in self._labels:
            self._labels[key] = self._unused(_category(value))
        return self._labels[key]

    def _unused(self, text: str) -> str:
        short, number = _text(text), 2
        if short in _QUOTED or not short.strip():
            short = f'"{short}"'
        label = short
        while label in self._used:
            label, number = f"{short} ({number})", number + 1
        self._used.add(label)
        return label


def _category(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def _coordinate(value: Any, kind: str) -> Any:
    """The place of a value on a continuous scale; None if it has none."""
    if value is None:
        return None
    return instant_of(value) if kind == "temporal" else _number(value)


def palette(number: int) -> list[str]:
    """As many different colors: those of Tableau that Vega has, and beyond these, hues at even distances."""
    if number <= len(_TEN):
        return list(_TEN[:number])
    if number <= 2 * len(_TEN):
        return [*_TEN, *_LIGHT[: number - len(_TEN)]]
    tones = ((0.42, 0.75), (0.60, 0.55), (0.76, 0.65))
    hues = (colorsys.hls_to_rgb(index / number, *tones[index % len(tones)]) for index in range(number))
    return [
        f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}" for red, green, blue in hues
    ]


_TEN = (
    "#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#eeca3b", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac",
)  # fmt: skip
"""Vega's tableau10."""

_LIGHT = (
    "#9ecae9", "#ffbf79", "#bd2c38", "#439894", "#88d27a", "#b79a20", "#d6a5c9", "#d6005f", "#5c3d2e", "#79706e",
)  # fmt: skip
"""Further ones; most of them are those of Vega's tableau20."""


def _number(value: Any) -> int | float | None:
    """The value as a JSON number. A decimal that is written as text becomes the nearest float."""
    if isinstance(value, int) and abs(value) < 2**53:
        return int(value)
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

    config = chart.get("config", {})
    axis = {**_PICTURE_CONFIG["axis"], **config.get("axis", {})}
    chart = {**chart, "config": {**_PICTURE_CONFIG, **config, "axis": axis}}
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
    lines = chart["title"].get("subtitle", [])
    lines = [lines] if isinstance(lines, str) else lines
    return chart | {"title": chart["title"] | {"subtitle": [*lines, note]}}


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
