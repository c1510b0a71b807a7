"""What is said of kept rows: when they were read, to the model, the person and programs; and how many so far."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client as FastClient, FastMCP
from mcp import Client
from mcp.server import MCPServer
from sqlalchemy import Select, select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponse, MemoryStore, ResourceChanges
from dualsql.cli.files import ServedFiles
from dualsql.cli.options import ServeOptions
from dualsql.cli.serve import _server_of
from dualsql.kept.files import KeptFileWriter
from dualsql.mcp.negotiation import progress_message
from dualsql.mcp.tasks import _task
from dualsql.pending import jobs
from dualsql.pending.feature import Pending
from dualsql.pending.progress import RunRecords
from dualsql.query.mcp import add_data_manager
from dualsql_client import DualResponseClient
from dualsql_client.progress import Progress
from tests.kept.test_results import ROWS, KeptServer, fill, kept_server, sales
from tests.waiting import PATIENCE, until


def minute(description: Any) -> str:
    read = datetime.fromisoformat(description["as_of"])
    assert timedelta() <= datetime.now(UTC) - read < timedelta(minutes=5)
    return f"Rows as of {read:%Y-%m-%d %H:%M} UTC."


async def shown(kept: KeptServer, response: DualResponse, asked: str) -> DualResponse:
    if asked == "first":
        return response
    resource = await kept.dual.get_resource(response.resource_id)
    assert resource is not None
    return await kept.dual.features.get(Pending).show_again(resource, None)


@pytest.mark.quick(1)
@pytest.mark.parametrize("asked", ["first", "again"])
async def test_the_model_is_told(asked: str, tmp_path: Path) -> None:
    async with kept_server(tmp_path) as kept:
        for select_ in (select(sales), select(sales).where(sales.c.id < 0), select(sales).limit(2)):
            result = await kept.make(select=select_)
            response = await shown(kept, result, asked)
            instant = minute(await kept.said(result))
            assert response.to_text().count(instant) == 1
            assert response.to_text(text_format="none").count(instant) == 1
            content = response.to_structured_content()
            assert content["metadata"]["as_of"] == (await kept.said(result))["as_of"]
            assert content["metadata"]["total_count_kind"] == "exact"
        live = await kept.make(keep=False)
        response = await shown(kept, live, asked)
        assert "as of" not in response.to_text()
        assert "as_of" not in response.to_structured_content()["metadata"]


async def test_rows_that_are_no_longer_kept_are_not_said_to_be(tmp_path: Path) -> None:
    async with kept_server(tmp_path) as kept:
        response = await kept.make()
        for file in kept.files():
            file.unlink()
        assert "as of" not in (await shown(kept, response, "again")).to_text()


async def test_tools_that_show_rows_of_a_result_say_it(tmp_path: Path) -> None:
    async with kept_server(tmp_path) as kept:
        response, live = await kept.make(), await kept.make(keep=False)
        server = MCPServer("test")
        add_data_manager(kept.dual, server)
        async with Client(server) as client:
            for result, is_kept in ((response, True), (live, False)):
                question = {
                    "operation": "query",
                    "data_access_id": result.resource_id,
                    "sql": "SELECT * FROM data",
                }
                answer = (await client.call_tool("data_manager", question)).structured_content
                assert answer is not None
                assert answer["data"].get("asOf") == (
                    (await kept.said(response))["as_of"] if is_kept else None
                )


async def test_the_page_of_a_result_says_it(tmp_path: Path) -> None:
    async with kept_server(tmp_path, pages=True) as kept:
        response, live = await kept.make(), await kept.make(keep=False)
        application = Starlette(routes=[Mount("/resources", kept.dual.router())])
        transport, said = httpx.ASGITransport(app=application), (await kept.said(response))["as_of"]
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            for result in (response, live):
                page = await http.get(f"/resources/{result.resource_id}", headers={"accept": "text/html"})
                assert (f'rows as of <time datetime="{said[:16]}' in page.text) is (result is response)


async def test_a_task_says_how_many_rows_were_read(tmp_path: Path) -> None:
    async with kept_server(tmp_path) as kept:
        response = await kept.make(keep=False)
        resource = await kept.dual.get_resource(response.resource_id)
        assert resource is not None
        before, after = resource.kept, RunRecords.of(kept.dual.parts).running(None, 12_345)
        assert await RunRecords.of(kept.dual.parts).change(resource.id, before, after)
        resource = await kept.dual.get_resource(response.resource_id)
        assert resource is not None
        assert _task("t", resource, "working")["statusMessage"].endswith(" Rows so far: 12,345.")
    assert progress_message(1) == progress_message(1, 0) == "The query has run for 1 second."


@pytest.mark.quick(2)
@pytest.mark.parametrize("sdk", [MCPServer, FastMCP])
@pytest.mark.parametrize("wait", [None, timedelta(minutes=1)])
async def test_progress_of_a_call_says_how_many_rows_were_read(
    sdk: Any, wait: timedelta | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, add = threading.Event(), KeptFileWriter.add
    monkeypatch.setattr(KeptFileWriter, "add", lambda *arguments: go_on.wait(PATIENCE) and add(*arguments))
    monkeypatch.setattr("dualsql.mcp.negotiation.PROGRESS_SECONDS", 0.01)
    numbers: list[float] = []

    async def hear(number: float, total: float | None, message: str | None) -> None:
        assert (total, not numbers or number > numbers[-1]) == (None, True)
        numbers.append(number)
        if message is not None and f"Rows so far: {int(number):,}." in message and len(numbers) > 2:
            go_on.set()

    async with kept_server(tmp_path) as kept:
        server = sdk("test")

        @kept.dual.tool(server, keep=True, wait=wait)
        def all_sales() -> Select[Any]:
            return select(sales)

        is_official = sdk is MCPServer
        listen = {"progress_callback" if is_official else "progress_handler": hear}
        made: Any = Client(server) if is_official else FastClient(server)
        async with made as client:
            answer = await client.call_tool("all_sales", {}, **listen)
    assert answer.structured_content["metadata"]["total_count"] == ROWS
    assert go_on.is_set()
    assert 1 <= max(numbers) <= ROWS + 1


class Counting(MemoryStore):
    """A store that counts what is written of runs."""

    noted = 0

    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        self.noted += changes.kept is not None
        return await super().update(resource_id, changes)


@pytest.mark.long
async def test_a_pending_result_says_how_many_rows_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, add = threading.Event(), KeptFileWriter.add

    def waits(*arguments: Any) -> None:
        assert go_on.wait(PATIENCE)
        add(*arguments)

    monkeypatch.setattr(KeptFileWriter, "add", waits)
    monkeypatch.setattr(jobs, "NOTE_INTERVAL", timedelta(milliseconds=10))
    store, reports = Counting(), list[Progress]()
    async with kept_server(tmp_path, store=store) as kept:
        response = await kept.make(wait=timedelta())
        application = Starlette(routes=[Mount("/resources", kept.dual.router())])
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            path = f"/resources/{response.resource_id}"
            metadata = await until(
                lambda: http.get(path), lambda answer: answer.json().get("kept", {}).get("rows_so_far")
            )
            so_far = metadata.json()["kept"]["rows_so_far"]
            assert metadata.json()["kept"] == {"kept": False, "rows_so_far": so_far}
            assert 0 < so_far < ROWS
            assert metadata.json()["status"] == "pending"
            parsed = await DualResponseClient("http://127.0.0.1/resources", http=http).open(
                response.resource_id
            )
            waiting = asyncio.ensure_future(parsed.wait_until_ready(progress=reports.append))
            await until(lambda: asyncio.sleep(0, reports))
            assert store.noted == 1  # nothing is written while nothing changes
            go_on.set()
            ready = await waiting
            assert (reports[0].rows, ready.kept is not None and ready.kept["rows"]) == (so_far, ROWS)
            assert ready.kept is not None
            assert "rows_so_far" not in ready.kept


async def test_a_run_that_cannot_be_kept_leaves_no_number_of_rows(tmp_path: Path) -> None:
    async with kept_server(tmp_path, keep_rows=ROWS - 1) as kept:
        response = await kept.make(wait=timedelta())
        said = await until(lambda: kept.said(response), lambda said: said and "rows_so_far" not in said)
        assert said == {"kept": False, "reason": f"There are more than {ROWS - 1} rows."}


async def test_a_served_database_keeps_what_is_slow(tmp_path: Path) -> None:
    fill(tmp_path / "data.db")
    options = ServeOptions(
        database=f"sqlite:///{tmp_path / 'data.db'}", everything=True, keep=str(tmp_path / "kept")
    )
    built = await _server_of(options, ServedFiles(), "http://127.0.0.1/resources")
    async with built.server as dual:
        response = await dual.create_response(
            select(built.server.parts.registry.tables["sales"]), name="sales", wait=timedelta()
        )
        await dual.drain(timedelta(seconds=60))
        described: Any = await dual.describe(response.resource_id, None)
        assert (described["kept"]["kept"], described["total_count_kind"]) == (True, "exact")
        assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
