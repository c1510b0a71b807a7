"""Cells of millions of elements: of a sample no more is written than is shown, and pages are written in a thread."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

import httpx
import pytest
from sqlalchemy import JSON, Column, Integer, MetaData, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer
from dualsql.formats.json import dumps
from dualsql.formats.samples import fit, table
from dualsql.formats.text import beginning, cell, csv_cell, holds_more
from dualsql.threads import run_heavy
from tests.quick import case_of

T = TypeVar("T")


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
CELLS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: [1] * SIZE,
    "large numbers": lambda: [2**80] * SIZE,
    "texts": lambda: ["a"] * SIZE,
    "lists": lambda: [[1]] * (SIZE // 2),
    "objects": lambda: [{"a": 1}] * (SIZE // 2),
    "one in another": lambda: {"a": [{"b": [1] * SIZE}]},
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_sample_takes_time_for_what_it_shows(kind: str) -> None:
    """2,000,000 elements took up to 4 s."""
    value = CELLS[kind]()
    begun = time.thread_time()
    for write in (cell, csv_cell):
        assert write(value, 80).endswith(("…", '…"'))
    for text_format in ("markdown", "csv"):
        shown = table(["id", "body"], [{"id": 1, "body": value}], budget=4_000, text_format=text_format)
        assert shown.width is not None and len(shown.text) <= 4_000
    fitted = fit([{"id": 1, "body": value}], 16_000)
    assert fitted.width is not None and len(dumps(fitted.rows)) <= 17_000
    assert time.thread_time() - begun < 0.25


TABLE = Table("documents", MetaData(), Column("id", Integer, primary_key=True), Column("body", JSON))


async def longest_pause(work: Awaitable[T]) -> tuple[T, float]:
    """The most CPU time of this process between two turns of the event loop. Other processes do not count."""
    pauses = [0.0]

    async def watch() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            pauses.append(now - last)
            last = now

    watching = asyncio.create_task(watch())
    try:
        return await work, max(pauses)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


READS = ("", "?limit=10", "/rows?format=ndjson", "/rows?format=json", "/rows?format=csv")


@pytest.mark.parametrize(
    "kind", [case_of(kind, is_long=kind != "lists") for kind in ("numbers", "lists", "objects")]
)
async def test_the_event_loop_runs_while_one_cell_is_written(
    kind: str, database_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    """It stood still for 4 to 6 s, of 2,000,000 elements."""
    engine = make_engine(database_url)
    async with engine.begin() as connection:
        await connection.run_sync(TABLE.metadata.create_all)
        rows = [{"id": 1, "body": CELLS[kind]()}, {"id": 2, "body": [1]}]
        await connection.execute(insert(TABLE), rows)
    del rows
    pauses = {}
    async with DualResponseServer(
        database_url, base_url="http://testserver/resources", tables=TABLE.metadata
    ) as server:
        query = select(TABLE.c.id, TABLE.c.body).order_by(TABLE.c.id)
        made, pauses["create"] = await longest_pause(server.create_response(query, name="x"))
        app = Starlette(routes=[Mount("/resources", server.router())])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
            for read in READS:
                asked = http.get(f"/resources/{made.resource_id}{read}", timeout=60)
                answer, pauses[read] = await longest_pause(asked)
                assert answer.status_code == 200
    assert max(pauses.values()) < 0.5, pauses  # 0.15 s on an idle machine


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
