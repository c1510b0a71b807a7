"""Slow tool calls as tasks of the official SDK, as clients that declare tasks meet them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import mcp
import pytest
from fastmcp_tasks.client import TasksClientExtension
from fastmcp_tasks.client_models import (
    CancelTaskRequest,
    ClientCreateTaskResult,
    ClientGetTaskResult,
    GetTaskRequest,
    GetTaskRequestParams,
    UpdateTaskRequest,
    UpdateTaskRequestParams,
)
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Result
from sqlalchemy import select

from dualsql import DualResponseServer
from dualsql.mcp import Answer
from dualsql.mcp.tasks import Tasks
from dualsql.store import SQLResourceStore
from tests.http.application import ALL, BASE_URL, INSTITUTIONS, METADATA
from tests.results.pending.conftest import FOREVER, MOMENT, SECRETS, Slow
from tests.servers import create_server
from tests.waiting import until


def serving(dual: DualResponseServer) -> MCPServer[Any]:
    """A server whose tools take as long as the database likes."""
    server = MCPServer("schools", extensions=[Tasks(dual, wait=MOMENT)])

    @dual.tool(server, text_format="csv", sample_size=3)
    def list_all() -> Answer:
        return Answer(ALL.order_by(INSTITUTIONS.c.id), name="All", description="Figures of 2025.")

    @dual.tool(server, results_format="columnar")
    def run_forever() -> Any:
        return FOREVER

    @dual.tool(server)
    def divide() -> Any:
        return select(INSTITUTIONS.c.id / (INSTITUTIONS.c.id - 7))

    @dual.tool(server, wait=MOMENT)
    def list_patiently() -> Any:
        return ALL

    return server


@asynccontextmanager
async def server_of(slow: Slow, **options: Any) -> AsyncIterator[MCPServer[Any]]:
    settings: dict[str, Any] = {"base_url": BASE_URL, "tables": METADATA, **options}
    async with create_server(slow.url, **settings) as dual:
        yield serving(dual)


@asynccontextmanager
async def client_of(server: Any, *, declares: bool = True, **options: Any) -> AsyncIterator[mcp.Client]:
    extensions = [TasksClientExtension()] if declares else []
    async with mcp.Client(server, extensions=extensions, **options) as client:
        yield client


async def begun(client: mcp.Client, tool: str) -> ClientCreateTaskResult:
    """The task that a call became."""
    result: Any = await client.session.call_tool(tool, {}, allow_claimed=True)
    assert isinstance(result, ClientCreateTaskResult), result
    return result


async def standing(client: mcp.Client, task_id: str) -> ClientGetTaskResult:
    """What tasks/get says."""
    request = GetTaskRequest(params=GetTaskRequestParams(task_id=task_id))
    return await client.session.send_request(request, ClientGetTaskResult)


async def over(client: mcp.Client, task_id: str) -> ClientGetTaskResult:
    """What it says when the task is over."""
    return await until(lambda: standing(client, task_id), lambda actual: actual.status != "working")


async def cancel(client: mcp.Client, task_id: str) -> None:
    request = CancelTaskRequest(params=GetTaskRequestParams(task_id=task_id))
    await client.session.send_request(request, Result)


def rows_of(result: Any) -> list[int]:
    actual = CallToolResult.model_validate(result)
    assert actual.structured_content and not actual.is_error
    return [row["id"] for row in actual.structured_content["results"]]


async def test_a_slow_call_is_a_task_and_its_result_comes(slow: Slow) -> None:
    async with server_of(slow) as server, client_of(server) as client:
        async with slow.shut():
            task = await begun(client, "list_all")
            assert (task.status, task.poll_interval_ms) == ("working", 1_000)
            assert task.ttl_ms and task.status_message and "has run for" in task.status_message
            assert (await standing(client, task.task_id)).status == "working"
        answer = await over(client, task.task_id)
        assert answer.status == "completed"
        assert rows_of(answer.result) == [1, 2, 3]
        # As the tool writes it, description and all; and as often as one asks.
        text = (answer.result or {})["content"][0]["text"]
        assert "Figures of 2025." in text and "id,name,state" in text
        assert (await standing(client, task.task_id)).result == answer.result


async def test_a_client_that_knows_tasks_notices_nothing(slow: Slow) -> None:
    async with server_of(slow) as server, client_of(server) as client:
        async with slow.shut():
            calling = asyncio.ensure_future(client.call_tool("list_all", {}))
            await slow.until(1)
        assert rows_of((await calling).model_dump(by_alias=True)) == [1, 2, 3]


async def test_a_quick_call_is_none(slow: Slow) -> None:
    async with server_of(slow) as server, client_of(server) as client:
        server_answer: Any = None
        for _ in range(20):  # a busy machine may make it slow
            server_answer = await client.session.call_tool("list_all", {}, allow_claimed=True)
            if isinstance(server_answer, CallToolResult):
                break
        assert rows_of(server_answer.model_dump(by_alias=True)) == [1, 2, 3]


@pytest.mark.quick(1)
@pytest.mark.parametrize("options", [{"declares": False}, {"mode": "legacy"}], ids=str)
async def test_who_does_not_declare_them_gets_none(slow: Slow, options: dict[str, Any]) -> None:
    async with server_of(slow) as server, client_of(server, **options) as client:
        async with slow.shut():
            calling = asyncio.ensure_future(client.call_tool("list_all", {}))
            pending = await client.call_tool("list_patiently", {})
            assert pending.structured_content is not None
            metadata = pending.structured_content["metadata"]
            assert (metadata["status"], metadata["total_count"]) == ("pending", None)
            assert "call this tool again" in metadata["hint"]
            [block] = pending.content
            assert block.type == "text" and "call this tool again" in block.text
            assert not calling.done()  # it has no `wait` of its own
        assert rows_of((await calling).model_dump(by_alias=True)) == [1, 2, 3]


async def test_cancelling_ends_the_query_in_the_database(slow: Slow) -> None:
    async with server_of(slow) as server, client_of(server) as client:
        task = await begun(client, "run_forever")
        await slow.until(1)
        await cancel(client, task.task_id)
        await slow.until(0)
        assert (await standing(client, task.task_id)).status == "cancelled"
        await cancel(client, task.task_id)  # once more does no harm
        update = UpdateTaskRequest(params=UpdateTaskRequestParams(task_id=task.task_id, input_responses={}))
        await client.session.send_request(update, Result)


async def test_a_call_that_is_given_up_ends_its_query(slow: Slow) -> None:
    async with server_of(slow) as server, client_of(server, declares=False) as client:
        calling = asyncio.ensure_future(client.call_tool("run_forever", {}))
        await slow.until(1)
        calling.cancel()
        await asyncio.wait({calling})
        await slow.until(0)


async def test_a_query_that_fails(slow: Slow) -> None:
    async with server_of(slow) as server, client_of(server) as client:
        async with slow.shut():
            task = await begun(client, "divide")
        answer = await over(client, task.task_id)
        assert answer.status == "completed"
        result = CallToolResult.model_validate(answer.result)
        assert result.is_error and result.structured_content
        assert result.structured_content["error"]["code"] == "QUERY_EXECUTION_FAILED"
        assert "division by zero" not in str(answer.result)


async def test_another_process_knows_the_task_too(slow: Slow, postgresql_store_url: str) -> None:
    options: dict[str, Any] = {"secrets": SECRETS, "pending_lease": timedelta(seconds=1)}
    async with (
        server_of(slow, store=SQLResourceStore(postgresql_store_url), **options) as one,
        server_of(slow, store=SQLResourceStore(postgresql_store_url), **options) as two,
        client_of(one) as first,
        client_of(two) as second,
    ):
        async with slow.shut():
            task = await begun(first, "list_all")
            assert (await standing(second, task.task_id)).status == "working"
        answer = await over(second, task.task_id)
        assert rows_of(answer.result) == list(range(1, 61))  # as the server shows them, not the tool
        forever = await begun(first, "run_forever")
        await slow.until(1)
        await cancel(second, forever.task_id)
        await slow.until(0)
        assert (await standing(first, forever.task_id)).status == "cancelled"


@contextmanager
def being(subject: str) -> Iterator[None]:
    """Whoever connects in the block has shown a token of this subject."""
    token = AccessToken(
        token="t", client_id="host", scopes=[], subject=subject, claims={"iss": "https://login.example.com"}
    )
    previous = auth_context_var.set(AuthenticatedUser(token))
    yield
    auth_context_var.reset(previous)


async def test_nobody_else_s_task(slow: Slow) -> None:
    async with server_of(slow) as server:
        with being("ana"):
            async with client_of(server) as ana:
                task = await begun(ana, "run_forever")
        with being("eve"):
            async with client_of(server) as eve:
                for asking in (standing(eve, task.task_id), cancel(eve, task.task_id)):
                    with pytest.raises(MCPError, match="no such task"):
                        await asking
                assert await slow.running() == 1
        with being("ana"):
            async with client_of(server) as ana:
                assert (await standing(ana, task.task_id)).status == "working"
                await cancel(ana, task.task_id)
                await slow.until(0)


FORGERIES: list[Callable[[str], str]] = [
    lambda _: "unknown",
    lambda _: "",
    lambda task: task.partition(".")[0],
    lambda task: task.replace("columnar", "html"),
    lambda task: f"{task}.rows",
    lambda task: f"../{task}",
    lambda _: "a" * 100_000,
    lambda _: "\x00.rows.markdown.auto",
    lambda _: "x.rows.markdown.auto",
]


async def test_forged_tasks(slow: Slow) -> None:
    async with server_of(slow) as server, client_of(server) as client:
        task = await begun(client, "run_forever")
        for forge in FORGERIES:
            with pytest.raises(MCPError):
                await standing(client, forge(task.task_id))
        async with client_of(server, declares=False) as other:
            with pytest.raises(MCPError) as refused:
                await standing(other, task.task_id)
            assert refused.value.error.code == -32021
