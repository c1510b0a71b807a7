"""Work goes on while its caller is connected, and ends with the connection."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from dualsql.http.problems import CallerGoneError, while_connected


class Caller:
    """A connection whose request has been sent in full; `hang_up` closes it."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.waiting = asyncio.Event()

    async def receive(self) -> Message:
        if not self.waiting.is_set():
            self.waiting.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Statement:
    """Work that never ends by itself, and takes a moment to clean up."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.closed = False

    async def run(self) -> None:
        try:
            self.started.set()
            await asyncio.Future()
        finally:
            await asyncio.sleep(0)
            self.closed = True


async def test_the_result_reaches_a_caller_who_waits() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 42

    assert await while_connected(Caller().receive, work()) == 42


async def test_an_error_reaches_a_caller_who_waits() -> None:
    async def work() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        await while_connected(Caller().receive, work())


async def test_work_stops_when_the_caller_hangs_up() -> None:
    caller, statement = Caller(), Statement()
    request = asyncio.create_task(while_connected(caller.receive, statement.run()))
    await statement.started.wait()
    caller.gone.set()
    with pytest.raises(CallerGoneError):
        await request
    assert statement.closed


async def test_work_stops_when_the_request_is_cancelled() -> None:
    statement = Statement()
    request = asyncio.create_task(while_connected(Caller().receive, statement.run()))
    await statement.started.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert statement.closed


async def test_work_that_waits_for_nothing_watches_nobody() -> None:
    caller = Caller()

    async def work() -> int:
        return 42

    assert await while_connected(caller.receive, work()) == 42
    await asyncio.sleep(0)
    assert not caller.waiting.is_set()


async def test_a_caller_who_leaves_after_the_end_cancels_nothing() -> None:
    caller = Caller()

    async def work() -> int:
        await caller.waiting.wait()
        caller.gone.set()
        return 42

    assert await while_connected(caller.receive, work()) == 42
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_cancellation_and_a_hang_up_at_once_are_a_cancellation() -> None:
    caller, statement = Caller(), Statement()
    request = asyncio.create_task(while_connected(caller.receive, statement.run()))
    await caller.waiting.wait()
    caller.gone.set()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert statement.closed
