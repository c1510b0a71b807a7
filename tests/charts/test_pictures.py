"""Pictures are drawn of data alone: the renderer asks nobody, and a hostile text is a text."""

from __future__ import annotations

import json
import socket
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import vl_convert
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import QueryExecutionError
from dualsql.charts import Chart, chart_of, drawn, picture, read_chart
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
    asked = {
        "mark": "bar",
        "x": "a.b['c']",
        "y": {"aggregate": "sum", "field": "__proto__"},
        "title": f'<script src="{address}"> {address}',
    }
    return {**asked, **changes}


def test_the_listener_would_hear_a_renderer_that_asks(listener: socket.socket) -> None:
    asking = {"data": {"url": address_of(listener)}, "mark": "bar", "encoding": {}}
    with pytest.raises(ValueError, match="not allowed"):
        vl_convert.vegalite_to_svg(asking, allowed_base_urls=[])
    assert not has_heard(listener)
    with pytest.raises(QueryExecutionError):
        picture(asking, "svg")
    assert not has_heard(listener)


@pytest.mark.quick(1)
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
    found = (await application.http.get(f"/resources/{chart.resource_id}/chart")).json()
    assert set(found) == {"$schema", "title", "width", "height", "data", "mark", "encoding"}
    assert set(found["data"]) == {"values"}
    assert not {"url", "expr", "signal", "href", "transform", "params"} & set(_keys(found))
    assert {part["field"] for part in found["encoding"].values()} == {"x", "y"}
    shown = [value["x"] for value in found["data"]["values"]]
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
    assert "Histogram of __proto__, computed from all rows" in chart.to_text()


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


def test_numbers_beyond_json_are_none_or_near() -> None:
    chart = Chart(mark="bar", x="a", y="b", aggregate="sum")
    columns: Any = [{"name": "x", "type": "string"}, {"name": "y", "type": "number"}]
    rows = [
        {"x": "a", "y": value}
        for value in ("1.50", 2**60, "NaN", "Infinity", "1e999", "no number", None, True)
    ]
    values = [value["y"] for value in drawn(chart, columns, rows, is_cut=False)["data"]["values"]]
    assert values == [1.5, float(2**60), None, None, None, None, None, True]
    json.dumps(values, allow_nan=False)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    chart = read_chart({"mark": "histogram", "x": "a"})
    with pytest.raises(Exception, match=r"dualsql\[charts\]"):
        picture(
            drawn(chart, [{"name": "x", "type": "number", "encoding": "integer"}], [], is_cut=False), "png"
        )
