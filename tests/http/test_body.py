"""Reading bodies from hostile callers: endless, slow, cut short, mislabelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import pytest
from starlette.requests import Request
from starlette.types import Message

from dualsql.http.parameters import read_json_body
from dualsql.http.problems import BodyTooLargeError, CallerGoneError, SlowBodyError, UnsupportedBodyError
from dualsql.settings import Settings

SETTINGS = Settings(maximum_body_size=100)


class Wire:
    """A connection that delivers these messages and then falls silent."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = iter(messages)
        self.delivered = 0

    async def receive(self) -> Message:
        for message in self.messages:
            self.delivered += 1
            return message
        return await asyncio.Future()


def chunks(*parts: bytes, more_body: bool = False) -> list[Message]:
    last = len(parts) - 1
    return [
        {"type": "http.request", "body": part, "more_body": more_body or index < last}
        for index, part in enumerate(parts)
    ]


def request(wire: Wire, **headers: str) -> Request:
    declared = {"content_type": "application/json", **headers}
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in declared.items()]
    return Request({"type": "http", "method": "POST", "headers": raw}, wire.receive)


async def test_a_body_in_pieces_is_joined() -> None:
    assert await read_json_body(request(Wire(chunks(b'{"lim', b"", b'it":1}'))), SETTINGS) == b'{"limit":1}'


async def test_who_identifies_callers_may_read_the_body_again() -> None:
    sent = request(Wire(chunks(b'{"lim', b'it":1}')))
    assert await read_json_body(sent, SETTINGS) == await sent.body()


async def test_who_identifies_callers_may_read_the_body_before() -> None:
    sent = request(Wire(chunks(b'{"lim', b'it":1}')))
    assert await sent.body() == await read_json_body(sent, SETTINGS)
    long = request(Wire(chunks(b" " * 101)))
    await long.body()
    with pytest.raises(BodyTooLargeError):
        await read_json_body(long, SETTINGS)


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    wire = Wire(chunks(b" " * 100))
    assert await read_json_body(request(wire, content_length="100"), SETTINGS) == b" " * 100


@pytest.mark.parametrize("length", ["101", "9" * 5_000])
async def test_an_announced_excess_is_refused_unread(length: str) -> None:
    wire = Wire(chunks(b" " * 101))
    with pytest.raises(BodyTooLargeError):
        await read_json_body(request(wire, content_length=length), SETTINGS)
    assert wire.delivered == 0


@pytest.mark.parametrize(
    "headers", [{}, {"content_length": "1"}, {"content_length": "-1"}, {"content_length": "\xb2"}]
)
async def test_an_unannounced_excess_is_refused_where_it_begins(headers: dict[str, str]) -> None:
    wire = Wire(chunks(*[b" " * 40] * 1_000))
    with pytest.raises(BodyTooLargeError):
        await read_json_body(request(wire, **headers), SETTINGS)
    assert wire.delivered == 3


async def test_a_body_that_never_ends_is_given_up() -> None:
    impatient = Settings(body_timeout=timedelta(milliseconds=1))
    with pytest.raises(SlowBodyError):
        await read_json_body(request(Wire(chunks(b"{", more_body=True))), impatient)


async def test_a_caller_who_hangs_up_is_noticed() -> None:
    wire = Wire([*chunks(b"{", more_body=True), {"type": "http.disconnect"}])
    with pytest.raises(CallerGoneError):
        await read_json_body(request(wire), SETTINGS)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=UTF-8",
        'application/json;charset="utf-8"',
    ],
)
async def test_json_is_recognised(content_type: str) -> None:
    assert await read_json_body(request(Wire(chunks(b"{}")), content_type=content_type), SETTINGS) == b"{}"


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": ""},
        {"content_type": "text/plain"},
        {"content_type": "text/json"},
        {"content_type": "application/jsonp"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data; boundary=application/json"},
        {"content_type": "text/plain; application/json"},
        {"content_type": "application/json, text/plain"},
        {"content_type": "application/json; charset=utf-16"},
        {"content_type": "\xff"},
        {"content_encoding": "gzip"},
    ],
)
async def test_anything_else_is_refused_unread(headers: dict[str, str]) -> None:
    wire = Wire(chunks(b"{}"))
    with pytest.raises(UnsupportedBodyError):
        await read_json_body(request(wire, **headers), SETTINGS)
    assert wire.delivered == 0
