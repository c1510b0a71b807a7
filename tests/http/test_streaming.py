"""How a stream ends, as a server of HTTP sees it: messages of ASGI, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import literal, select, true
from starlette.types import Message

from dualsql.http.streaming import CutOffError
from dualsql.results.audit import AuditEvent
from tests.http.application import INSTITUTIONS, ROWS, running
from tests.waiting import until

A, B = INSTITUTIONS.alias("a"), INSTITUTIONS.alias("b")
WIDE = select(*A.c, literal("x" * 1_000).label("padding")).join_from(A, B, true())
"""Every pair of institutions: 3,600 rows, four megabytes."""


class Caller:
    """Sends one GET to an application and takes what comes."""

    def __init__(self, app: Any, path: str, query: str, *, trailers: bool = False) -> None:
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"host", b"127.0.0.1:8000")],
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 1),
            "extensions": {"http.response.trailers": {}} if trailers else {},
        }
        self.app = app
        self.messages: list[Message] = []
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.is_full = asyncio.Event()
        self.left = asyncio.Event()
        self.pauses_after = 10**9

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        if len(self.messages) >= self.pauses_after:
            self.has_room.clear()
            self.is_full.set()
        await self.has_room.wait()

    async def call(self) -> None:
        await self.app(self.scope, self.receive, self.send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def is_ended(self) -> bool:
        """Whether the body was brought to its end."""
        return any(
            message["type"] == "http.response.body" and not message.get("more_body")
            for message in self.messages
        )


class Serving:
    """A server whose routes are called without a transport between."""

    def __init__(self, server: Any, events: list[AuditEvent]) -> None:
        self.server = server
        self.events = events
        self.app = server.router()

    async def caller(self, query: str = "", *, trailers: bool = False) -> Caller:
        response = await self.server.create_response(WIDE, name="x", count="none")
        return Caller(self.app, f"/{response.resource_id}/rows", query, trailers=trailers)

    @property
    def ended(self) -> list[AuditEvent]:
        """The events that end streams."""
        return [event for event in self.events if event.action == "read"]


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
async def serving(institutions_url: str, options: dict[str, Any]) -> AsyncIterator[Serving]:
    events: list[AuditEvent] = []
    async with running(institutions_url, audit=events.append, **options) as application:
        yield Serving(application.server, events)


async def test_trailers_tell_how_many_rows_there_were(serving: Serving) -> None:
    caller = await serving.caller("format=csv&limit=7", trailers=True)
    await caller.call()
    start, *_, last = caller.messages
    assert start["trailers"] is True
    assert last == {
        "type": "http.response.trailers",
        "headers": [(b"dualsql-rows", b"7")],
        "more_trailers": False,
    }


async def test_a_server_without_trailers_gets_none(serving: Serving) -> None:
    caller = await serving.caller("format=csv&limit=7")
    await caller.call()
    assert "trailers" not in caller.messages[0]
    assert caller.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize(
    ("written", "status"),
    [
        ("csv", 426),
        ("ndjson", 200),
        ("ndjson&summary=true", 200),
        ("ndjson&summary=false", 426),
        ("json", 200),
    ],
)
async def test_what_only_http_ends_is_not_sent_where_it_does_not(
    serving: Serving, written: str, status: int
) -> None:
    caller = await serving.caller(f"format={written}&limit=1")
    caller.scope["http_version"] = "1.0"
    await caller.call()
    assert caller.messages[0]["status"] == status
    if status == 426:
        assert (b"upgrade", b"HTTP/1.1") in caller.messages[0]["headers"]


@pytest.mark.parametrize("query", ["format=csv", "format=json", "format=ndjson&summary=false"])
async def test_a_form_without_a_last_record_is_cut_off(institutions_url: str, query: str) -> None:
    events: list[AuditEvent] = []
    async with running(institutions_url, audit=events.append, maximum_stream_bytes=1_500_000) as application:
        serving = Serving(application.server, events)
        caller = await serving.caller(query, trailers=True)
        with pytest.raises(CutOffError, match="LIMIT_EXCEEDED"):
            await caller.call()
        assert caller.messages[0]["status"] == 200 and caller.body and not caller.is_ended
    assert (serving.ended[-1].is_complete, serving.ended[-1].code) == (False, "LIMIT_EXCEEDED")


@pytest.mark.parametrize("options", [{"maximum_stream_bytes": 1_500_000}])
class TestLimits:
    async def test_ndjson_ends_with_the_problem(self, serving: Serving) -> None:
        caller = await serving.caller("", trailers=True)
        await caller.call()
        last = caller.body.splitlines()[-1]
        assert last.startswith(b'{"$problem":{"code":"LIMIT_EXCEEDED"')
        assert (
            last.endswith(f'"rows":{serving.ended[-1].rows},"complete":false}}}}'.encode())
            and caller.is_ended
        )
        assert caller.messages[-1]["headers"] == []


@pytest.mark.parametrize("options", [{"maximum_streams": 1}])
async def test_one_more_stream_than_there_may_be_is_told_when_to_come_back(serving: Serving) -> None:
    first, second, third = [await serving.caller("format=csv") for _ in range(3)]
    first.pauses_after = 2
    running_first = asyncio.create_task(first.call())
    await first.is_full.wait()
    await second.call()
    headers = dict(second.messages[0]["headers"])
    assert second.messages[0]["status"] == 503 and int(headers[b"retry-after"]) > 0
    first.left.set()
    await running_first
    await third.call()
    assert third.messages[0]["status"] == 200


@pytest.mark.long
@pytest.mark.parametrize("option", ["stream_stall_timeout", "maximum_stream_duration"])
@pytest.mark.parametrize("options", [{}])
async def test_a_full_socket_is_waited_for_so_long(institutions_url: str, option: str, options: Any) -> None:
    limits: dict[str, Any] = {option: timedelta(seconds=2)}
    events: list[AuditEvent] = []
    async with running(institutions_url, audit=events.append, **limits) as application:
        serving = Serving(application.server, events)
        caller = await serving.caller("format=csv")
        caller.pauses_after = 2
        with pytest.raises(CutOffError):
            await caller.call()
        assert not caller.is_ended
    assert not serving.ended[-1].is_complete


async def test_the_end_is_not_waited_for_any_longer(institutions_url: str) -> None:
    """A reader that stalls just before the last bytes, when the database is done, holds its slot no longer."""
    stalled: dict[str, Any] = {"stream_stall_timeout": timedelta(milliseconds=500), "maximum_streams": 1}
    async with running(institutions_url, **stalled) as application:
        serving = Serving(application.server, [])
        caller = await serving.caller("format=csv&limit=1")
        caller.pauses_after = 3  # the start, the rows, the end
        with pytest.raises(CutOffError):
            await caller.call()
        again = await serving.caller("format=csv&limit=1")
        await again.call()
        assert again.messages[0]["status"] == 200


@pytest.mark.parametrize("options", [{"maximum_streams": 1}])
async def test_a_stream_that_its_reader_drops_gives_back_its_slot(serving: Serving) -> None:
    dual = serving.server
    response = await dual.create_response(select(INSTITUTIONS), name="all")

    async def read_one_chunk() -> None:
        async for _ in (await dual.stream(response.resource_id, None)).chunks:
            assert len(dual.parts.streams) == 1
            break

    for _ in range(2):
        await read_one_chunk()
        await until(lambda: asyncio.sleep(0, len(dual.parts.streams)), lambda running: running == 0)


async def test_nothing_is_read_while_the_socket_is_full(serving: Serving) -> None:
    caller = await serving.caller("format=ndjson")
    caller.pauses_after = 2
    calling = asyncio.create_task(caller.call())
    await caller.is_full.wait()
    assert serving.ended == []
    caller.pauses_after = 10**9
    caller.has_room.set()
    await calling
    assert caller.body.count(b"\n") == len(ROWS) ** 2 + 1
    assert (serving.ended[-1].rows, serving.ended[-1].is_complete) == (len(ROWS) ** 2, True)


async def test_a_caller_who_left_is_no_error(serving: Serving) -> None:
    caller = await serving.caller("format=csv")
    caller.pauses_after = 2
    calling = asyncio.create_task(caller.call())
    await caller.is_full.wait()
    caller.left.set()
    await calling
    await serving.server.shutdown()  # which waits for what is being written down
    assert (serving.ended[-1].is_complete, serving.ended[-1].code) == (False, None)


async def test_compression_bounds_what_is_read_not_what_is_sent(institutions_url: str) -> None:
    """Zeros compress a thousandfold: the bound on bytes counts them before."""
    async with running(institutions_url, maximum_stream_bytes=1_500_000) as application:
        serving = Serving(application.server, [])
        caller = await serving.caller("format=csv")
        caller.scope["headers"].append((b"accept-encoding", b"gzip"))  # type: ignore[attr-defined]
        with pytest.raises(CutOffError):
            await caller.call()
        assert 0 < len(caller.body) < 100_000
