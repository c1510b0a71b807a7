"""Existing tools and applications can be watched: their faults are reported, and no answer is changed."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dualsql import ConfigurationError
from dualsql.envelope import (
    ValidateResponses,
    create_dual_mode_response,
    create_success_response,
    validate_dual_mode,
    watch_tool,
)

GOOD = create_success_response({"a": 1})
VALUES: list[Any] = [
    None, 1, "text", b"bytes", [1, {"a": None}], {"name": "Ana"}, {"success": True}, {"isError": True, "content": []},
    float("nan"), object(), iter([1, 2]), {1: 2}, ValueError("no"), {"deep": [[[[]]]] * 3},
]  # fmt: skip
Seen = list[tuple[str, Sequence[str]]]


def noted(seen: Seen) -> Any:
    return lambda name, faults: seen.append((name, list(faults)))


def test_an_answer_is_the_object_that_the_tool_returned() -> None:
    for value in VALUES:
        seen: Seen = []
        assert watch_tool(lambda value=value: value, name="find", report=noted(seen))() is value
        assert [name for name, _ in seen] == ["find"], "none of these values is an envelope"
    rest = iter([1, 2])
    watch_tool(lambda: rest, report=noted([]))()
    assert list(rest) == [1, 2], "nothing is read of it"


def test_each_fault_is_reported_and_nothing_of_the_data() -> None:
    seen: Seen = []
    answer: dict[str, Any] = {"success": "yes", "content": [{"text": "hunter2"}]}
    before = copy.deepcopy(answer)

    def find() -> dict[str, Any]:
        return answer

    assert watch_tool(find, report=noted(seen))() is answer == before
    [(name, faults)] = seen
    assert name == "find"
    assert {word for word in ("success", "timestamp", "type") if word in " ".join(faults)} == {
        "success",
        "timestamp",
        "type",
    }
    assert "hunter2" not in " ".join(faults)


def test_an_answer_in_order_is_not_reported() -> None:
    seen: Seen = []
    watch_tool(lambda: GOOD, report=noted(seen))()
    dual_mode = create_dual_mode_response({"a": 1}, operation="find")
    watch_tool(lambda: dual_mode, check=validate_dual_mode, report=noted(seen))()
    assert seen == []
    watch_tool(lambda: GOOD, check=validate_dual_mode, report=noted(seen))()
    assert len(seen) == 1


async def test_an_async_tool_stays_one_and_a_cancelled_call_stays_cancelled() -> None:
    seen: Seen = []
    started = asyncio.Event()

    async def find(number: int, *, deep: bool = False) -> int:
        started.set()
        if deep:
            await asyncio.Event().wait()
        return number

    def handed_on(number: int) -> Awaitable[int]:
        return find(number)

    watched = watch_tool(find, report=noted(seen))
    assert inspect.iscoroutinefunction(watched)
    assert inspect.signature(watched) == inspect.signature(find)
    assert await watched(7) == 7
    assert await watch_tool(handed_on, report=noted(seen))(8) == 8
    assert [name for name, _ in seen] == ["find", "handed_on"]
    started.clear()
    calling = asyncio.ensure_future(watched(1, deep=True))
    await started.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert len(seen) == 2


async def test_an_exception_stays_the_tool_s_own() -> None:
    seen: Seen = []

    def fails(number: int) -> None:
        raise KeyError("hunter2")

    async def fails_later(number: int) -> None:
        raise KeyError("hunter2")

    with pytest.raises(KeyError, match="hunter2"):
        watch_tool(fails, report=noted(seen))(1)
    with pytest.raises(KeyError, match="hunter2"):
        await watch_tool(fails_later, report=noted(seen))(1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        watch_tool(fails, report=noted(seen))(nunber=1)  # type: ignore[call-arg]
    assert seen == [
        ("fails", ["The tool raised KeyError."]),
        ("fails_later", ["The tool raised KeyError."]),
        ("fails", ["The tool raised TypeError."]),
    ]


def test_what_goes_wrong_with_watching_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("the report is broken")

    with caplog.at_level(logging.WARNING, "dualsql.audit"):
        assert watch_tool(lambda: 1, name="find", report=fail)() == 1
        assert watch_tool(lambda: 1, name="find", check=fail)() == 1
        assert watch_tool(lambda: {"a\nb": {1, 2}}, name="fi\nnd")() == {"a\nb": {1, 2}}
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]
    assert "\n" not in caplog.records[2].getMessage()


def test_a_report_that_would_never_run_is_refused() -> None:
    async def report(name: str, faults: Sequence[str]) -> None:
        """Nobody awaits it."""

    for make in (
        lambda: watch_tool(lambda: 1, report=report),  # type: ignore[arg-type]
        lambda: ValidateResponses(Starlette(), report=report),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError, match="synchronous"):
            make()


async def asked(answer: Response, seen: Seen, **options: Any) -> httpx.Response:
    async def endpoint(request: Any) -> Response:
        return answer

    app = ValidateResponses(
        Starlette(routes=[Route("/", endpoint)]), name="shop", report=noted(seen), **options
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        return await client.get("/")


@pytest.mark.parametrize(
    "body",
    [
        b'{"success": true}',
        b"[1, 2",
        b'{"a": 1, "a": 2}',
        b"NaN",
        b"",
        b"[" * 100_000,
        json.dumps(GOOD).encode(),
    ],
)
async def test_an_application_s_answers_leave_as_they_are(body: bytes) -> None:
    seen: Seen = []
    headers = {"ETag": '"1"', "X-Own": "kept"}
    got = await asked(Response(body, 418, headers, "application/json"), seen)
    assert (got.status_code, got.content) == (418, body)
    assert {name: got.headers[name] for name in headers} == headers
    assert [name for name, _ in seen] == ([] if body == json.dumps(GOOD).encode() else ["shop"])


async def test_a_report_that_fails_leaves_the_answer() -> None:
    async def endpoint(request: Any) -> Response:
        return JSONResponse({"a": 1})

    def fail(*_: Any) -> None:
        raise RuntimeError

    app = ValidateResponses(Starlette(routes=[Route("/", endpoint)]), report=fail)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert (await client.get("/")).json() == {"a": 1}


async def test_streams_are_not_read() -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b'{"a": '
        yield b"1}"

    seen: Seen = []
    got = await asked(StreamingResponse(lines(), media_type="application/json"), seen)
    assert (got.json(), seen) == ({"a": 1}, [])
