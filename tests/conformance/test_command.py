"""`dualsql conformance` as a process, and in this one where nothing is checked."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner

from dualsql.cli.commands import app
from dualsql.conformance.standard import sentences
from tests.client.hosting import listening_socket, origin_of, serving
from tests.conformance.mutants import Mutant
from tests.waiting import until

PROGRAM = "from dualsql.cli import main; main()"


async def start(*options: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, "conformance", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


async def run(*options: str) -> tuple[int | None, str]:
    """The exit code and what was printed."""
    program = await start(*options)
    written, _ = await program.communicate()
    return program.returncode, written.decode()


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("", 0),
        ("4.5", 1),
        ("4.14", 0),
    ],
)
async def test_a_run_says_what_fails(fault: str, code: int) -> None:
    with listening_socket() as bound:
        server = Mutant(origin_of(bound), fault=fault)
        async with serving(server.application(), bound):
            options = ("--part", "pages", "--json")
            status, text = await run(f"{server.origin}/mcp", *options)
    assert status == code, text
    outcomes = {each["number"]: each for each in json.loads(text)}
    assert outcomes.keys() == {each.number for each in sentences() if each.part == "pages"}
    assert {number for number, each in outcomes.items() if each["verdict"] != "passed"} == (
        {fault} if fault else set()
    )
    if fault:
        assert outcomes[fault]["exchange"]["request"].startswith("POST ")
        assert outcomes[fault]["exchange"]["status"] == 200


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Give the URL of a server, or --client COMMAND"),
        (("http://127.0.0.1:9/mcp", "--client", "true"), "one of them"),
        (
            ("http://127.0.0.1:9/mcp",),
            "The MCP endpoint 'http://127.0.0.1:9/mcp' cannot be used: All connection",
        ),
        (("http://127.0.0.1:9/mcp", "--part", "page"), "There is no part 'page'. The parts are"),
        (("http://127.0.0.1:9/mcp", "--tool", "t", "--arguments", "["), "--arguments is not JSON."),
        (("http://127.0.0.1:9/mcp", "--arguments", "[]"), "--arguments is no JSON object."),
        (("--client", "no-such-command"), "'no-such-command' cannot be started"),
        (("--client", ""), "The command '' cannot be started: the command is empty."),
        (("--client", "'node"), "cannot be started: No closing quotation."),
    ],
)
def test_what_cannot_be_checked_is_said_in_a_line(options: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(app, ["conformance", *options])
    assert (done.exit_code, len(done.output.splitlines())) == (1, 1), done.output
    assert words in done.output


@pytest.mark.parametrize(
    ("status", "words"), [(401, "it answers 401. Give --token"), (404, "it answers 404.\n")]
)
@pytest.mark.long
async def test_an_endpoint_that_refuses_is_said_in_a_line(status: int, words: str) -> None:
    with listening_socket() as bound:
        async with serving(JSONResponse({"error": "refused"}, status), bound):
            code, text = await run(f"{origin_of(bound)}/mcp")
    assert (code, len(text.splitlines())) == (1, 1), text
    assert words in text


@pytest.mark.long
async def test_a_tool_that_cannot_be_called_is_said_in_a_line() -> None:
    with listening_socket() as bound:
        server = Mutant(origin_of(bound))
        async with serving(server.application(), bound):
            for options, words in (
                (("--tool", "rows"), "The server has no tool 'rows'; it has standard_rows. Give --tool"),
                (
                    ("--tool", "standard_rows", "--arguments", '{"rows": -1}'),
                    "The call failed: BAD_PARAMETER: rows is",
                ),
            ):
                code, text = await run(f"{server.origin}/mcp", *options)
                assert (code, len(text.splitlines())) == (1, 1), text
                assert words in text


@pytest.mark.long
async def test_a_run_that_is_stopped_deletes_its_results() -> None:
    with listening_socket() as bound:
        server = Mutant(origin_of(bound))

        async def pages() -> list[str]:
            return [each for each in server.requests if each.startswith("POST")]

        async with serving(server.application(), bound):
            program = await start(f"{server.origin}/mcp")
            await until(pages)
            program.terminate()
            printed, _ = await program.communicate()
    assert (program.returncode, printed) == (1, b"Stopped.\n")
    left = [each for each in server.resources.values() if not each.is_deleted]
    assert len(left) < len(server.resources)
    assert len(left) <= 1, "the one that a call made while it was stopped"


@pytest.mark.long
async def test_a_client_is_checked() -> None:
    code, text = await run("--client", f"{sys.executable} {Path(__file__).parent / 'python_client.py'}")
    assert code == 0, text
    assert "14 passed" in text
