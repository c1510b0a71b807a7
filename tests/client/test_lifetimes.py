"""Expiry is told by the server's clock, and reading all rows keeps a resource alive as long as the server allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

from dualsql.settings import ALL_ACTIONS
from dualsql_client import DualResponseClient, ParsedDualResponse, ResourceExpiredError
from dualsql_client.lifetimes import ServerClock
from tests.client.hosting import RESOURCE_ID, problem, structured
from tests.schools import Base, School, fill
from tests.servers import create_server
from tests.waiting import PATIENCE

SECOND = timedelta(seconds=1)


class Timed:
    """A server with a clock of its own, whose only resource lives for `lifetime` after each access."""

    def __init__(self, lifetime: timedelta, *, skew: timedelta = timedelta(), slides: bool = True) -> None:
        self.lifetime = lifetime
        self.skew = skew
        self.slides = slides
        self.expires_at = self.now() + lifetime
        self.headers: dict[str, str] = {}
        self.pages = 0
        self.paged = asyncio.Condition()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.skew

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        response = await self.answer(request, await request.json())
        response.headers["date"] = format_datetime(self.now())
        response.headers.update(self.headers)
        await response(scope, receive, send)

    async def answer(self, request: Request, body: Any) -> Response:
        if request.url.path.endswith("/rows"):
            return problem(404, "RESOURCE_NOT_FOUND")  # pages only
        if self.expires_at <= self.now():
            return problem(410, "RESOURCE_EXPIRED", hint="")
        if self.slides:
            self.expires_at = self.now() + self.lifetime
        async with self.paged:
            self.pages += 1
            self.paged.notify_all()
        offset = body.get("offset", 0)
        page = {"data": [{"id": offset}], "has_next": offset < 2, "expires_at": self.expires_at.isoformat()}
        return JSONResponse(page)

    async def pages_reach(self, number: int) -> None:
        async with self.paged:
            await self.paged.wait_for(lambda: self.pages >= number)

    def parsed(self) -> ParsedDualResponse:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(self))
        content: Any = structured()
        content["metadata"]["expires_at"] = self.expires_at.isoformat()
        return DualResponseClient("http://host/resources", http=http).parse(content, strict=True)


@pytest.mark.parametrize(
    "skew", [timedelta(hours=-2), timedelta(seconds=-5), timedelta(minutes=3), timedelta(days=400)]
)
async def test_a_skewed_clock_is_known_after_the_first_answer(skew: timedelta) -> None:
    server = Timed(timedelta(minutes=1), skew=skew, slides=False)
    parsed = server.parsed()
    await parsed.fetch()
    assert not parsed.is_expired()
    left = parsed.time_left()
    assert left is not None and timedelta(seconds=50) < left < timedelta(seconds=63)
    server.expires_at = server.now() - 3 * SECOND
    parsed.expires_at = server.expires_at
    assert parsed.is_expired()


@pytest.mark.parametrize(
    ("date", "age"),
    [
        (None, None),
        ("", None),
        ("yesterday", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 GMT", None),
        ("Sat, 21 Nov 2026 10:00:00 +9999", None),
        ("Sat, 99 Nov 2026 99:00:00 GMT", None),
        ("Sat, 21 Nov 2020 10:00:00 GMT", "5"),
    ],
)
def test_a_date_that_says_nothing_changes_nothing(date: str | None, age: str | None) -> None:
    clock = ServerClock()
    clock.note(date, age)
    assert abs(clock.now() - datetime.now(UTC)) < SECOND


def test_a_small_difference_is_the_way_it_took() -> None:
    clock = ServerClock()
    clock.note(format_datetime(datetime.now(UTC) - SECOND))
    assert abs(clock.now() - datetime.now(UTC)) < SECOND / 10


@pytest.mark.long
async def test_what_is_read_slowly_stays_alive_where_lifetimes_slide() -> None:
    server = Timed(timedelta(seconds=0.3))
    parsed = server.parsed()
    rows = []
    async with asyncio.timeout(PATIENCE):
        async for batch in parsed.fetch_stream(batch_size=1):
            rows += batch
            # A reader that takes longer for each batch than the resource would live.
            await server.pages_reach(server.pages + 3)
    assert [row["id"] for row in rows] == [0, 1, 2]
    assert server.pages >= 9


@pytest.mark.long
async def test_by_hand() -> None:
    server = Timed(timedelta(seconds=0.3))
    parsed = server.parsed()
    async with asyncio.timeout(PATIENCE), parsed.kept_alive():
        await server.pages_reach(5)
        assert (await parsed.fetch(offset=1)).data == [{"id": 1}]
    pages = server.pages
    await its_end(server)
    assert server.pages == pages


async def its_end(server: Timed) -> None:
    """Until the resource is over."""
    over = asyncio.Event()
    left = server.expires_at - server.now()
    asyncio.get_running_loop().call_later(left.total_seconds() + 0.01, over.set)
    await over.wait()


async def test_where_they_do_not_slide_it_is_tried_once_and_the_end_says_what_to_do() -> None:
    server = Timed(timedelta(seconds=0.4), slides=False)
    parsed = server.parsed()
    async with asyncio.timeout(PATIENCE), parsed.kept_alive():
        await server.pages_reach(1)
        await its_end(server)
        with pytest.raises(ResourceExpiredError) as error:
            await parsed.fetch()
    assert server.pages == 1
    assert (error.value.code, error.value.status) == ("RESOURCE_EXPIRED", 410)
    assert "Run the tool again" in error.value.hint and "pin" in error.value.hint
    assert parsed.is_expired()


async def test_pin_unpin_and_time_against_the_server(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    engine = make_engine(sqlite_url)
    await fill(engine)
    base_url = "http://127.0.0.1/resources"
    server = create_server(engine, base_url=base_url, tables=Base, anonymous_actions=ALL_ACTIONS)
    app = Starlette(routes=[Mount("/resources", server.router())])
    async with server, httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        response = await server.create_response(select(School), name="Schools")
        parsed = DualResponseClient(base_url, http=http).parse(response.to_mcp_tool_result(), strict=True)
        assert await parsed.pin()
        assert (parsed.time_left(), parsed.is_expired()) == (None, False)
        assert await parsed.unpin()
        left = parsed.time_left()
        assert left is not None and timedelta(minutes=14) < left <= timedelta(minutes=15)
        assert (await parsed.get_metadata()).status == "ready"
        assert RESOURCE_ID not in parsed.resource_uri
