"""Each row is drawn, or the chart says how many are not: what stands in the picture is counted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from dualsql.charts import draw, picture, read_chart
from dualsql.charts.render import palette
from tests.charts.test_pictures import column

pytestmark = pytest.mark.quick(20)

SVG = "{http://www.w3.org/2000/svg}"
CATEGORIES = (
    "", None, "null", "NULL", "(empty)", "(NULL)", '"null"', '"(NULL)"', "(NULL) (2)", " ", "  ", "\t", "a", "A",
    "undefined", "NaN", "true", "1", "__proto__", "constructor", "toString", "valueOf", "hasOwnProperty", "x" * 100,
    "x" * 101,
)  # fmt: skip
OTHERS: Sequence[Any] = (True, False, 1, 1.5, 2.0, 2**60, 2**60 + 1)
"""Values of other kinds, which a column of SQLite may hold beside texts."""

COUNTED = {"x": "k", "y": {"aggregate": "count"}}


def shapes(chart: Any, kind: str) -> list[ET.Element]:
    """The marks of a picture: elements of this role."""
    tree = ET.fromstring(picture(chart, "svg").content)
    return [each for each in tree.iter() if each.get("aria-roledescription") == kind]


def boxes(chart: Any, kind: str = "bar") -> list[tuple[float, float, float, float]]:
    """Left, top, width and height of each bar."""
    found = []
    for shape in shapes(chart, kind):
        numbers = re.fullmatch(r"M([-.\d]+),([-.\d]+)h([-.\d]+)v([-.\d]+)h.*", shape.get("d", ""))
        assert numbers, shape.get("d")
        left, top, width, height = map(float, numbers.groups())
        found.append((left, top, width, height))
    return found


def columns(*encodings: str) -> list[Any]:
    return [column(name, encoding) for name, encoding in zip(("x", "y", "color"), encodings, strict=False)]


@pytest.mark.parametrize("values", [CATEGORIES, (*CATEGORIES, *OTHERS)], ids=["texts", "any"])
def test_each_category_has_a_bar_of_its_own(values: Sequence[Any]) -> None:
    rows = [{"x": value, "y": number} for number, value in enumerate(values, 1)]
    chart = draw(read_chart({**COUNTED, "mark": "bar"}), columns("text", "integer"), rows)
    labels = [value["x"] for value in chart["data"]["values"]]
    assert len(set(labels)) == len(labels) == len(values)
    assert all(isinstance(label, str) and label.strip() for label in labels)
    bars = sorted(boxes(chart), key=lambda box: box[1])
    assert len(bars) == len(values), "they lie, one below the other"
    assert len({(left, height) for left, _, _, height in bars}) == 1, "each begins at zero"
    assert all(above[1] + above[3] <= below[1] for above, below in pairwise(bars))
    unit = bars[0][2]
    assert [box[2] for box in bars] == pytest.approx([unit * number for number in range(1, len(values) + 1)])


@pytest.mark.parametrize("mark", ["bar", "line", "point", "heatmap"])
def test_each_pair_of_categories_is_drawn(mark: str) -> None:
    pairs = list(product(CATEGORIES[:5], CATEGORIES[:9]))
    rows = [{"x": x, "color": color, "y": number} for number, (x, color) in enumerate(pairs, 1)]
    wanted: dict[str, Any] = {**COUNTED, "mark": mark, "color": "c"}
    described = columns("text", "integer", "text")
    kind = {"bar": "bar", "line": "line mark", "point": "circle", "heatmap": "rect mark"}[mark]
    if mark == "heatmap":
        wanted |= {"y": "c", "color": {"aggregate": "count"}}
        rows = [{"x": row["x"], "y": row["color"], "color": row["y"]} for row in rows]
        described = columns("text", "text", "integer")
    chart = draw(read_chart(wanted), described, rows)
    marks = shapes(chart, kind)
    assert len(chart["data"]["values"]) == len(pairs)
    if mark == "line":
        assert [len(re.findall("[ML]", shape.get("d", ""))) for shape in marks] == [5] * 9
    else:
        assert len(marks) == len(pairs)
    if mark in ("bar", "heatmap"):
        places = [tuple(round(number, 2) for number in box) for box in boxes(chart, kind)]
        assert len(set(places)) == len(pairs), "none covers another"
    if mark == "bar":
        for left in {box[0] for box in boxes(chart)}:
            stack = sorted((box for box in boxes(chart) if box[0] == left), key=lambda box: box[1])
            assert all(a[1] + a[3] == pytest.approx(b[1]) for a, b in pairwise(stack)), "a gap"
            assert stack[-1][1] + stack[-1][3] == pytest.approx(400)


NUMBERS = (None, "NaN", "Infinity", "-Infinity", 0, 1, -3, 2.5, "1.50", 2**60, "1e999")
DATES = (None, "infinity", "-infinity", "0044-03-15 BC", "12026-01-01", "2026-01-31", "0001-01-01", "9999-12-31",
         "2026-03-29T02:30:00", "2026-03-29T02:30:00.123456+05:30")  # fmt: skip


def left_out(chart: Any) -> int:
    """How many marks the lines below the title say are not drawn."""
    lines = chart["title"].get("subtitle", [])
    notes = re.findall(r"Not drawn: ([\d,]+) ", "\n".join([lines] if isinstance(lines, str) else lines))
    return sum(int(number.replace(",", "")) for number in notes)


@pytest.mark.quick(8)
@pytest.mark.parametrize("x", ["text", "float", "datetime"])
@pytest.mark.parametrize(
    ("mark", "color"),
    [
        *product(("bar", "line", "point"), (None, "text", "float", "datetime")),
        *product(("heatmap",), ("text", "float", "datetime")),  # on its second axis
    ],
)
def test_a_mark_is_drawn_or_counted(mark: str, x: str, color: str | None) -> None:
    cells: dict[Any, Sequence[Any]] = {
        "text": CATEGORIES[:9],
        "float": NUMBERS,
        "datetime": DATES,
        None: (None,),
    }
    named = product(cells[x], NUMBERS, cells[color][:7])
    rows = [{"x": cell, "y": number, "color": tint} for cell, number, tint in named]
    wanted: dict[str, Any] = {"mark": mark, "x": "k", "y": {"aggregate": "sum", "field": "n"}}
    described = columns(x, "float", *([color] if color else []))
    if mark == "heatmap":
        assert color is not None
        wanted |= {"y": "c", "color": {"aggregate": "sum", "field": "n"}}
        rows = [{"x": row["x"], "y": row["color"], "color": row["y"]} for row in rows]
        described = columns(x, color, "float")
    elif color:
        wanted["color"] = "c"
    chart = draw(read_chart(wanted), described, rows)
    kind = {"bar": "bar", "line": "line mark", "point": "circle", "heatmap": "rect mark"}[mark]
    marks = shapes(chart, kind)
    number = (
        sum(len(re.findall("[ML]", shape.get("d", ""))) for shape in marks) if mark == "line" else len(marks)
    )
    assert number + left_out(chart) == len(rows)
    assert 0 < number < len(rows)


def distances(number: int) -> Iterator[float]:
    colors = [tuple(int(color[at : at + 2], 16) for at in (1, 3, 5)) for color in palette(number)]
    for at, one in enumerate(colors):
        for other in colors[:at]:
            yield math.dist(one, other)


def test_no_two_colors_are_equal() -> None:
    assert min(min(distances(number)) for number in range(2, 21)) > 25, "of 441 from black to white"
    assert min(min(distances(number)) for number in range(21, 120)) > 0
    rows = [{"x": x, "color": f"c{tint}", "y": 1} for x in "ab" for tint in range(16)]
    chart = draw(
        read_chart({**COUNTED, "mark": "bar", "color": "c"}), columns("text", "integer", "text"), rows
    )
    assert len({shape.get("fill") for shape in shapes(chart, "bar")}) == 16


def test_a_line_over_many_dates_has_no_dots() -> None:
    days = [{"x": f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}", "y": day} for day in range(300)]
    wanted = read_chart({**COUNTED, "mark": "line"})
    described = columns("date", "integer")
    assert shapes(draw(wanted, described, days), "point") == []
    assert len(shapes(draw(wanted, described, days[:30]), "point")) == 30


def texts(chart: Any) -> list[str]:
    tree = ET.fromstring(picture(chart, "svg").content)
    return ["".join(element.itertext()) for element in tree.iter(f"{SVG}text")]


@pytest.mark.parametrize("mark", ["line", "point"])
@pytest.mark.parametrize("encoding", ["integer", "float"])
def test_a_year_has_no_separator(mark: str, encoding: str) -> None:
    for years in (range(1955, 1965), range(1900, 2020)):
        rows = [{"x": year, "y": 12_000 + 1_000 * (year - 1900)} for year in years]
        lines = texts(draw(read_chart({**COUNTED, "mark": mark}), columns(encoding, "integer"), rows))
        assert "1960" in lines and not any(re.fullmatch("[12],[0-9]{3}", text) for text in lines)
        assert any(re.fullmatch(r"\d\d+,000", text) for text in lines), "five digits have one"


def test_bars_with_long_names_lie() -> None:
    names = [f"The name of state number {number}" for number in range(20)]
    rows = [{"x": name, "y": number} for number, name in enumerate(names, 1)]
    chart = draw(read_chart({**COUNTED, "mark": "bar"}), columns("text", "integer"), rows)
    tree = ET.fromstring(picture(chart, "svg").content)
    labels = [each for each in tree.iter(f"{SVG}text") if "".join(each.itertext()) in names]
    assert len(labels) == 20 and not any(
        "rotate(" in each.get("transform", "").replace("rotate(0)", "") for each in labels
    )


BY_MONTH = {"field": "day", "bucket": "month"}


@pytest.mark.parametrize(
    ("mark", "x", "y", "color", "title"),
    [
        ("bar", "carrier", {"aggregate": "avg", "field": "delay"}, None, "Average delay by carrier"),
        ("bar", "carrier", {"aggregate": "count"}, None, "Number of rows by carrier"),
        (
            "line",
            BY_MONTH,
            {"aggregate": "sum", "field": "Cost"},
            "city",
            "Total Cost by month of day and city",
        ),
        ("point", "distance", "delay", None, "Delay by distance"),
        ("histogram", "delay", None, None, "Distribution of delay"),
        (
            "heatmap",
            "dest",
            BY_MONTH,
            {"aggregate": "count_distinct", "field": "tail"},
            "Number of distinct tail by dest and month of day",
        ),
    ],
)
def test_titles(mark: str, x: Any, y: Any, color: Any, title: str) -> None:
    assert read_chart({"mark": mark, "x": x, "y": y, "color": color}).title_words == title


@pytest.mark.parametrize("mark", ["bar", "line", "point", "heatmap", "histogram"])
def test_a_chart_of_no_rows_says_so(mark: str) -> None:
    wanted: dict[str, Any] = {**COUNTED, "mark": mark}
    described = columns("text", "integer")
    if mark == "heatmap":
        wanted |= {"y": "c", "color": {"aggregate": "count"}}
        described = columns("text", "text", "integer")
    elif mark == "histogram":
        wanted, described = {"mark": mark, "x": "k"}, columns("integer")
    lines = texts(draw(read_chart(wanted), described, []))
    assert "No rows" in lines and "NaN" not in lines


def test_a_heat_map_of_few_rows_has_room_for_its_legend_of_whole_numbers() -> None:
    rows = [{"x": x, "y": y, "color": 9 + (x == "a")} for x in "ab" for y in "cd"]
    wanted = read_chart({"mark": "heatmap", "x": "k", "y": "c", "color": {"aggregate": "count"}})
    chart = draw(wanted, columns("text", "text", "integer"), rows)
    assert {text for text in texts(chart) if re.fullmatch(r"[\d.]+", text)} == {"9", "10"}
    assert all(height > 64 for _, _, _, height in boxes(chart, "rect mark"))


@pytest.mark.parametrize("mark", ["line", "point", "heatmap"])
def test_long_names_are_not_upright(mark: str) -> None:
    rows = [{"x": f"The name of state number {n}", "y": n, "color": n} for n in range(20)]
    wanted: dict[str, Any] = {**COUNTED, "mark": mark}
    if mark == "heatmap":
        wanted |= {"y": "c", "color": {"aggregate": "count"}}
    chart = draw(read_chart(wanted), columns("text", "integer", "integer")[: 2 + (mark == "heatmap")], rows)
    content = picture(chart, "svg").content
    assert len(re.findall(rb"rotate\(315\)[^>]*>The name of state number \d+<", content)) == 20


def test_a_chart_is_as_wide_as_is_asked() -> None:
    days = [{"x": f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}", "y": day} for day in range(300)]
    wide = read_chart({**COUNTED, "mark": "line"})
    labels: list[int] = []
    for chart in (replace(wide, width=240), wide):
        picture = draw(chart, columns("date", "integer"), days)
        assert picture["width"] == chart.width
        labels.append(sum(bool(re.fullmatch(r"2026-\d\d", text)) for text in texts(picture)))
    assert 0 < labels[0] < labels[1]
