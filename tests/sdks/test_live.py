"""Is the dual response found in what each agent SDK hands over, run for real with a scripted model?

Each SDK has an environment of its own, which `make test-sdks` prepares; one that is missing is skipped by name. With
`DUALSQL_RECORD_SHAPES=1` in the environment, what they hand over is recorded for both clients.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from tests.client.hosting import listening_socket, origin_of, serving
from tests.client.recorded import RECORDED
from tests.schools import SCHOOLS, Base, School, fill

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "found"
RECORDS = "DUALSQL_RECORD_SHAPES" in os.environ
LARGEST_RECORD = 12_000

ALL = {"sample": 3, "total": len(SCHOOLS), "rows": len(SCHOOLS)}
# Where the SDK kept no more than a text: the rows are found all the same.
URI = {"sample": 0, "total": None, "rows": len(SCHOOLS)}

_OPENAI = ("run result", "new items", "input list", "events")

HANDED_OVER: dict[tuple[str, str], dict[str, Any]] = {
    ("openai_agents", "openai_agents"): {
        **{f"default: {form}": URI for form in _OPENAI},
        **{f"use_structured_content: {form}": ALL for form in _OPENAI},
        **{f"custom data: {form}": ALL for form in _OPENAI},
        "custom data: input list": URI,
    },
    ("langchain", "langchain_adapters"): dict.fromkeys(
        ["tool message", "its artifact", "state", "messages as JSON", "events"], ALL
    ),
    ("pydantic_ai", "pydantic_agent"): dict.fromkeys(
        ["run result", "messages", "messages as JSON", "kept", "raw call"], ALL
    ),
    ("anthropic", "anthropic_runner"): {
        "watched: next request": URI,
        "watched: kept": ALL,
        "watched, links dropped: next request": URI,
        "watched, links dropped: kept": ALL,
    },
    ("llama_index", "llama_index_agent"): {"tool output": ALL, "its text": URI},
    ("google_adk", "google_adk"): dict.fromkeys(["events", "events as JSON", "session"], ALL),
    ("strands", "strands_agent"): dict.fromkeys(["events", "messages", "raw call"], ALL),
    ("agno", "agno_agent"): {"run output": URI, "messages": URI, "kept": ALL},
    ("autogen", "autogen_tools"): dict.fromkeys(["tool result", "its text", "workbench"], URI),
    ("crewai", "crewai_adapter"): {"tool result": URI},
    ("smolagents", "smolagents_tools"): {"text": URI, "structured_output": ALL},
    ("agent_framework", "microsoft_agent"): dict.fromkeys(
        [
            f"{mode}: {form}"
            for mode in ("structured_first", "content_only")
            for form in ("run result", "as a dict")
        ],
        ALL,
    ),
}

# What changes when the result has a resource_link block, too.
WITH_LINK: dict[str, dict[str, Any]] = {
    "pydantic_ai": dict.fromkeys(["run result", "messages", "messages as JSON"], URI),
    "anthropic": {"watched: next request": None},  # an error message of its own
    "autogen": {"workbench": None},  # likewise
}


@pytest.fixture
async def origin(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> AsyncIterator[str]:
    """Where a server with two tools and their resources is, until the test ends. SDKs omit the optional arguments."""
    engine = make_engine(sqlite_url)
    await fill(engine)
    with listening_socket() as port:
        dual = DualResponseServer(engine, base_url=f"{origin_of(port)}/resources", tables=Base)
        tools = MCPServer("schools", lifespan=dual.lifespan)

        @dual.tool(tools, sample_size=3, links="text")
        def search_schools(state: str, city: str | None = None, grade: int = 3) -> Select[Any]:
            """Schools of a state."""
            return select(School).order_by(School.id)

        @dual.tool(tools, sample_size=3, links="resource_link")
        def search_linked(state: str, city: str | None = None, grade: int = 3) -> Select[Any]:
            """Schools of a state, with a link."""
            return select(School).order_by(School.id)

        app = tools.streamable_http_app(stateless_http=True)
        app.mount("/resources", dual.router())
        async with serving(app, port):
            yield origin_of(port)


@pytest.mark.parametrize("tool", ["search_schools", "search_linked"])
@pytest.mark.parametrize(("sdk", "program"), HANDED_OVER, ids=lambda name: name)
async def test_what_an_sdk_hands_over(origin: str, sdk: str, program: str, tool: str) -> None:
    python = ROOT / ".sdks" / sdk / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{sdk} is not installed here: scripts/sdk_environments")
    expected = HANDED_OVER[sdk, program] | (WITH_LINK.get(sdk, {}) if tool == "search_linked" else {})
    lines = await told(python, program, f"{origin}/mcp", f"{origin}/resources", tool)
    actual = {line["form"]: line["found"] for line in lines}
    assert actual == {form: [] if what is None else [what] for form, what in expected.items()}
    if RECORDS:
        record(sdk, tool, lines)


def record(sdk: str, tool: str, lines: list[dict[str, Any]]) -> None:
    """Write what the SDK handed over, and what is found in it.

    Without the largest forms, since runs and events hold much else, and those with the result in private attributes.
    """
    kept = {
        line["form"]: {
            "found": [[each["sample"], each["total"]] for each in line["found"]],
            "value": line["value"],
        }
        for line in lines
        if len(json.dumps(line["value"])) < LARGEST_RECORD
        and (not line["found"] or "resource://" in json.dumps(line["value"]))
    }
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{sdk}.{tool}.json").write_text(
        json.dumps(kept, ensure_ascii=False) + "\n", encoding="utf-8"
    )


async def told(python: Path, program: str, *arguments: str) -> list[dict[str, Any]]:
    """What the program says it has found, in each form."""
    running = await asyncio.create_subprocess_exec(
        python, PROGRAMS / f"{program}.py", *arguments,
        env={**os.environ, "PYTHONPATH": str(ROOT / "client"), "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await running.communicate()
    assert running.returncode == 0, errors.decode()[-2_000:]
    return [json.loads(line) for line in output.decode().splitlines() if line.startswith('{"form"')]
