"""A hundred and ten tasks, played through the tools of `dualsql serve` with the wrong turns of models.

Every answer is right, the first hint of each error leads on, and at most a fifth of the tasks takes a call more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql.feature_list import default_features
from dualsql.features import DualResponseServer
from dualsql.serve import Selection, build_mcp, build_server
from dualsql.web.feature import Pages
from tests.tasks import flights, habits, shop
from tests.tasks.playing import Report, Task, play, text_of

BASE_URL = "http://127.0.0.1:8000/resources"
MOST_EXTRA = 1 / 5


def plain(value: Any) -> Any:
    """A value as texts compare: numbers to nine digits, an instant at midnight as its date."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return f"{float(value):.9g}"
    try:
        return f"{float(value):.9g}"
    except (TypeError, ValueError):
        return str(value).replace(" ", "T").removesuffix(".000000").removesuffix("T00:00:00")


@asynccontextmanager
async def playing(url: str) -> AsyncIterator[tuple[Client, DualResponseServer]]:
    """A model's client at a server of all tables."""
    features = default_features(Pages(pages_in_text=True))
    built = await build_server(url, Selection(everything=True), base_url=BASE_URL, features=features)
    try:
        async with Client(build_mcp(built.server)) as client:
            yield client, built.server
    finally:
        await built.server.shutdown()


async def rows_of(report: Report, server: DualResponseServer) -> list[list[Any]]:
    """All rows of the answer, as the application reads them by the address of the file in the model's text."""
    assert report.answer is not None
    content = report.answer.structured_content or {}
    if content["metadata"]["sample_count"] == content["metadata"]["total_count"]:
        return [[plain(value) for value in row.values()] for row in content["results"]]
    [line] = [
        line for line in text_of(report.answer).splitlines() if line.startswith("All rows as a CSV file: ")
    ]
    app = Starlette(routes=[Mount("/resources", server.router())])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        answer = await http.get(line.partition(": ")[2].replace("format=csv", "format=json"))
    return [[plain(value) for value in row.values()] for row in answer.json()]


async def check(url: str, tasks: Sequence[Task], truths: Sequence[Sequence[Sequence[Any]]]) -> None:
    reports = {}
    async with playing(url) as (client, server):
        for task, truth in zip(tasks, truths, strict=True):
            reports[task.asks] = report = await play(client, task)
            assert await rows_of(report, server) == [[plain(value) for value in row] for row in truth], (
                task.asks
            )
    extra = [(asks, report.errors) for asks, report in reports.items() if report.extra]
    assert all(len(errors) == 1 for _, errors in extra), extra
    assert len(extra) <= MOST_EXTRA * len(tasks), extra
    assert len(reports) == 55


@pytest.mark.long
async def test_flights(tmp_path: Path) -> None:
    path, tasks = tmp_path / "flights.sqlite", [*flights.TASKS, *habits.FLIGHTS]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(flights.SCHEMA)
        truths = [connection.execute(task.truth).fetchall() for task in tasks]
    await check(f"sqlite:///{path}", tasks, truths)


@pytest.mark.long
async def test_a_messy_shop(postgresql_url: str) -> None:
    engine, tasks = create_async_engine(postgresql_url), [*shop.TASKS, *habits.SHOP]
    async with engine.begin() as connection:
        for statement in shop.SCHEMA.split(";"):
            if statement.strip():
                await connection.exec_driver_sql(statement)
        truths = [[tuple(row) for row in await connection.exec_driver_sql(task.truth)] for task in tasks]
        count = (await connection.exec_driver_sql(shop.COUNT_OF_TABLES)).scalar()
    await engine.dispose()
    assert count == 60
    await check(postgresql_url, tasks, truths)
