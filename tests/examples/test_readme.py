"""What the README prints is what runs."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def printed(file: str) -> str:
    """The code of an example without its docstring, as the README shows it."""
    return (ROOT / "examples" / file).read_text().partition('"""\n\n')[2].strip()


def test_the_readme_shows_the_examples_word_for_word() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert printed("server.py") in map(str.strip, blocks)
    assert printed("client.py") in map(str.strip, blocks)


async def test_the_two_programs_run_against_each_other(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # The examples use the port a reader will; the test takes any, so it changes that one word.
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _at(origin, "server.py", SERVE), str(listener.fileno()),
            env=environment, pass_fds=(listener.fileno(),),
        )  # fmt: skip
        try:
            client = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _at(origin, "client.py"),
                env=environment,
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await client.communicate()
        finally:
            server.terminate()
            await server.wait()
    assert client.returncode == 0
    assert output.decode().strip() == "Colleges in NJ: the model saw 15 rows, the application got 146."


SERVE = "\nimport sys, uvicorn\nuvicorn.run(app, fd=int(sys.argv[1]), log_level='warning')\n"


def _at(origin: str, file: str, extra: str = "") -> str:
    code = (ROOT / "examples" / file).read_text()
    assert "http://127.0.0.1:8000" in code
    return code.replace("http://127.0.0.1:8000", origin) + extra
