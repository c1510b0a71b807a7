"""`dualsql demo` as a person runs it: a process of its own, real sockets, real databases."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from dualsql_client import DualResponseClient

ROWS = 106_145


def heed_interrupts() -> None:
    """Undo what a shell does to its background jobs: the tests may be one, and their children inherit it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def demo(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process; killed at the end of the block if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from dualsql.cli import main; main()",
        "demo",
        *arguments,
        env={**os.environ, "XDG_CACHE_HOME": str(folder), "COLUMNS": "80"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=heed_interrupts,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def output_of(folder: Path, *arguments: str) -> tuple[int | None, str]:
    async with demo(folder, *arguments) as process:
        output, _ = await process.communicate()
    return process.returncode, output.decode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that the first demo of this module fills."""
    return tmp_path_factory.mktemp("cache")


def assert_shown(code: int | None, output: str) -> None:
    assert code == 0, output
    assert re.search(r"The model saw 10 rows in [\d,]+ characters", output)
    assert f"{ROWS}/{ROWS}" in output, "the progress bar reached its end"
    for part in ("Sorted by debt", "Pinned: status pinned", "Deleted", "Who got what"):
        assert part in output
    assert "Traceback" not in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.long
async def test_on_sqlite(built: Path) -> None:
    assert_shown(*await output_of(built, "--port", "0"))
    secret = built / "dualsql" / "demo.secret"
    assert secret.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
async def test_on_postgresql(built: Path, postgresql_url: str) -> None:
    assert_shown(*await output_of(built, "--port", "0", "--database", postgresql_url))


@pytest.mark.long
async def test_a_busy_port_is_named(built: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output = await output_of(built, "--port", str(port))
    assert code == 1
    assert (
        output.strip()
        == f"dualsql: Port {port} is in use. Stop the program that uses it, or choose another port with --port."
    )


@pytest.mark.long
@pytest.mark.parametrize("stop", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
async def test_serving_until_stopped(built: Path, stop: signal.Signals) -> None:
    async with demo(built, "--serve", "--port", "0") as process:
        origin = await _announced_origin(process)
        async with Client(f"{origin}/mcp") as model, DualResponseClient(f"{origin}/resources") as application:
            result = await model.call_tool("search_programs", {"state": "NJ", "field": "nursing"})
            parsed = application.parse(result, strict=True)
            assert parsed is not None
            rows = await parsed.fetch_all()
            assert len(rows) == parsed.total_count
            assert {row["state"] for row in rows} == {"NJ"}
            assert all("nursing" in row["field"].lower() for row in rows)
        process.send_signal(stop)
        output, _ = await process.communicate()
    assert process.returncode == 0
    assert output.decode().endswith("Stopped.\n")


@pytest.mark.long
async def test_interrupted_in_the_middle_of_the_play(built: Path) -> None:
    async with demo(built, "--port", "0") as process:
        assert process.stdout is not None
        await process.stdout.readuntil(b"The model saw")
        process.send_signal(signal.SIGINT)
        output, _ = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in output
    assert b"Who got what" not in output


async def _announced_origin(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    text = await process.stdout.readuntil(b"Ctrl-C")
    match = re.search(r"(http://127\.0\.0\.1:\d+)/mcp", text.decode())
    assert match
    return match[1]


@pytest.mark.long
async def test_a_database_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    code, output = await output_of(tmp_path, "--port", "0", "--database", "oracle://nowhere/x")
    assert code == 1
    assert output.startswith("dualsql: ")
    assert "Traceback" not in output
