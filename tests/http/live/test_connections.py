"""Connections that misbehave: callers who hang up, dawdle or never stop, and what becomes of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import FromClause, literal, select, true
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.features import DualResponseServer
from dualsql.resource import Resource
from dualsql.results.pages import ResultPage
from tests.http.application import INSTITUTIONS, ROWS, fill
from tests.http.live.serving import answer, listening
from tests.waiting import PATIENCE

JSON = "Content-Type: application/json"


@pytest.fixture
async def institutions_url(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> str:
    """The URL of a database that holds sixty institutions."""
    await fill(make_engine(sqlite_url))
    return sqlite_url


async def test_pages_cross_a_real_connection(institutions_url: str) -> None:
    async with listening(institutions_url) as live:
        page = (await live.http.get(live.path, params={"skip": 50, "limit": 20})).json()
        assert (page["returned_count"], page["has_next"]) == (10, False)
        assert (await live.http.post(live.path, json={"offset": 50, "limit": 20})).json() == page


async def test_head_sends_the_headers_of_get_and_no_body(institutions_url: str) -> None:
    async with listening(institutions_url) as live:
        get, head = await live.http.get("/resources/unknown"), await live.http.head("/resources/unknown")
        assert (head.status_code, head.content) == (404, b"")
        assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example"])
async def test_a_rebound_name_is_refused(institutions_url: str, host: str) -> None:
    async with listening(institutions_url) as live, live.connection() as (reader, writer):
        writer.write(f"GET {live.path} HTTP/1.1\r\nHost: {host}:{live.port}\r\n\r\n".encode())
        status, _, _ = await answer(reader)
        assert status == 403


async def test_a_slow_body_keeps_nobody_else_waiting(institutions_url: str) -> None:
    async with listening(institutions_url) as live, live.connection() as (reader, writer):
        writer.write(live.head_of("POST", JSON, "Content-Length: 11") + b'{"lim')
        await writer.drain()
        assert (await live.http.get(live.path)).status_code == 200
        writer.write(b'it":1}')
        status, _, body = await answer(reader)
        assert (status, orjson.loads(body)["returned_count"]) == (200, 1)


async def test_a_body_that_takes_too_long_ends_the_connection(institutions_url: str) -> None:
    slow = timedelta(milliseconds=1)
    async with listening(institutions_url, body_timeout=slow) as live, live.connection() as (reader, writer):
        writer.write(live.head_of("POST", JSON, "Content-Length: 11") + b'{"lim')
        status, headers, body = await answer(reader)
        assert (status, headers["connection"]) == (408, "close")
        assert orjson.loads(body)["code"] == "SLOW_BODY"
        assert await reader.read() == b""


async def test_a_body_without_end_is_answered_before_its_end(institutions_url: str) -> None:
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    async with listening(institutions_url) as live, live.connection() as (reader, writer):
        writer.write(live.head_of("POST", JSON, "Transfer-Encoding: chunked"))
        for _ in range(17):
            writer.write(chunk)
        status, _, body = await answer(reader)
        assert (status, orjson.loads(body)["code"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_caller_who_sends_too_much_learns_so(institutions_url: str, is_chunked: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(500):
            yield b" " * 10_000

    async with listening(institutions_url) as live:
        content = pieces() if is_chunked else b" " * 5_000_000
        response = await live.http.post(
            live.path, content=content, headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 413
        assert (await live.http.get(live.path)).status_code == 200


async def test_an_announced_excess_is_refused_before_it_is_sent(institutions_url: str) -> None:
    async with listening(institutions_url) as live, live.connection() as (reader, writer):
        writer.write(live.head_of("POST", JSON, f"Content-Length: {10**12}", "Expect: 100-continue"))
        status, _, _ = await answer(reader)
        assert status == 413


async def test_a_caller_who_hangs_up_amid_the_body_leaves_the_server_well(institutions_url: str) -> None:
    async with listening(institutions_url) as live:
        async with live.connection() as (_, writer):
            writer.write(live.head_of("POST", JSON, "Content-Length: 11") + b'{"lim')
            await writer.drain()
        assert (await live.http.get(live.path)).status_code == 200


class WatchedServer(DualResponseServer):
    """A server that tells when it begins to read a page, and how one failed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.reading = asyncio.Event()
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._read_page = self.unchecked.read_page
        self.unchecked.read_page = self.read_watched  # type: ignore[assignment, method-assign]

    async def read_watched(self, resource: Resource, *arguments: Any) -> ResultPage:
        self.reading.set()
        try:
            return await self._read_page(resource, *arguments)
        except BaseException as error:
            self.failed.set_result(error)
            raise


def sextuples() -> Any:
    """None of the combinations of six institutions: all have to be looked at, one of one, 46 billion of sixty."""
    tables = [INSTITUTIONS.alias(f"t{number}") for number in range(6)]
    joined: FromClause = tables[0]
    for other in tables[1:]:
        joined = joined.join(other, true())
    ids = [table.c.id.label(f"{table.name}_id") for table in tables]
    return select(*ids).select_from(joined).where(sum((table.c.id for table in tables), literal(0)) < 0)


async def test_a_caller_who_hangs_up_stops_the_query(
    database_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    engine = make_engine(database_url)
    await fill(engine, ROWS[:1])
    async with listening(database_url, kind=WatchedServer, statement=sextuples()) as live:
        assert isinstance(live.server, WatchedServer)
        await fill(engine, ROWS[1:])
        async with asyncio.timeout(PATIENCE), live.connection() as (_, writer):
            writer.write(live.head_of("GET", query="sort=-t5_id"))
            await live.server.reading.wait()
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await live.server.failed, asyncio.CancelledError)
        assert (await live.http.get(live.path)).status_code == 200
