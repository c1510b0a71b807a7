"""Cells of millions of elements: of a sample no more is written than is shown, and pages are written in a thread."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from json import JSONDecodeError, JSONDecoder
from random import Random
from typing import Any

import httpx
import pytest
from sqlalchemy import JSON, Column, Integer, MetaData, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer, Pages
from dualsql.columns.pieces import read_in_pieces
from dualsql.feature_list import default_features
from dualsql.formats.cells import RecordMaker, run_heavy
from dualsql.formats.excerpts import fit, table
from dualsql.formats.json import dumps
from dualsql.formats.table import FORMATS
from dualsql.formats.text import beginning, cell, csv_cell, holds_more
from tests.quiet_core import on_a_quiet_core
from tests.waiting import longest_pause


def random_value(random: Random, depth: int) -> Any:
    kind = random.randrange(5 if depth else 3)
    if kind == 3:
        return [random_value(random, depth - 1) for _ in range(random.randrange(6))]
    if kind == 4:
        return {f"k{number}": random_value(random, depth - 1) for number in range(random.randrange(4))}
    return (random.randrange(1000), "ä" * random.randrange(9), None)[kind]


def elements(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(1 + elements(part) for part in parts)


@pytest.mark.parametrize("seed", range(4))
def test_a_beginning_is_written_as_the_value_begins(seed: int) -> None:
    random = Random(seed)
    for _ in range(500):
        value, most = random_value(random, 5), random.randrange(60)
        part, whole = dumps(beginning(value, most)).decode(), dumps(value).decode()
        if part != whole:
            assert len(part) > most
            assert part[:most] == whole[:most]
        assert elements(beginning(value, most)) <= max(elements(value) if part == whole else 0, 2 * most + 2)


def test_elements_are_counted_at_any_depth() -> None:
    assert not holds_more([[1, 2], {"a": [3]}], 9)
    assert holds_more([[[[[1] * 10]]]], 9)
    assert holds_more([{"a": {"b": [1] * 10}}], 9)
    assert not holds_more(["a" * 99, 1, None], 0)


SIZE = 2_000_000
CELLS: dict[str, Callable[[int], Any]] = {
    "numbers": lambda size: [1] * size,
    "large numbers": lambda size: [2**80] * size,
    "texts": lambda size: ["a"] * size,
    "lists": lambda size: [[1]] * (size // 2),
    "objects": lambda size: [{"a": 1}] * (size // 2),
    "one in another": lambda size: {"a": [{"b": [1] * size}]},
    "names": lambda size: {f"k{number}": number for number in range(size // 2)},
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("kind", CELLS)
def test_a_sample_takes_time_for_what_it_shows(kind: str) -> None:
    """2,000,000 elements took up to 4 s."""
    value = CELLS[kind](SIZE)
    begun = time.thread_time()
    for write in (cell, csv_cell):
        assert write(value, 80).endswith(("…", '…"'))
    for text_format in ("markdown", "csv"):
        shown = table(["id", "body"], [{"id": 1, "body": value}], budget=4_000, text_format=text_format)
        assert shown.width is not None and len(shown.text) <= 4_000
    fitted = fit([{"id": 1, "body": value}], 16_000)
    assert fitted.width is not None and len(dumps(fitted.rows)) <= 17_000
    assert on_a_quiet_core(time.thread_time() - begun) < 0.25


TABLE = Table("documents", MetaData(), Column("id", Integer, primary_key=True), Column("body", JSON))


READS = (
    *("", "?limit=10", "?limit=1&offset=0", "/view", "/profile"),
    *(f"/rows?format={name}" for name in FORMATS if name != "xlsx"),
)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["numbers", "lists", "objects", "names"])
async def test_the_event_loop_runs_while_one_cell_is_written(
    kind: str, database_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    """It stood still for 1 s, of 400,000 elements. Python's decoder in C holds its lock, also in a thread."""
    engine = make_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(TABLE.metadata.create_all)
        rows = [{"id": 1, "body": CELLS[kind](SIZE // 5)}, {"id": 2, "body": [1]}]
        await connection.execute(insert(TABLE), rows)
    del rows
    pauses = {}
    async with DualResponseServer(
        database_url,
        base_url="http://testserver/resources",
        tables=TABLE.metadata,
        features=default_features(Pages()),
    ) as server:
        query = select(TABLE.c.id, TABLE.c.body).order_by(TABLE.c.id)
        made, pauses["create"] = await longest_pause(server.create_response(query, name="x"))
        app = Starlette(routes=[Mount("/resources", server.router())])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
            for read in READS:
                path = f"/resources/{made.resource_id}{read}"
                response = http.get(path, timeout=60)
                answer, pauses[read] = await longest_pause(response)
                assert answer.status_code == 200
    # Up to 0.1 s on an idle machine; asyncpg decodes on the event loop.
    assert max(pauses.values()) < 0.4, pauses


@pytest.mark.parametrize(("size", "is_beside"), [(1, False), (SIZE // 20, True)])
async def test_a_page_with_a_large_cell_is_written_beside_the_event_loop(
    size: int,
    is_beside: bool,
    sqlite_url: str,
    make_engine: Callable[[str], AsyncEngine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, writers = make_engine(sqlite_url), set[threading.Thread]()
    async with engine.begin() as connection:
        await connection.run_sync(TABLE.metadata.create_all)
        await connection.execute(insert(TABLE), [{"id": 1, "body": [1] * size}])
    records = RecordMaker.page_records

    def noted(maker: RecordMaker, rows: Any) -> Any:
        writers.add(threading.current_thread())
        return records(maker, rows)

    async with DualResponseServer(
        sqlite_url, base_url="http://testserver/resources", tables=TABLE.metadata, features=[]
    ) as server:
        created = await server.create_response(select(TABLE), name="x")
        monkeypatch.setattr(RecordMaker, "page_records", noted)
        page = await server.read_page(created.resource_id, None)
    assert len(page.rows) == len(writers) == 1 and page.is_heavy is is_beside
    assert (writers != {threading.main_thread()}) is is_beside


def test_a_document_in_pieces_is_the_document() -> None:
    decoder, random = JSONDecoder(), Random(1)

    def outcome(read: Callable[[], Any]) -> str:
        try:
            return repr(read())
        except JSONDecodeError as error:
            return str(error)

    for _ in range(1_000):
        value = [random_document(random, 4), random_value(random, 3)]
        text = json.dumps(value, ensure_ascii=random.random() < 0.5, indent=random.choice((None, 1)))
        place, piece = random.randrange(len(text)), random.randrange(1, 60)
        assert read_in_pieces(text, decoder, piece=piece) == value
        broken = f"{text[:place]}{random.choice(',]}[{:1 ')}{text[place + 1 :]}"
        whole, parts = partial(decoder.decode, broken), partial(read_in_pieces, broken, decoder, piece=piece)
        assert outcome(whole) == outcome(parts), (broken, piece)


def random_document(random: Random, depth: int) -> Any:
    """Texts and names have the signs of JSON in them."""
    text = "".join(random.choice('ab,]}[{"\\é: ') for _ in range(random.randrange(12)))
    if not depth or random.random() < 0.3:
        return text
    members = [random_document(random, depth - 1) for _ in range(random.randrange(6))]
    return members if random.random() < 0.5 else {f"{text}{place}": one for place, one in enumerate(members)}


async def test_heavy_work_ends_before_its_caller_is_cancelled() -> None:
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        end.wait(60)
        ended.set()

    caller = asyncio.ensure_future(run_heavy(work))
    await asyncio.to_thread(begun.wait, 60)
    caller.cancel()
    done, _ = await asyncio.wait({caller}, timeout=0.05)
    assert not done and not gc.isenabled()
    end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set() and gc.isenabled()
