"""One budget for a whole fetch: a server that never ends is given up, and the error says how far the fetch came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, closing, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from dualsql_client import (
    DualResponseClient,
    FetchError,
    NotConfiguredError,
    ParsedDualResponse,
    Retry,
    streaming,
)
from dualsql_client.budget import Budget
from dualsql_client.formats import NDJSON
from tests.client.conftest import Open
from tests.client.hosting import Handler, Host, problem

LINES = {"content-type": "application/x-ndjson", "dualsql-resume": "token"}
FEW = Retry(times=5, first=timedelta())
SHORT = Retry(budget=timedelta(seconds=0.3), first=timedelta(milliseconds=1))
BRIEF = Retry(total=timedelta(seconds=0.3), first=timedelta())
DRIP = 0.01
"""Seconds between pieces of an answer: it is never silent for a timeout, and too slow to count as progress."""


def lines(*texts: str) -> Response:
    return StreamingResponse(iter([text.encode() + b"\n" for text in texts]), headers=LINES)


async def one_row_then_a_break(request: Request) -> Response:
    """The last whole row is held back, so that each attempt brings one row."""
    return lines('{"id":1}', '{"id":2}')


async def no_summary(request: Request) -> Response:
    return lines(*['{"id":1}'] * 50)


async def busy_for_ever(request: Request) -> Response:
    answer = problem(503, "DATABASE_BUSY")
    answer.headers["retry-after"] = "0"
    return answer


async def a_row_and_a_busy_server_in_turn(request: Request) -> Response:
    return await (one_row_then_a_break if next(TURNS) % 2 else busy_for_ever)(request)


TURNS, CURSORS = count(), count()


async def dripping(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(DRIP)

    return StreamingResponse(pieces(), headers=LINES)


async def dripping_rows(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b'{"id":1}\n'
            await asyncio.sleep(DRIP)

    return StreamingResponse(pieces(), headers=LINES)


def pages(*, total: int | None) -> Handler:
    async def page(request: Request) -> Response:
        offset = (await request.json()).get("offset", 0)
        answer = {
            "data": [{"id": 1}],
            "columns": [],
            "order": "total",
            "has_next": True,
            "total_count": total,
        }
        return JSONResponse({**answer, "offset": offset, "next_cursor": str(next(CURSORS))})

    return page


async def only_pages(request: Request) -> Response:
    """As the reference design has them: by GET, and by offset."""
    if request.method == "POST":
        return problem(405, None)
    offset = int(request.query_params["skip"])
    return JSONResponse({"data": [{"id": 1}], "has_next": True, "total_count": 3, "skip": offset})


Read = Callable[[ParsedDualResponse], Awaitable[Any]]


def streamed(parsed: ParsedDualResponse) -> Awaitable[Any]:
    return parsed.fetch_all()


def asked(parsed: ParsedDualResponse) -> Awaitable[Any]:
    return parsed.query_all()


ENDLESS: dict[str, tuple[Handler, Read, dict[str, Any]]] = {
    "one row then a break": (one_row_then_a_break, streamed, {"retry": FEW}),
    "no summary": (no_summary, streamed, {"retry": FEW}),
    "503": (busy_for_ever, streamed, {"retry": FEW}),
    "503 within the time": (busy_for_ever, streamed, {"retry": SHORT}),
    "503 of pages": (busy_for_ever, asked, {"retry": FEW}),
    "a row and 503 in turn": (a_row_and_a_busy_server_in_turn, streamed, {"retry": FEW}),
    "blanks that drip": (dripping, streamed, {"retry": SHORT}),
    "rows that drip": (dripping_rows, streamed, {"retry": BRIEF}),
    "pages behind the total": (pages(total=3), asked, {"retry": FEW}),
    "pages by offset behind the total": (only_pages, streamed, {"retry": FEW}),
    "pages without a total": (pages(total=None), asked, {"retry": BRIEF}),
    "pages without a total, in bytes": (pages(total=None), asked, {"maximum_stream_bytes": 5_000}),
}


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", ENDLESS)
async def test_a_server_that_never_ends_is_given_up(host: Host, open_at: Open, name: str) -> None:
    handler, read, options = ENDLESS[name]
    requests = count()

    async def counting(request: Request) -> Response:
        next(requests)
        return await handler(request)

    async with asyncio.timeout(5):
        with pytest.raises(FetchError) as error:
            await read(open_at(host.serve(counting), **options))
    so_far = error.value.details
    assert so_far.keys() >= {"rows", "bytes", "attempts", "seconds"}
    assert (so_far["rows"] > 0) == (handler not in (busy_for_ever, dripping))
    assert "Given up after" in error.value.message or "longer than" in error.value.message
    if options.get("retry") is FEW:
        assert next(requests) <= 1 + FEW.times + 6


HEADS = {
    "headers": (b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n", b"x-a: b\r\n"),
    "early hints": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"),
    "a refusal": (
        b"HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n",
        b" ",
    ),
}
READS: dict[str, Read] = {
    "all rows": streamed,
    "pages": asked,
    "a file": lambda parsed: parsed.save(Path(gettempdir()) / "never-begun.csv"),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("head", HEADS)
async def test_an_answer_that_never_begins_is_given_up(open_at: Open, head: str, read: str) -> None:
    first, again = HEADS[head]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError), closing(writer):
            writer.write(first)
            while True:
                writer.write(again)
                await writer.drain()
                await asyncio.sleep(DRIP)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, asyncio.timeout(10):
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(FetchError):
            await READS[read](open_at(f"http://127.0.0.1:{port}/resources", retry=SHORT, timeout=0.3))


async def test_a_listing_that_never_ends_is_given_up(host: Host, http: Any) -> None:
    async def listing(request: Request) -> Response:
        return JSONResponse({"resources": [], "next_cursor": str(next(CURSORS))})

    client = DualResponseClient(host.serve(listing), http=http, retry=FEW)
    async with asyncio.timeout(5):
        with pytest.raises(FetchError, match="Given up after 0 rows"):
            _ = [each async for each in client.list_resources()]


async def test_the_time_of_the_application_is_not_the_server_s(host: Host, open_at: Open) -> None:
    async def three_rows(request: Request) -> Response:
        return lines('{"id":1}', '{"id":2}', '{"id":3}', '{"$summary":{"rows":3,"complete":true}}')

    now = 0.0
    budget = Budget(Retry(total=timedelta(seconds=1), budget=timedelta(seconds=1)), now=lambda: now)
    budget.progress(0)
    with budget.paused():
        now += 3_600
    budget.progress(0)
    assert await open_at(host.serve(three_rows), retry=BRIEF).fetch_all() == [{"id": n} for n in (1, 2, 3)]


@pytest.mark.parametrize("is_iterated", [True, False])
async def test_the_time_of_the_client_itself_counts(
    host: Host, open_at: Open, monkeypatch: pytest.MonkeyPatch, *, is_iterated: bool
) -> None:
    """Reading, converting and writing of rows: only the application's time with a batch is left out."""
    now = 0.0
    monkeypatch.setattr(streaming, "Budget", lambda retry: Budget(retry, now=lambda: now))
    stream = open_at(host.serve(dripping_rows))._stream(NDJSON, {}, is_iterated=is_iterated)
    taken = 0
    with suppress(FetchError):
        async with aclosing(stream.blocks()) as blocks:
            async for _ in blocks:
                now, taken = now + timedelta(days=1).total_seconds(), taken + 1
                if taken == 10:
                    break
    assert taken == (10 if is_iterated else 1)


