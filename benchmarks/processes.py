"""Servers in processes of their own. Every one is told the same port, loop and number of workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import httpx
from mcp import Client

from dualsql_client import DualResponseClient

START_DEADLINE = 60.0
NOTHING: Mapping[str, str] = {}
_PAUSE = 0.02


@dataclass(frozen=True)
class Process:
    """A running server, with the processes that it has started.

    Attributes:
        url: where it listens, without a slash at the end.
    """

    pid: int
    url: str

    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        return self._status("VmRSS")

    def peak(self) -> int:
        """The most bytes of memory it held since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Let the peak begin anew (Linux: proc(5), clear_refs)."""
        for pid in self._all():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def processor_seconds(self) -> float:
        """Seconds of processor time that it has used until now."""
        return sum(map(processor_seconds, self._all()))

    def _status(self, name: str) -> int:
        return sum(_status_of(pid, name) for pid in self._all())

    def _all(self) -> list[int]:
        pids = [self.pid]
        for pid in pids:  # grows: a worker's reader process is a child of a child
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(FileNotFoundError):  # it has just ended
                    pids += map(int, (thread / "children").read_text().split())
        return pids


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process has used, and its children that have ended (proc(5), stat)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _status_of(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@contextmanager
def uvicorn(
    application: str, environment: Mapping[str, str] = NOTHING, *, workers: int = 1
) -> Iterator[Process]:
    """An ASGI application on a free port of the loopback; `{url}` in the environment's values is its address."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", application, "--port", str(port), "--log-level", "warning"]
    command += ["--workers", str(workers), "--no-access-log", "--loop", "uvloop", "--http", "httptools"]
    # Of a thousand connections, the first is silent while the others are opened.
    command += ["--timeout-graceful-shutdown", "20", "--timeout-keep-alive", "60"]
    with running([*command, "--factory"], port, environment) as process:
        yield process


@contextmanager
def dualsql_serve(path: Path, environment: Mapping[str, str] = NOTHING) -> Iterator[Process]:
    """`dualsql serve` over the SQLite file, with its defaults except for variables of the environment."""
    port = free_port()
    command = [sys.executable, "-c", "from dualsql.cli import main; main()"]
    command += ["serve", "--all", "--port", str(port)]
    variables = {"DUALSQL_DATABASE_URL": f"sqlite:///{path}", **environment}
    with running(command, port, variables, is_quiet=True) as process:
        _wait_until_serving(process.url)
        yield process


async def result_of(origin: str, query: str = "SELECT * FROM flights ORDER BY id") -> str:
    """The URL of a new result of the `dualsql serve` at `origin`."""
    async with Client(f"{origin}/mcp") as host, DualResponseClient(f"{origin}/resources") as client:
        answer = await host.call_tool("execute_query", {"query": query})
        return str(client.parse(answer, strict=True).resource_url)


@contextmanager
def running(
    command: Sequence[str],
    port: int,
    environment: Mapping[str, str] = NOTHING,
    *,
    is_quiet: bool = False,
    folder: Path | None = None,
) -> Iterator[Process]:
    """The command in `folder`, once it listens on `port`, until the end of the block."""
    url = f"http://127.0.0.1:{port}"
    variables = os.environ | {name: value.format(url=url) for name, value in environment.items()}
    output = subprocess.DEVNULL if is_quiet else None
    with subprocess.Popen(command, env=variables, stdout=output, stderr=output, cwd=folder) as process:
        try:
            _wait_until_listening(port, process)
            yield Process(process.pid, url)
        finally:
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def _wait_until_serving(origin: str) -> None:
    """`dualsql serve` listens at once, and answers 503 until it has its database."""
    deadline = time.monotonic() + START_DEADLINE
    while httpx.get(f"{origin}/resources").status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        if time.monotonic() > deadline:
            raise SystemExit("dualsql serve did not start.")
        time.sleep(_PAUSE)


def _wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("A server of the benchmark did not start.") from None
            time.sleep(_PAUSE)
