"""Draws a chart as Vega-Lite and as a picture.

Vega reads field names as paths, and objects as expressions or addresses. Therefore the fields have fixed names and only
strings, numbers, booleans and null of the data reach the specification. The renderer has no access to network or files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from dualsql.charts.chart import COLOR, TIMES, Chart, X, Y
from dualsql.errors import ConfigurationError, QueryExecutionError
from dualsql.formats.text import single_line
from dualsql.response import Picture
from dualsql_client.wire import Column, Row

VegaLite = dict[str, Any]

MEDIA_TYPE = "application/vnd.vegalite+json"
MOST_MARKS = 1_000

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_WIDTH, _HEIGHT = 640, 400
_LONGEST_TEXT = 80
_DATE = len("2026-11-21")
_MARKS: Mapping[str, VegaLite] = {
    "bar": {"type": "bar"},
    "line": {"type": "line", "point": True},
    "point": {"type": "circle", "opacity": 0.7},
    "histogram": {"type": "rect", "stroke": "white"},
}


def drawn(chart: Chart, columns: Sequence[Column], rows: Sequence[Row], *, is_cut: bool) -> VegaLite:
    """The chart of these rows, as plain JSON.

    Args:
        columns, rows: the answer to `chart_query(chart)`, or the bins of a histogram: low, high and count.
        is_cut: the answer has more rows than these.
    """
    if chart.mark == "histogram":
        encoding, values = _bins(chart, columns[0], rows)
    else:
        encoding, values = _marks(chart, columns, rows)
    title: VegaLite = {"text": _text(chart.title or chart.words)}
    if is_cut:
        most = "most frequent" if chart.aggregate is None and chart.sort is None else "first"
        title["subtitle"] = f"The {most} {len(rows):,} of more"
    return {
        "$schema": _SCHEMA,
        "title": title,
        "width": _WIDTH,
        "height": _HEIGHT,
        "data": {"values": values},
        "mark": dict(_MARKS[chart.mark]),
        "encoding": encoding,
    }


def _marks(chart: Chart, columns: Sequence[Column], rows: Sequence[Row]) -> tuple[VegaLite, list[Row]]:
    kinds = {column["name"]: _kind(column) for column in columns}
    if chart.mark == "bar" and kinds[X] == "quantitative":
        kinds[X] = "ordinal"  # a bar has a width, and a number none
    titles = {X: chart.x, Y: chart.measured, COLOR: chart.color}
    encoding: VegaLite = {
        name: {"field": name, "type": kinds[name], "title": _text(str(titles[name]))}
        for name in (X, Y, COLOR)
        if name in kinds
    }
    if kinds[X] in ("nominal", "ordinal"):
        encoding[X]["sort"] = None  # as the rows come
    if TIMES in kinds:
        encoding["size"] = {"field": TIMES, "type": "quantitative", "title": "rows"}
    texts = _Texts()
    return encoding, [{name: _value(row[name], kind, texts) for name, kind in kinds.items()} for row in rows]


def _bins(chart: Chart, column: Column, rows: Sequence[Row]) -> tuple[VegaLite, list[Row]]:
    kind = _kind(column)
    values = [
        {"low": _value(row["low"], kind), "high": _value(row["high"], kind), "count": row["count"]}
        for row in rows
    ]
    return {
        "x": {"field": "low", "type": kind, "title": _text(chart.x), "scale": {"zero": False}},
        "x2": {"field": "high"},
        "y": {"field": "count", "type": "quantitative", "title": "rows", "scale": {"zero": True}},
        "y2": {"datum": 0},
    }, values


def _kind(column: Column) -> str:
    return {"number": "quantitative", "date": "temporal"}.get(column["type"], "nominal")


class _Texts:
    """Shortens texts to the length of a label; different texts keep different labels."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._taken: set[str] = set()

    def shown(self, text: str) -> str:
        """The label of `text`."""
        if text not in self._shown:
            short, number = _text(text), 2
            label = short
            while label in self._taken:
                label, number = f"{short} ({number})", number + 1
            self._shown[text] = label
            self._taken.add(label)
        return self._shown[text]


def _value(value: Any, kind: str, texts: _Texts | None = None) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if kind == "quantitative":
        return _number(value)
    if isinstance(value, int | float):
        return value
    if kind == "temporal":
        # Vega takes a date alone for midnight in UTC, which is the day before in half of all time zones.
        return f"{value}T00:00:00" if len(str(value)) == _DATE else _text(str(value))
    return (texts or _Texts()).shown(value if isinstance(value, str) else str(value))


def _number(value: Any) -> int | float | None:
    """A JSON number; the nearest float of a decimal that is written as text."""
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    try:
        found = float(Decimal(str(value)))
    except (InvalidOperation, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _text(text: str) -> str:
    return single_line(text, _LONGEST_TEXT)


PictureFormat = Literal["png", "svg"]

_SCALE = 1.5
_NOWHERE: list[str] = []
"""The addresses that data may come from. Without it, vl-convert fetches any address."""


def picture(drawn: VegaLite, kind: PictureFormat) -> Picture:
    """The picture; takes a core for about a tenth of a second, a few seconds the first time.

    Raises:
        ConfigurationError: the extra `charts` is not installed.
        QueryExecutionError: it could not be drawn.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise ConfigurationError(
            "Pictures require vl-convert-python.", hint='pip install "dualsql[charts]"'
        ) from error
    try:
        if kind == "png":
            content = vl_convert.vegalite_to_png(drawn, scale=_SCALE, allowed_base_urls=_NOWHERE)
            return Picture(content, "image/png")
        svg = vl_convert.vegalite_to_svg(drawn, allowed_base_urls=_NOWHERE)
        return Picture(svg.encode(), "image/svg+xml")
    except ValueError as error:
        raise QueryExecutionError("The chart could not be drawn.", hint="Request it as Vega-Lite.") from error
