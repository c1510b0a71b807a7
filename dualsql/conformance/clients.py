"""Serves difficult servers to a client: one run of its command for each sentence of the part client."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from dualsql.conformance.probe import Untestable, Violation, require
from dualsql.conformance.rows_server import RowsServer
from dualsql.conformance.run import SentenceOutcome
from dualsql.conformance.standard import Sentence, sentences, standard_row

SECONDS = 30.0
"""For one run of the command."""
_ROWS = 23
_MOST_BYTES = 1024 * 1024


async def check_client(command: str) -> list[SentenceOutcome]:
    """What each sentence for clients gives, for the client that `command` runs.

    Raises:
        OSError: the command cannot be started.
    """
    return [
        await _outcome(sentence, shlex.split(command))
        for sentence in sentences()
        if sentence.part == "client"
    ]


async def _outcome(sentence: Sentence, command: Sequence[str]) -> SentenceOutcome:
    exchange: dict[str, Any] = {}
    try:
        await _check(sentence, command, exchange)
    except Untestable as error:
        return SentenceOutcome(sentence=sentence, verdict="not testable", reason=str(error))
    except Violation as error:
        return SentenceOutcome(sentence=sentence, verdict="failed", reason=str(error), exchange=exchange)
    return SentenceOutcome(sentence=sentence, verdict="passed")


async def _check(sentence: Sentence, command: Sequence[str], exchange: dict[str, Any]) -> None:
    async with _listening() as (port, stranger, other):
        origin, elsewhere = (f"http://127.0.0.1:{each}" for each in (port, stranger))
        server = RowsServer(origin, sentence.behaviour, elsewhere)
        async with _serving(server.application(), port):
            job = _job(sentence, server)
            exchange |= {"request": json.dumps(job), "status": 0, "headers": {}, "body": ""}
            answer = await _run(command, job)
    exchange |= {"body": json.dumps(answer), "headers": {"requests": ", ".join(server.requests)}}
    require(not other.connections, "it sent a request to an address that was not configured")
    _compare(sentence, answer)


def _job(sentence: Sentence, server: RowsServer) -> Mapping[str, Any]:
    """What the command reads: the task, the configured address, and the tool result."""
    result = server.tool_result(server.create(_ROWS))
    tool_result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    structured = tool_result["structuredContent"]
    if sentence.behaviour == "error":
        tool_result["isError"] = True
    if sentence.behaviour == "more":
        structured |= {"more": {"of": [1]}}
        structured["resource"]["colour"] = "green"
        structured["metadata"]["weight"] = 3
    if sentence.behaviour == "text":
        tool_result["content"] = [{"type": "text", "text": json.dumps(tool_result.pop("structuredContent"))}]
    if sentence.behaviour == "elsewhere":
        structured["resource"]["url"] = f"{server.elsewhere}/resources/0123456789abcdefghijkl"
        structured["resource"]["uri"] = "resource://0123456789abcdefghijkl"
    return {"task": sentence.task, "baseUrl": f"{server.origin}/resources", "toolResult": tool_result}


async def _run(command: Sequence[str], job: Mapping[str, Any]) -> Mapping[str, Any]:
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_MOST_BYTES)
    try:
        async with asyncio.timeout(SECONDS):
            written, _ = await program.communicate(json.dumps(job).encode())
    except TimeoutError as error:
        raise Violation(f"the command takes more than {SECONDS:.0f} seconds") from error
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    try:
        answer = json.loads(written)
    except ValueError as error:
        raise Violation(f"the command printed no JSON: {written[:200]!r}") from error
    require(isinstance(answer, dict), "the command printed no object")
    return dict(answer)


def _compare(sentence: Sentence, answer: Mapping[str, Any]) -> None:
    if sentence.answer == "error":
        # No dual response, or an error: not the rows.
        require("rows" not in answer and ("error" in answer or "none" in answer), "it returned rows")
        return
    if sentence.answer == "none":
        require("none" in answer, "it found a dual response in a failed call")
        return
    rows = answer.get("rows")
    require(isinstance(rows, list), f"it returned no rows: {str(answer.get('error', ''))[:200]}")
    expected = [dict(standard_row(number)) for number in range(1, _ROWS + 1)]
    if sentence.task == "sorted":
        values = [row.get("score") for row in rows or ()]
        known = [value for value in values if value is not None]
        require(known == sorted(known, reverse=True), "the rows are not sorted")
        rows = sorted(rows or (), key=lambda row: row.get("id", 0))
    require(rows == expected, f"it returned {len(rows or ())} rows, which are not the {_ROWS} of the result")


@dataclass(slots=True)
class _Stranger:
    """An address that no client may connect to."""

    connections: list[str] = field(default_factory=list)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(str(writer.get_extra_info("peername")))
        writer.close()


@asynccontextmanager
async def _listening() -> AsyncIterator[tuple[int, int, _Stranger]]:
    """A free port for the server, and a stranger with a port of its own."""
    stranger = _Stranger()
    async with await asyncio.start_server(stranger.accept, "127.0.0.1", 0) as server:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port = bound.getsockname()[1]
        yield port, server.sockets[0].getsockname()[1], stranger


@asynccontextmanager
async def _serving(app: ASGIApp, port: int) -> AsyncIterator[None]:
    """Serve `app` on loopback until the end of the block."""
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", ws="none", lifespan="off")
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        require(not running.done(), "the server did not start")
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await running
