"""Examples as programs. What runs is what a reader sees, but for the port."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

_ORIGIN = "http://127.0.0.1:8000"
_SERVE = "\nimport sys, uvicorn\nuvicorn.run(app, fd=int(sys.argv[1]), log_level='warning')\n"


@asynccontextmanager
async def served(file: str, folder: Path) -> AsyncIterator[str]:
    """The origin of an example that is an application, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program(origin, file) + _SERVE, str(listener.fileno()),
            env={**os.environ, "XDG_CACHE_HOME": str(folder)}, pass_fds=(listener.fileno(),),
        )  # fmt: skip
        try:
            yield origin
        finally:
            server.terminate()
            await server.wait()


async def output_of(file: str, origin: str, folder: Path, python: str | Path = sys.executable) -> str:
    """What an example that is a program prints, run in `folder` beside the server at `origin`."""
    running = await asyncio.create_subprocess_exec(
        python, "-c", program(origin, file),
        cwd=folder, env={**os.environ, "XDG_CACHE_HOME": str(folder)}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await running.communicate()
    assert running.returncode == 0, output.decode()
    return output.decode().strip()


def program(origin: str, file: str) -> str:
    """An example's code. It uses the port a reader will; the tests take any, and change that one word."""
    code = (EXAMPLES / file).read_text(encoding="utf-8")
    assert _ORIGIN in code
    return code.replace(_ORIGIN, origin)
