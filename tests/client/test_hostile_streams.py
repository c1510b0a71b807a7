"""Streams of a hostile, broken or busy server: what they cost, and that no wrong row is accepted."""

from __future__ import annotations

import asyncio
import gzip
import random
import tracemalloc
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from dualsql_client import (
    FetchError,
    FetchTimeoutError,
    ParsedDualResponse,
    ResourceNotFoundError,
    Retry,
    StreamBrokenError,
    UntrustedOriginError,
)
from dualsql_client.budget import Budget, retry_after
from tests.client.conftest import Open
from tests.client.hosting import Host, listening_socket, origin_of, problem

MEDIA_TYPE = "application/x-ndjson"
WHOLE = b'{"id":1}\n{"$summary":{"rows":1,"complete":true}}\n'
QUICK = Retry(times=3, first=timedelta())


def answering(*answers: Response | Callable[[Request], Response]) -> Any:
    """A handler that gives these answers, and the last of them ever after; `asked` holds the bodies of requests."""
    left = list(answers)

    async def answer(request: Request) -> Response:
        answer.asked.append(await request.json())  # type: ignore[attr-defined]
        actual = left.pop(0) if len(left) > 1 else left[0]
        return actual if isinstance(actual, Response) else actual(request)

    answer.asked = []  # type: ignore[attr-defined]
    return answer


def stream(body: bytes | AsyncIterator[bytes], **headers: str) -> Response:
    headers = {"content-type": MEDIA_TYPE, **headers}
    return (
        Response(body, headers=headers)
        if isinstance(body, bytes)
        else StreamingResponse(body, headers=headers)
    )


async def endless(piece: bytes) -> AsyncIterator[bytes]:
    while True:
        yield piece
        # The server shares the event loop with the client, and sending need not give way.
        await asyncio.sleep(0)


async def rows_thrown_away(parsed: ParsedDualResponse) -> None:
    async for _ in parsed.fetch_stream():
        pass


async def test_one_request_names_format_and_nothing_that_was_not_asked_for(host: Host, open_at: Open) -> None:
    handler = answering(stream(WHOLE))
    assert await open_at(host.serve(handler)).fetch_all() == [{"id": 1}]
    assert handler.asked == [{"format": "ndjson"}]


@pytest.mark.parametrize(
    "media_type", ["application/json", "text/html", "text/csv", "application/x-ndjsonx", ""]
)
async def test_only_the_format_asked_for_is_read(host: Host, open_at: Open, media_type: str) -> None:
    base_url = host.serve(answering(Response(WHOLE, headers={"content-type": media_type})))
    with pytest.raises(FetchError, match="is not application/x-ndjson"):
        await open_at(base_url).fetch_all()


async def test_an_endless_line_is_cut(host: Host, open_at: Open) -> None:
    base_url = host.serve(answering(lambda request: stream(endless(b" " * 65_536))))
    with pytest.raises(FetchError, match="row of the stream is larger than 1,000,000 bytes") as error:
        await open_at(base_url, maximum_response_bytes=1_000_000).fetch_all()
    assert "maximum_response_bytes" in error.value.hint


@pytest.mark.long
async def test_endless_rows_are_cut_and_cost_no_memory_meanwhile(host: Host, open_at: Open) -> None:
    base_url = host.serve(answering(lambda request: stream(endless(b'{"id":1}\n' * 5_000))))
    parsed = open_at(base_url, maximum_stream_bytes=4_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(FetchError, match="longer than 4,000,000 bytes") as error:
            await rows_thrown_away(parsed)
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()
    assert error.value.details["rows"] > 400_000


@pytest.mark.quick(1)
async def test_a_compressed_bomb_is_cut(host: Host, open_at: Open) -> None:
    bomb = gzip.compress(b" " * 100_000_000, mtime=0)
    base_url = host.serve(answering(stream(bomb, **{"content-encoding": "gzip"})))
    with pytest.raises(FetchError, match="larger than"):
        await open_at(base_url, maximum_response_bytes=1_000_000).fetch_all()


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "x"])
async def test_a_compression_that_was_not_asked_for_is_refused(
    host: Host, open_at: Open, encoding: str
) -> None:
    base_url = host.serve(answering(stream(b"?", **{"content-encoding": encoding})))
    with pytest.raises(FetchError, match="compressed"):
        await open_at(base_url).fetch_all()


