"""Other servers of the same flights, each set up as its own documentation says."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.processes import Process, free_port, running, uvicorn

DATABASE = "DUALSQL_BENCH_DATABASE"


@contextmanager
def datasette(path: Path) -> Iterator[Process]:
    """Datasette on the SQLite file; its CSV stream is not cut, its pages are not counted."""
    port = free_port()
    settings = {"max_csv_mb": "0", "max_returned_rows": "5000", "sql_time_limit_ms": "60000"}
    command = [sys.executable, "-m", "datasette", "serve", str(path), "--port", str(port)]
    for name, value in settings.items():
        command += ["--setting", name, value]
    # It logs every request, and has no setting against it.
    with running(command, port, is_quiet=True) as process:
        yield process


@contextmanager
def fastapi_pagination(url: str) -> Iterator[Process]:
    """A FastAPI application with fastapi-pagination over SQLAlchemy."""
    with uvicorn("benchmarks.fastapi_app:app", {DATABASE: url}) as process:
        yield process


@contextmanager
def reference(path: Path, folder: Path) -> Iterator[Process]:
    """The example server of github.com/freezer333/mcp-rlp, `example/server`, over the SQLite file.

    Args:
        folder: with its packages installed (`npm ci`), and node 22.5 or newer (`npm install --no-save node@22`), unless
            `node` on PATH is as new. A copy of it is served.

    Raises:
        SystemExit: it cannot run.
    """
    installed = folder / "node_modules" / "node" / "bin" / "node"
    node = str(installed) if installed.exists() else shutil.which("node")
    if node is None or not (folder / "node_modules" / "express").exists():
        raise SystemExit(f"In {folder}: run `npm ci` and `npm install --no-save node@22`.")
    port = free_port()
    with TemporaryDirectory() as place:
        copy = Path(place) / "server"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("node_modules", "*.sqlite"))
        (copy / "node_modules").symlink_to((folder / "node_modules").resolve())
        (copy / "insights.sqlite").symlink_to(path)
        command = [node, "--experimental-sqlite", "index.js"]
        with running(command, port, {"PORT": str(port)}, is_quiet=True, folder=copy) as process:
            yield process


async def reference_result(origin: str, query: str) -> str:
    """The URL of a new result of the reference server at `origin`."""
    call = {"name": "query", "arguments": {"sql": query}}
    async with httpx.AsyncClient(headers={"Accept": "application/json, text/event-stream"}) as http:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        answer = await http.post(f"{origin}/mcp", json=request)
    match = re.search(r"resource://([\w-]+)", answer.text)
    if match is None:
        raise SystemExit(f"The reference server answered {answer.text[:500]}")
    return f"{origin}/resources/{match[1]}"
