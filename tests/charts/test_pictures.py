"""Pictures are drawn of data alone: the renderer asks nobody, and a hostile text is a text."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import vl_convert
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import QueryExecutionError
from dualsql.charts import Chart, chart_of, draw, picture, read_chart
from dualsql.charts.render import _PICTURE_CONFIG
from tests import engines
from tests.http.application import Application, running

PNG = b"\x89PNG\r\n\x1a\n"
METADATA = MetaData()


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A listener on loopback that hears of every attempt to reach it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def has_heard(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def address_of(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}/data.json"


def hostile_texts(address: str) -> list[str]:
    return [
        address,
        f'"><image href="{address}"/><script>alert(1)</script>',
        f"{{'signal': 'load(\"{address}\")'}}",
        f'{{"url": "{address}"}}',
        "datum.x", "a.b[0]['c']", "\\u0000 \x01", "]]>", "&lt;b&gt;", "'; DROP TABLE words; --", "\u202e txt",
        "x" * 5_000, "x" * 5_000 + "y", "null", "", "__proto__",
    ]  # fmt: skip


words = Table(
    "words",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("a.b['c']", String(6_000), key="text"),
    Column("__proto__", Integer, key="number"),
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listening() as listener:
        yield listener


@pytest.fixture
async def application(tmp_path: Path, listener: socket.socket) -> AsyncIterator[Application]:
    async with engines.opened(engines.sqlite_url_in(tmp_path)) as engine:
        await _fill(engine, address_of(listener))
        async with running(engine, tables=METADATA) as application:
            yield application


async def _fill(engine: AsyncEngine, address: str) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        rows = [{"text": text, "number": number} for number, text in enumerate(hostile_texts(address))]
        await connection.execute(insert(words), [*rows, {"text": None, "number": None}])


def hostile(address: str, **changes: Any) -> dict[str, Any]:
    specification = {
        "mark": "bar",
        "x": "a.b['c']",
        "y": {"aggregate": "sum", "field": "__proto__"},
        "title": f'<script src="{address}"> {address}',
    }
    return {**specification, **changes}


@pytest.mark.long
def test_the_listener_would_hear_a_renderer_that_asks(listener: socket.socket) -> None:
    asking = {"data": {"url": address_of(listener)}, "mark": "bar", "encoding": {}}
    with pytest.raises(ValueError, match="not allowed"):
        vl_convert.vegalite_to_svg(asking, allowed_base_urls=[])
    assert not has_heard(listener)
    with pytest.raises(QueryExecutionError):
        picture(asking, "svg")
    assert not has_heard(listener)


@pytest.mark.long
@pytest.mark.parametrize("mark", ["bar", "line", "point"])
async def test_hostile_names_titles_and_cells(
    application: Application, listener: socket.socket, mark: str
) -> None:
    address = address_of(listener)
    result = await application.server.create_response(select(words), name="Words")
    chart = await application.server.charts.create(
        result, hostile(address, mark=mark, color="a.b['c']"), image="png"
    )
    assert chart.image is not None and chart.image.content.startswith(PNG)
    svg = await application.http.get(f"/resources/{chart.resource_id}/chart?format=svg")
    tree = ET.fromstring(svg.content)
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert tags <= {"svg", "rect", "g", "path", "line", "text", "title", "desc", "defs", "clipPath", "tspan"}
    assert not any("href" in name for element in tree.iter() for name in element.attrib)
    assert svg.headers["content-security-policy"].endswith("sandbox")
    assert not has_heard(listener)


async def test_what_is_served_holds_neither_addresses_nor_expressions(
    application: Application, listener: socket.socket
) -> None:
    result = await application.server.create_response(select(words), name="Words")
    chart = await application.server.charts.create(result, hostile(address_of(listener)))
    body = (await application.http.get(f"/resources/{chart.resource_id}/chart")).json()
    assert set(body) == {"$schema", "title", "width", "height", "data", "mark", "encoding"}
    assert set(body["data"]) == {"values"}
    assert not {"url", "expr", "signal", "href", "transform", "params"} & set(_keys(body))
    assert {part["field"] for part in body["encoding"].values()} == {"x", "y"}
    shown = [value["x"] for value in body["data"]["values"]]
    assert len(set(shown)) == len(shown), "different texts stay different"
    assert all(text is None or len(text) <= 90 for text in shown)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part)


async def test_a_tool_answers_with_a_picture(application: Application) -> None:
    result = await application.server.create_response(select(words), name="Words", sample_size=1)
    chart = await application.server.charts.create(
        result, {"mark": "histogram", "x": "__proto__", "title": "Numbers"}, image="png"
    )
    tool_result = chart.to_call_tool_result()
    kinds = [block.type for block in tool_result.content]
    assert kinds == ["text", "image"]
    image: Any = tool_result.content[1]
    assert (image.mime_type, b64decode(image.data)[:8]) == ("image/png", PNG)
    assert "Distribution of __proto__ (histogram), computed from all rows" in chart.to_text()


def test_metadata_may_be_anything() -> None:
    """They are not signed."""
    assert chart_of({}) is None
    forgeries: list[Any] = [
        None,
        1,
        [],
        {"mark": "bar"},
        {"mark": {"expr": "1"}},
        {"mark": "bar", "x": {"x": 1}, "y": 2},
    ]
    assert [chart_of({"chart": forged}) for forged in forgeries] == [None] * len(forgeries)


def test_numbers_beyond_json_are_left_out_or_near() -> None:
    chart = Chart(mark="bar", x="a", y="b", aggregate="sum")
    columns: Any = [
        {"name": "x", "type": "string", "encoding": "text"},
        {"name": "y", "type": "number", "encoding": "decimal"},
    ]
    rows = [
        {"x": "a", "y": value}
        for value in ("1.50", 2**60, "NaN", "Infinity", "1e999", "no number", None, True)
    ]
    picture = draw(chart, columns, rows)
    assert [value["y"] for value in picture["data"]["values"]] == [1.5, float(2**60), 1]
    assert picture["title"]["subtitle"] == [
        "Not drawn: 4 bars whose total b is no finite number",
        "Not drawn: 1 bar whose total b is NULL",
    ]
    json.dumps(picture, allow_nan=False)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    chart = read_chart({"mark": "histogram", "x": "a"})
    with pytest.raises(Exception, match=r"dualsql\[charts\]"):
        picture(draw(chart, [{"name": "x", "type": "number", "encoding": "integer"}], []), "png")


COUNT = read_chart({"mark": "bar", "x": "a", "y": {"aggregate": "count"}})


def column(name: str, encoding: str) -> Any:
    kinds = {"integer": "number", "float": "number", "date": "date", "datetime": "date"}
    return {"name": name, "type": kinds.get(encoding, "string"), "encoding": encoding}


def labels(chart: Chart, columns: list[Any], rows: list[Any]) -> list[str]:
    """The texts of the picture, in the order in which they are drawn."""
    tree = ET.fromstring(picture(draw(chart, columns, rows), "svg").content)
    return ["".join(element.itertext()) for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def buckets(bucket: str, *dates: str, mark: str = "line") -> list[str]:
    specification = {
        "mark": mark,
        "x": {"field": "day", "bucket": bucket},
        "y": {"aggregate": "count"},
        "title": "T",
    }
    rows = [{"x": date, "y": number + 20} for number, date in enumerate(dates)]
    words = labels(read_chart(specification), [column("x", "datetime"), column("y", "integer")], rows)
    return words[: words.index("day")]


@pytest.mark.quick(2)
@pytest.mark.parametrize("mark", ["line", "bar"])
def test_an_axis_of_time_tells_the_year(mark: str) -> None:
    months = [f"2025-{month:02d}-01T00:00:00" for month in range(3, 8)]
    assert buckets("month", *months, mark=mark) == [f"2025-{month:02d}" for month in range(3, 8)]
    # With a zone, the beginning of a bucket is the same date, wherever it is drawn.
    zoned = [f"{month}+14:00" for month in months]
    assert buckets("month", *zoned, mark=mark) == [f"2025-{month:02d}" for month in range(3, 8)]
    quarters = ("2024-10-01", "2025-01-01", "2025-04-01")
    assert buckets("quarter", *quarters, mark=mark) == ["2024-Q4", "2025-Q1", "2025-Q2"]
    assert buckets("year", "1999-01-01", "2001-01-01", mark=mark) == ["1999", "2000", "2001"]
    weeks = ("2024-12-23", "2024-12-30", "2025-01-06")
    assert buckets("week", *weeks, mark=mark) == list(weeks), "they begin on Monday"
    hours = ("2025-03-01T22:00:00", "2025-03-02T00:00:00")
    assert buckets("hour", *hours, mark=mark) == ["2025-03-01 22:00", "2025-03-01 23:00", "2025-03-02 00:00"]


@pytest.mark.quick(2)
@pytest.mark.parametrize("bucket", ["hour", "day", "week", "month", "quarter", "year"])
def test_an_axis_of_time_has_room_for_its_labels(bucket: str) -> None:
    starts = buckets(bucket, "0001-01-01T00:00:00", "9999-12-31T00:00:00")
    assert 2 < len(starts) <= 20
    assert all(len(label) == 4 for label in starts)
    assert len(buckets(bucket, "2029-01-01T00:00:00")) == 1


def test_whole_numbers_have_no_halves() -> None:
    rows = [{"x": "a", "y": 2}, {"x": "b", "y": 1}]
    words = labels(COUNT, [column("x", "text"), column("y", "integer")], rows)
    assert words[:6] == ["a", "b", "a", "0", "1", "2"]
    points = read_chart({"mark": "point", "x": "a", "y": "b"})
    columns = [column("x", "integer"), column("y", "integer"), column("times", "integer")]
    words = labels(points, columns, [{"x": 1, "y": 5, "times": 3}, {"x": 2, "y": 6, "times": 1}])
    assert not [label for label in words if "." in label]
    assert words[words.index("b") + 1 :][:3] == ["1", "3", "rows"]
    words = labels(points, columns, [{"x": 1, "y": 5, "times": 1}, {"x": 2, "y": 6, "times": 1}])
    assert "rows" not in words, "all points are single rows"


LETTER = "\N{BAMUM LETTER A}"


def test_characters_without_a_font_are_told(caplog: pytest.LogCaptureFixture) -> None:
    chart = draw(COUNT, [column("x", "text"), column("y", "integer")], [{"x": LETTER, "y": 1}])
    picture_of_ours, untold = picture(chart, "png").content, vl_convert.vegalite_to_png(chart, scale=1.5)
    assert picture_of_ours != untold
    assert "has U+A6A0" in caplog.text and "fonts-noto-cjk" in caplog.text
    caplog.clear()
    plain = draw(COUNT, [column("x", "text"), column("y", "integer")], [{"x": "Zürich, Αθήνα", "y": 1}])
    with_config = plain | {"config": _PICTURE_CONFIG}
    assert picture(plain, "png").content == vl_convert.vegalite_to_png(with_config, scale=1.5)
    assert caplog.text == ""


@pytest.mark.long
def test_a_font_of_the_machine_is_used(tmp_path: Path) -> None:
    """Fonts are looked for once in a process, hence another one."""
    fonts = tmp_path / ".local" / "share" / "fonts"
    fonts.mkdir(parents=True)
    write_font(fonts / "square.ttf")
    program = f"from dualsql.charts.render import _has_glyph; print(_has_glyph({LETTER!r}))"
    environment = {name: value for name, value in os.environ.items() if name != "XDG_DATA_HOME"}
    asked = [sys.executable, "-c", program]
    process = subprocess.run(
        asked, env=environment | {"HOME": str(tmp_path)}, capture_output=True, check=True
    )
    assert process.stdout.split() == [b"True"]


def write_font(path: Path) -> None:
    """A font with a square for one letter."""
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for corner in ((100, 700), (800, 700), (800, 0)):
        pen.lineTo(corner)
    pen.closePath()
    font = FontBuilder(1_000, isTTF=True)
    font.setupGlyphOrder([".notdef", "square"])
    font.setupCharacterMap({ord(LETTER): "square"})
    font.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "square": pen.glyph()})
    font.setupHorizontalMetrics({".notdef": (1_000, 0), "square": (1_000, 100)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Square", "styleName": "Regular", "psName": "Square"})
    font.setupOS2(usWeightClass=400, usWidthClass=5, sTypoAscender=800, sTypoDescender=-200)
    font.setupPost()
    font.save(path)


def test_labels_of_an_axis_lie_beside_each_other() -> None:
    """Vega moves the first and the last one inwards unless it is told not to."""
    values = [{"x": year, "y": year % 7} for year in range(1940, 2031)]
    axis = {"type": "quantitative", "axis": {"format": "d", "values": list(range(1940, 2031, 5))}}
    chart = {
        "width": 560,
        "height": 100,
        "data": {"values": values},
        "mark": {"type": "point"},
        "encoding": {
            "x": {"field": "x", **axis, "scale": {"zero": False}},
            "y": {"field": "y", "type": "quantitative"},
        },
    }
    svg = ET.fromstring(picture(chart, "svg").content)
    years = [
        each
        for each in svg.iter("{http://www.w3.org/2000/svg}text")
        if re.fullmatch("19[0-9]{2}|20[0-9]{2}", each.text or "")
    ]
    assert len(years) > 10
    assert {each.get("text-anchor") for each in years} == {"middle"}
