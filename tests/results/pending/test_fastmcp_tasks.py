"""Slow tools as tasks of fastmcp's own extension: they take their time, and a cancel reaches the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import fastmcp
import pytest
from fastmcp_tasks import TasksExtension
from fastmcp_tasks.client import call_tool_task

from tests.http.application import ALL, BASE_URL, METADATA
from tests.results.pending.conftest import FOREVER, MOMENT, UNHURRIED, Slow
from tests.servers import create_server
from tests.waiting import PATIENCE


@asynccontextmanager
async def client_of(slow: Slow, **options: Any) -> AsyncIterator[fastmcp.Client[Any]]:
    """A client of a server whose tools may run as tasks."""
    settings: dict[str, Any] = {
        "base_url": BASE_URL,
        "tables": METADATA,
        "count_budget": UNHURRIED,
        **options,
    }
    dual = create_server(slow.url, **settings)
    server: fastmcp.FastMCP[Any] = fastmcp.FastMCP("schools", lifespan=dual.lifespan)
    server.add_extension(TasksExtension())

    # A wait is for calls that somebody waits for: a task takes its time.
    @dual.tool(server, wait=MOMENT, registration={"task": True})
    def list_all() -> Any:
        return ALL

    @dual.tool(server, registration={"task": True})
    async def run_forever() -> Any:
        return FOREVER

    @dual.tool(server)
    def run_in_front() -> Any:
        return FOREVER

    async with fastmcp.Client(server) as client:
        yield client


async def test_a_task_takes_longer_than_a_query_may(slow: Slow) -> None:
    async with client_of(slow, query_timeout=timedelta(milliseconds=100)) as client:
        async with slow.shut():
            task = await call_tool_task(client, "list_all", {})
            await slow.until(1)
            await asyncio.sleep(0.2)  # longer than `query_timeout`: that is what is to be shown
            assert (await task.status()).status == "working"
        result = await task.result()
        assert result.structured_content is not None
        assert result.structured_content["metadata"]["total_count"] == 60
        assert len(result.structured_content["results"]) == 60


async def test_cancelling_ends_the_query_in_the_database(slow: Slow) -> None:
    async with client_of(slow) as client:
        task = await call_tool_task(client, "run_forever", {})
        await slow.until(1)
        await task.cancel()
        await slow.until(0)
        assert (await task.wait(timeout=30)).status == "cancelled"


@pytest.mark.long
async def test_the_end_of_the_server_ends_its_tasks(slow: Slow) -> None:
    async with client_of(slow) as client:
        await call_tool_task(client, "run_forever", {})
        await slow.until(1)
    await slow.until(0)


async def test_progress_is_told_while_one_waits(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualsql.mcp.negotiation.PROGRESS_SECONDS", 0.01)
    messages: list[str | None] = []
    heard = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message)
        heard.set()

    async with client_of(slow) as client:
        async with slow.shut():
            calling = asyncio.ensure_future(
                client.session.call_tool("run_in_front", {}, progress_callback=hear)
            )
            async with asyncio.timeout(PATIENCE):
                await heard.wait()
            calling.cancel()
            await asyncio.wait({calling})
        await slow.until(0)
    assert messages[0] == "The query has run for 0 seconds."
