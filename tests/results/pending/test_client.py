"""The application's side of a query that still runs: it is told, it waits, and it never takes half for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql_client import (
    DualResponseClient,
    FetchError,
    FetchTimeoutError,
    ParsedDualResponse,
    ResourceFailedError,
    ResourcePendingError,
)
from tests.client.hosting import RESOURCE_ID
from tests.http.application import ALL, BASE_URL, Application, fill
from tests.results.pending.conftest import FOREVER, MOMENT, Slow, running


async def asked(app: Application, statement: Any = ALL, **options: Any) -> ParsedDualResponse:
    """What the application finds in the result of a tool whose query takes its time."""
    response = await app.server.create_response(statement, name="All", wait=MOMENT, **options)
    result = response.to_mcp_tool_result()
    return DualResponseClient(BASE_URL, http=app.http).parse(result, strict=True)


@pytest.mark.long
async def test_it_knows_that_there_is_nothing_yet_and_waits(slow: Slow) -> None:
    async with running(slow.url) as app:
        await app.server.start()
        async with slow.shut():
            parsed = await asked(app)
            assert (parsed.status, parsed.sample, parsed.total_count) == ("pending", [], None)
            for fetching in (parsed.fetch, parsed.fetch_all, parsed.to_arrow):
                with pytest.raises(ResourcePendingError, match="still runs") as error:
                    await fetching()
                assert error.value.retry_after
            assert (await parsed.get_metadata()).status == "pending"
            with pytest.raises(FetchTimeoutError, match="still runs"):
                await parsed.wait_until_ready(timeout=0.2)
            waiting = asyncio.ensure_future(parsed.wait_until_ready(timedelta(seconds=30)))
            await asyncio.wait({waiting}, timeout=0.1)
            assert not waiting.done()
        assert (await waiting).status == "ready"
        assert (parsed.status, parsed.total_count, parsed.total_count_kind) == ("ready", 60, "exact")
        assert len(await parsed.fetch_all()) == 60
        assert (await parsed.wait_until_ready()).total_count == 60


async def test_a_columnar_result_says_it_too(slow: Slow) -> None:
    async with running(slow.url) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=MOMENT)
            result = response.to_mcp_tool_result(results_format="columnar")
            parsed = DualResponseClient(BASE_URL, http=app.http).parse(result, strict=True)
            assert (parsed.status, parsed.sample) == ("pending", [])


@pytest.mark.long
async def test_a_failure_is_told(sqlite_url: str, make_engine: Callable[..., AsyncEngine]) -> None:
    await fill(make_engine(sqlite_url))
    async with running(sqlite_url, pending_timeout=timedelta(milliseconds=300)) as app:
        parsed = await asked(app, FOREVER)
        with pytest.raises(ResourceFailedError, match=r"0\.3 seconds") as error:
            await parsed.wait_until_ready(30)
        assert error.value.details["error"]["code"] == "QUERY_TIMEOUT"
        assert parsed.status == "failed"
        with pytest.raises(ResourceFailedError) as refused:
            await parsed.fetch()
        assert refused.value.details["error"] == error.value.details["error"]


@asynccontextmanager
async def saying(*answers: httpx.Response) -> AsyncIterator[tuple[ParsedDualResponse, list[str]]]:
    """A response whose server says these things in turn, the last one for ever; and what it was asked."""
    left, asked = list(answers), []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        said = left.pop(0) if len(left) > 1 else left[0]
        return httpx.Response(said.status_code, headers=said.headers, content=said.content)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        link = {"type": "resource_link", "uri": f"resource://{RESOURCE_ID}", "name": "x"}
        result = {"content": [link | {"mimeType": "application/json"}]}
        yield DualResponseClient("https://api.example.com/r", http=http).parse(result, strict=True), asked


PENDING = httpx.Response(200, json={"status": "pending", "columns": [], "total_count": None})
READY = httpx.Response(200, json={"status": "ready", "columns": [], "total_count": 3})
BUSY = httpx.Response(503, json={"code": "STORAGE_ERROR"}, headers={"retry-after": "0"})


async def test_a_server_that_is_busy_for_a_moment() -> None:
    async with saying(BUSY, PENDING, BUSY, READY) as (parsed, asked):
        assert (await parsed.wait_until_ready(30)).total_count == 3
        assert len(asked) == 4


async def test_a_server_that_says_no_more_is_not_asked_for_ever() -> None:
    async with saying(httpx.Response(404, json={"code": "RESOURCE_NOT_FOUND"})) as (parsed, asked):
        with pytest.raises(FetchError):
            await parsed.wait_until_ready(30)
        assert len(asked) == 1


async def test_it_asks_no_sooner_than_it_was_told() -> None:
    asked_to_wait = httpx.Response(200, json={"status": "pending"}, headers={"retry-after": "999999999999"})
    async with saying(asked_to_wait) as (parsed, asked):
        with pytest.raises(FetchTimeoutError):
            await parsed.wait_until_ready(0.5)
        assert len(asked) == 1


@pytest.mark.parametrize(
    "said", [{"status": 3}, {"status": None}, [], {"status": "failed", "error": "x"}], ids=str
)
async def test_a_server_that_talks_nonsense(said: Any) -> None:
    async with saying(httpx.Response(200, json=said)) as (parsed, _):
        with pytest.raises(FetchError):
            await parsed.wait_until_ready(5)
