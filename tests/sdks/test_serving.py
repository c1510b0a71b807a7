"""`dualsql serve` met by the SDKs of hosts, each in an environment of its own, with models that follow a script.

`make test-sdks` makes the environments; without them these tests are skipped and say so.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.client.hosting import listening_socket
from tests.serve.conftest import PROGRAM, environment, serving_process, shop

__all__ = ["shop"]

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
SDKS = {
    "mcp1": "mcp1.py",
    "openai_agents": "openai_agents.py",
    "langchain": "langchain_adapters.py",
    "pydantic_ai": "pydantic_agent.py",
    "anthropic": "anthropic_runner.py",
}
CALLS = 50

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("sdk", SDKS)
async def test_an_agent_looks_queries_and_its_application_gets_every_row(shop: str, sdk: str) -> None:
    python = ROOT / ".sdks" / sdk / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{sdk} is not installed here: scripts/sdk_environments")
    with listening_socket() as free:
        port = str(free.getsockname()[1])
    async with serving_process("--database", shop, "--all") as served:
        parameters = {
            "url": f"{served.origin}/mcp",
            "command": [*PROGRAM, "serve", "--stdio", "--all", "--port", port],
            # What most SDKs keep is the text alone: a host knows where its server's rows are.
            "resources": {
                "http": f"{served.origin}/resources",
                "stdio": f"http://127.0.0.1:{port}/resources",
            },
            "environment": environment(DUALSQL_DATABASE_URL=shop),
            "calls": CALLS,
        }
        said = await _said(python, SDKS[sdk], json.dumps(parameters))
        assert "Traceback" not in await served.stop()
    assert json.loads(said) == {"stdio": 25, "http": 25, "right": CALLS}


async def _said(python: Path, program: str, asked: str) -> str:
    """The last line that the program wrote."""
    process = await asyncio.create_subprocess_exec(
        python,
        PROGRAMS / program,
        asked,
        env=environment(PYTHONPATH=""),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    return out.decode().splitlines()[-1]