@pytest.mark.parametrize(
    "body", [b"", b'{"id":1}\n', WHOLE[:-1], b'{"id":1}', b'{"$summary":{"rows":0,"complete":false}}\n']
)
async def test_a_stream_without_its_end_never_looks_whole(host: Host, open_at: Open, body: bytes) -> None:
    handler = answering(stream(body))
    with pytest.raises(FetchError, match="ended too early"):
        await open_at(host.serve(handler), retry=QUICK).fetch_all()
    assert len(handler.asked) == 1 + QUICK.times


async def test_an_end_that_lies_about_the_rows(host: Host, open_at: Open) -> None:
    base_url = host.serve(answering(stream(b'{"id":1}\n{"$summary":{"rows":2,"complete":true}}\n')))
    with pytest.raises(FetchError, match="another number of rows"):
        await open_at(base_url).fetch_all()


async def test_a_problem_at_the_end_is_an_error_whatever_came_before(host: Host, open_at: Open) -> None:
    said = b'{"$problem":{"code":"LIMIT_EXCEEDED","message":"Enough.","hint":"","details":{"limit":"rows"},"rows":1}}'
    handler = answering(stream(b'{"id":1}\n' + said + b"\n"))
    with pytest.raises(FetchError, match="Enough") as error:
        await open_at(host.serve(handler), retry=QUICK).fetch_all()
    assert (error.value.code, error.value.details) == ("LIMIT_EXCEEDED", {"limit": "rows", "rows": 1})
    assert len(handler.asked) == 1


ROW_COUNTS = ["-1", "1e3", "x", "9" * 30, "٣", ""]


@pytest.mark.parametrize("total", ROW_COUNTS)
async def test_a_total_that_is_no_number_is_none(host: Host, open_at: Open, total: str) -> None:
    calls: list[Any] = []
    base_url = host.serve(answering(_with_raw(stream(WHOLE), b"dualsql-total-count", total.encode())))
    await open_at(base_url).fetch_all(progress=lambda progress: calls.append(progress.total))
    assert set(calls) <= {None}


@pytest.mark.parametrize(
    ("kind", "told"), [("exact", 7), ("estimated", None), ("capped", None), ("none", None)]
)
async def test_only_what_was_counted_is_a_total(
    host: Host, open_at: Open, kind: str, told: int | None
) -> None:
    totals: list[Any] = []
    answered = stream(WHOLE, **{"dualsql-total-count": "7", "dualsql-total-count-kind": kind})
    await open_at(host.serve(answering(answered))).fetch_all(
        progress=lambda progress: totals.append(progress.total)
    )
    assert set(totals) == {told}


async def test_a_stream_that_began_never_begins_again_as_pages(host: Host, open_at: Open) -> None:
    begun = stream(b'{"id":1}\n{"id":2}\n', **{"dualsql-resume": "token"})
    handler = answering(begun, problem(404, "RESOURCE_NOT_FOUND"))
    with pytest.raises(ResourceNotFoundError):
        await open_at(host.serve(handler), retry=QUICK).fetch_all()
    assert [(body.get("resume"), body.get("after")) for body in handler.asked] == [(None, None), ("token", 1)]


def _with_raw(response: Response, name: bytes, value: bytes) -> Response:
    response.raw_headers.append((name, value))
    return response


async def test_redirects_are_not_followed(host: Host, open_at: Open) -> None:
    theirs = answering(stream(WHOLE))
    target = host.serve(theirs, origin=1)
    base_url = host.serve(answering(RedirectResponse(target, 307)))
    with pytest.raises(UntrustedOriginError):
        await open_at(base_url).fetch_all()
    assert theirs.asked == []


async def test_a_server_that_falls_silent_is_left(host: Host, open_at: Open) -> None:
    silent = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"id":1}\n{"id":2}\n'
        await silent.wait()

    base_url = host.serve(answering(lambda request: stream(pieces())))
    with pytest.raises(StreamBrokenError, match=r"after 1 rows.*0\.2 seconds") as error:
        await open_at(base_url, timeout=0.2, retry=QUICK).fetch_all()
    assert isinstance(error.value.__cause__, FetchTimeoutError)
    silent.set()


async def test_a_busy_server_is_asked_again_when_it_said(host: Host, open_at: Open) -> None:
    busy = problem(503, "DATABASE_BUSY")
    busy.headers["retry-after"] = "0"
    handler = answering(busy, busy, stream(WHOLE))
    assert await open_at(host.serve(handler), retry=QUICK).fetch_all() == [{"id": 1}]
    assert len(handler.asked) == 3


