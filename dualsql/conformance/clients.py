"""Serves difficult servers to a client: one run of its command for each sentence of the part client."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import uvicorn
from starlette.applications import Starlette

from dualsql.conformance.probe import Violation, require
from dualsql.conformance.rows_server import RowsServer
from dualsql.conformance.run import SentenceOutcome
from dualsql.conformance.standard import Sentence, sentences, standard_row

SECONDS = 30.0
"""For one run of the command."""
MOST_BYTES = 1024 * 1024
"""Of what it prints."""
_ROWS = 23
_HANGS = f"the command does not end within {SECONDS:.0f} seconds"


async def check_client(command: str) -> list[SentenceOutcome]:
    """The outcome of each sentence for clients, for the client that `command` runs.

    Raises:
        OSError: the command cannot be started.
        ValueError: it is empty, or a quotation mark in it is not closed.
    """
    if not (words := shlex.split(command)):
        raise ValueError("the command is empty")
    first, *others = (each for each in sentences() if each.part == "client")
    outcomes = [await _outcome(first, words)]
    if outcomes[0].reason == _HANGS:
        # It would take as long for each of the others.
        reason = f"{_HANGS}: see {first.number}"
        return outcomes + [
            SentenceOutcome(sentence=each, verdict="not testable", reason=reason) for each in others
        ]
    return outcomes + [await _outcome(each, words) for each in others]


async def _outcome(sentence: Sentence, command: Sequence[str]) -> SentenceOutcome:
    exchange: dict[str, Any] = {"status": 0, "headers": {}, "body": ""}
    try:
        async with _serving(sentence.behaviour) as (server, connections):
            job = _job(sentence, server)
            exchange |= {"request": json.dumps(job)}
            answer = await _run(command, job)
        exchange |= {"body": json.dumps(answer), "headers": {"requests": ", ".join(server.requests)}}
        require(not connections, "it sent a request to an address that was not configured")
        _compare(sentence, answer)
    except Violation as error:
        return SentenceOutcome(sentence=sentence, verdict="failed", reason=str(error), exchange=exchange)
    return SentenceOutcome(sentence=sentence, verdict="passed")


def _job(sentence: Sentence, server: RowsServer) -> Mapping[str, Any]:
    """The input of the command: the task, the configured address, and the tool result."""
    tool_result = server.tool_result(server.create(_ROWS))
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
    program = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, start_new_session=True)
    try:
        async with asyncio.timeout(SECONDS):
            printed = await _output(program, json.dumps(job).encode())
            code = await program.wait()
    except TimeoutError as error:
        raise Violation(_HANGS) from error
    finally:
        _kill(program)
        with suppress(TimeoutError):  # of a program that left its process group, and still has the pipe
            async with asyncio.timeout(1):
                await program.communicate()
    try:
        answer = json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise Violation(
            f"the command ended with code {code} and printed no JSON: {printed[:200]!r}"
        ) from error
    require(isinstance(answer, dict), "the command printed no object")
    return dict(answer)


async def _output(program: asyncio.subprocess.Process, text: bytes) -> bytes:
    """The output of the program for this input."""
    assert program.stdin is not None
    assert program.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it need not read
        program.stdin.write(text)
        await program.stdin.drain()
    program.stdin.close()
    printed = bytearray()
    while piece := await program.stdout.read(MOST_BYTES):
        printed += piece
        require(len(printed) <= MOST_BYTES, f"the command printed more than {MOST_BYTES} bytes")
    return bytes(printed)


def _kill(program: asyncio.subprocess.Process) -> None:
    """End the program, and what it has started."""
    with suppress(ProcessLookupError):
        if sys.platform == "win32":
            program.kill()
        else:
            os.killpg(program.pid, signal.SIGKILL)


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
        scores = [value for value in values if value is not None]
        require(scores == sorted(scores, reverse=True), "the rows are not sorted")
        rows = sorted(rows or (), key=lambda row: row.get("id", 0))
    require(rows == expected, f"it returned {len(rows or ())} rows, which are not the {_ROWS} of the result")


@asynccontextmanager
async def _serving(behaviour: str) -> AsyncIterator[tuple[RowsServer, Sequence[str]]]:
    """A server on loopback, and the connections to another port, to which no client may connect."""
    connections: list[str] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(str(writer.get_extra_info("peername")))
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as stranger:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            bound = (listening, stranger.sockets[0])
            origin, elsewhere = (f"http://127.0.0.1:{each.getsockname()[1]}" for each in bound)
            server = RowsServer(origin, behaviour, elsewhere)
            config = uvicorn.Config(
                Starlette(routes=server.routes()), log_level="critical", ws="none", lifespan="off"
            )
            config.timeout_graceful_shutdown = 1
            program = uvicorn.Server(config)
            program.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
            running = asyncio.create_task(program.serve([listening]))
            try:
                yield server, connections
            finally:
                program.should_exit = True
                await running
