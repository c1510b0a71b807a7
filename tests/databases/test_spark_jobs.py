"""Spark's pages as nobody wants them: each answer is bounded in bytes and in time, and none stops a statement."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dualsql import ConfigurationError
from dualsql.databases.spark import jobs
from dualsql.databases.spark.jobs import JobList, new_tag

Answer = Callable[[BaseHTTPRequestHandler], None]
_LIST = "/api/v1/applications"


@contextmanager
def pages(answer: Answer) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The address of a server that answers so, and the methods and paths that it was asked for."""
    seen: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client has ended the connection
                self.close_connection = True

        def do_GET(self) -> None:
            seen.append((self.command, self.path))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            answer(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


def send(
    handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def silent(_: BaseHTTPRequestHandler) -> None:
    time.sleep(5)  # longer than an answer may take


def trickling(handler: BaseHTTPRequestHandler) -> None:
    """A byte within each limit of a read, for ever."""
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.02)


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"[" * 65_536)


def broken_off(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"[", headers={"Content-Length": "1000"})


def no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\x15\x03\x01\x00\x02\x02\x50")


def login(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"", 302, {"Location": "/login"})


def history(handler: BaseHTTPRequestHandler) -> None:
    send(handler, json.dumps([{"id": "one"}, {"id": "two"}]).encode())


WRONG: dict[str, tuple[Answer, str]] = {
    "silent": (silent, "no whole answer within 0.3 seconds"),
    "trickling": (trickling, "no whole answer within 0.3 seconds"),
    "endless": (endless, "more than 100,000 bytes"),
    "broken off": (broken_off, "broke off"),
    "no HTTP": (no_http, "BadStatusLine"),
    "a login": (login, "status 302"),
    "a page": (lambda handler: send(handler, b"<html>"), "not JSON"),
    "deep": (lambda handler: send(handler, b"[" * 90_000), "not JSON"),
    "an object": (lambda handler: send(handler, b"{}"), "no list of objects"),
    "other items": (lambda handler: send(handler, b"[1]"), "no list of objects"),
    "no application": (lambda handler: send(handler, b"[]"), "no driver, or of several"),
    "a History Server": (history, "no driver, or of several"),
    "not found": (lambda handler: send(handler, b"", 404), "status 404"),
    "forbidden": (lambda handler: send(handler, b"", 403), "status 403"),
}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_SECONDS", 0.3)
    monkeypatch.setattr(jobs, "_MOST_BYTES", 100_000)
    monkeypatch.setattr(jobs, "_WATCHED", 0.5)


def ended(tag: str, address: str) -> None:
    """Watch the jobs of a statement to the end, as the thread does that `end` starts."""
    jobs_of = JobList(address)
    jobs_of.end(tag)
    for thread in threading.enumerate():
        if thread.name == "dualsql-spark-jobs":
            thread.join(10)
            assert not thread.is_alive()


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("name", WRONG)
def test_pages_that_are_none_of_spark_are_said_once_and_given_up(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer, words = WRONG[name]
    started = time.monotonic()
    with pages(answer) as (address, seen):
        ended(new_tag(), address)
    assert time.monotonic() - started < 5
    (record,) = [each for each in caplog.records if each.name == jobs.__name__]
    assert record.levelno == logging.WARNING
    assert words in record.getMessage() and address.removeprefix("http://") in record.getMessage()
    # No redirect is followed, and no job is asked of what is no list.
    assert {path for _, path in seen} == {_LIST}


@pytest.mark.usefixtures("hasty")
def test_pages_that_are_gone_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        ended(new_tag(), f"http://127.0.0.1:{bound.getsockname()[1]}")
    (record,) = [each for each in caplog.records if each.name == jobs.__name__]
    assert "refused" in record.getMessage()


@pytest.mark.usefixtures("hasty")
def test_a_job_that_cannot_be_ended_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Of two jobs, one of somebody else's, with pages on which no job can be ended."""
    tag = new_tag()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == _LIST:
            send(handler, b'[{"id": "app/../1"}]')
        elif "?status=running" in handler.path:
            found = [
                {"jobId": 1, "description": new_tag()},
                {"jobId": 2, "description": f"SELECT 1 /* {tag} */"},
            ]
            send(handler, json.dumps(found).encode())
        elif handler.command == "GET":
            send(handler, b'<input name="csrfToken" ' + b" " * 90_000)
        else:
            send(handler, b"", 405)

    with pages(answer) as (address, seen):
        ended(tag, f"{address}/")
    assert "spark.ui.killEnabled" in caplog.text
    assert (seen[0][1], seen[1][1]) == (_LIST, f"{_LIST}/app%2F..%2F1/jobs?status=running")


def test_a_process_without_threads_says_so_and_the_statement_ends_as_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    actual = JobList("http://127.0.0.1:1")

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        actual.end(new_tag())
    assert "RuntimeError" in caplog.text
    monkeypatch.setattr(jobs, "_WATCHED", 0.1)
    actual.end(new_tag())
    assert any(thread.name == "dualsql-spark-jobs" for thread in threading.enumerate())


@pytest.mark.parametrize(
    "address",
    ["", "here", "ftp://spark.example", "http://", "http://spark.example?x=1", "http://spark.example#x",
     "http://me:secret@spark.example", "http://spark.example:99999", "http://spark.example:x", "http://[spark"],
)  # fmt: skip
def test_an_address_of_pages_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="ui") as error:
        JobList(address)
    assert "secret" not in str(error.value)
