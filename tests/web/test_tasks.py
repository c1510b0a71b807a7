"""The ten tasks of docs/pages.md take the steps that its table says, fewer than in Datasette."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest
from playwright.async_api import Browser

from benchmarks.analyst import DOCUMENT, MARK, cost, fill, tasks
from benchmarks.processes import Process
from benchmarks.report import END
from dualsql import Pages, default_features
from dualsql.serve import Selection, build_server, serve_app
from tests.web.browser import needs_chromium
from tests.web.conftest import under_uvicorn

FLIGHTS = 20_000


def recorded() -> dict[str, list[int | None]]:
    """Steps by the name of a task: by pointer, by keys and in Datasette."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(MARK)[2].partition(END)[0]
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.strip().splitlines()[2:]]
    number = re.compile(r"\d+")
    cells = {line[0]: [number.match(line[place]) for place in (1, 3, 5)] for line in lines}
    return {name: [int(each[0]) if each else None for each in steps] for name, steps in cells.items()}


def test_each_task_takes_fewer_steps_than_in_datasette() -> None:
    steps = recorded()
    assert len(steps) == 10
    for name, (pointer, keys, peer) in steps.items():
        assert pointer is not None and keys is not None
        # No page needs fewer than none.
        assert peer is None or max(pointer, keys) < peer or pointer == keys == peer == 0, name


@pytest.mark.long
@needs_chromium
async def test_the_page_does_the_tasks_in_these_steps(tmp_path: Path, browser: Browser) -> None:
    path = tmp_path / "flights.sqlite"
    fill(path, FLIGHTS)
    steps = {}
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    dual, _ = await build_server(
        f"sqlite+aiosqlite:///{path}",
        Selection(everything=True),
        base_url=f"{origin}/resources",
        features=default_features(Pages()),
    )
    async with under_uvicorn(serve_app(dual), listener):
        query = dual.sql.resolve("SELECT * FROM flights ORDER BY id")
        url = (await dual.create_response(query.select, name="Flights")).resource_url
        server = Process(os.getpid(), origin)
        for task in tasks(path):
            costs = [await cost(browser, server, url, act, "td.active") for act in (task.pointer, task.keys)]
            steps[task.name] = [each.steps for each in costs]
    assert steps == {name: counted[:2] for name, counted in recorded().items()}