STEP = st.tuples(st.sampled_from(["fail", "rows", "bytes"]), st.integers(1, 3_000_000), st.floats(0, 40))


@given(st.integers(0, 20), st.integers(0, 120), st.integers(0, 3_600), st.lists(STEP, max_size=80))
def test_no_order_of_events_outlasts_the_budget(
    times: int, budget: int, total: int, steps: list[tuple[str, int, float]]
) -> None:
    """Whatever comes in whatever order: attempts that bring less than 1 MiB, seconds without progress, and time."""
    now, last_row, since_failure, small_failures = 0.0, 0.0, 0, 0
    limits = Retry(times=times, budget=timedelta(seconds=budget), total=timedelta(seconds=total))
    left = Budget(limits, now=lambda: now)
    for kind, size, seconds in steps:
        now += seconds
        if kind == "fail":
            small_failures += since_failure < 1024 * 1024
            since_failure = 0
            delay = left.delay()
            if delay is None:
                assert small_failures > times or now >= total - 1e-6 or now - last_row >= budget - 1e-6
                return
            now += delay
            assert small_failures <= times
        else:
            left.spend(size)
            since_failure += size
            idle = now - last_row
            try:
                left.progress(int(kind == "rows"), is_partial=kind == "bytes")
            except FetchError:
                is_over = now >= total - 1e-6 or idle >= budget - 1e-6
                assert is_over
                return
            last_row = now if kind == "rows" or size >= 64 * 1024 else last_row
        assert now <= total + 1e-6


DURATIONS = ("budget", "first", "longest", "total")
WRONG: list[tuple[str, Any]] = [
    *((name, value) for name in DURATIONS for value in (3, 3.0, None, "3s", -timedelta(1))),
    *(("times", value) for value in (3.0, None, "3", True, -1, timedelta(1))),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_is_no_limit_is_refused_where_it_is_written(name: str, value: Any) -> None:
    with pytest.raises(NotConfiguredError, match=rf"Retry\({name}="):
        Retry(**{name: value})