async def test_pages_of_all_rows_wait_for_a_busy_server_and_a_single_page_does_not(
    host: Host, open_at: Open
) -> None:
    busy = problem(503, "DATABASE_UNREACHABLE")
    busy.headers["retry-after"] = "0"
    page = {"data": [{"id": 1}], "columns": [], "total_count": 1, "has_next": False, "offset": 0, "limit": 1}
    handler = answering(busy, busy, JSONResponse(page))
    assert await open_at(host.serve(handler), retry=QUICK).query_all() == [{"id": 1}]
    assert len(handler.asked) == 3
    with pytest.raises(FetchError) as error:
        await open_at(host.serve(answering(busy)), retry=QUICK).query()
    assert error.value.may_pass


async def test_a_busy_server_is_not_asked_for_ever(host: Host, open_at: Open) -> None:
    handler = answering(problem(503, "DATABASE_BUSY"))
    with pytest.raises(FetchError, match=r"No\.") as error:
        await open_at(host.serve(handler), retry=QUICK).fetch_all()
    assert (error.value.code, error.value.status) == ("DATABASE_BUSY", 503)
    assert len(handler.asked) == 1 + QUICK.times


async def test_a_server_that_wants_to_be_left_for_long_is_left(host: Host, open_at: Open) -> None:
    busy = problem(503, "DATABASE_BUSY")
    busy.headers["retry-after"] = "3600"
    handler = answering(busy)
    with pytest.raises(FetchError) as error:
        await open_at(host.serve(handler)).fetch_all()
    assert error.value.retry_after == 3600
    assert len(handler.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 406, 410, 422, 500])
async def test_what_is_refused_is_not_asked_again(host: Host, open_at: Open, status: int) -> None:
    handler = answering(problem(status, "REFUSED"))
    with pytest.raises(FetchError) as error:
        await open_at(host.serve(handler), retry=QUICK).fetch_all()
    assert error.value.status == status
    assert len(handler.asked) == 1


async def test_a_server_that_is_not_there_is_asked_once(open_at: Open) -> None:
    with listening_socket() as bound:
        base_url = origin_of(bound)
    with pytest.raises(FetchError, match="ConnectError") as error:
        await open_at(base_url).fetch_all()
    assert not isinstance(error.value, StreamBrokenError)


async def test_a_hostile_file_name_goes_nowhere(host: Host, open_at: Open, tmp_path: Path) -> None:
    answered = stream(WHOLE, **{"content-disposition": 'attachment; filename="../../evil.ndjson"'})
    await open_at(host.serve(answering(answered))).save(tmp_path / "rows.ndjson")
    assert (tmp_path / "rows.ndjson").read_bytes() == b'{"id":1}\n'


@given(st.integers(0, 200), st.floats(0.1, 300), st.lists(st.floats(0, 100) | st.none(), max_size=60))
def test_what_is_waited_is_bounded(times: int, budget: float, asked: list[float | None]) -> None:
    now = 0.0
    attempts = Budget(Retry(times=times, budget=timedelta(seconds=budget)), now=lambda: now)
    for failures, seconds in enumerate(asked):
        delay = attempts.delay(seconds)
        if delay is None:
            assert failures >= times or now + (seconds or 0) >= budget - 1e-6
            break
        assert failures < times
        assert (seconds or 0) <= delay <= max(seconds or 0, min(15, 0.25 * 2**failures))
        now += delay
    assert now <= budget + 1e-6


@given(st.integers(0, 2**32))
def test_an_outage_of_more_than_a_minute_is_outlasted(seed: int) -> None:
    """Whatever is drawn, the last attempt is made when the budget ends."""
    random.seed(seed)
    now, asked_at = 0.0, [0.0]
    attempts = Budget(Retry(), now=lambda: now)
    while (delay := attempts.delay()) is not None:
        now += delay
        asked_at.append(now)
    assert asked_at[-1] == pytest.approx(90)
    assert max(later - sooner for sooner, later in pairwise(asked_at)) <= 15


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        ("", None),
        (None, None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("9" * 99, 999_999_999),
    ],
)
def test_retry_after_in_seconds(written: str | None, seconds: float | None) -> None:
    assert retry_after(written) == seconds


@pytest.mark.parametrize("zone", ["GMT", "-0000"])
def test_retry_after_as_a_date(zone: str) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=100)
    seconds = retry_after(f"{moment:%a, %d %b %Y %H:%M:%S} {zone}")
    assert seconds is not None
    assert 90 < seconds <= 100
    assert retry_after(f"Fri, 01 Jan 1999 00:00:00 {zone}") == 0
