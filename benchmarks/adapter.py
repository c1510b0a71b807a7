"""What a tool costs over the create_response in it. The same Select, in the same process, taken in turns.

The adapter is everything between an SDK's server and `create_response`: reading the arguments by their schema, the
function, the caller, and the result as the wire has it, which the official SDK checks against its schema once more.
No transport and no client is in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import fastmcp
from mcp.server import MCPServer
from sqlalchemy import Select, select

from benchmarks.report import Report, Section, verdict
from benchmarks.timing import median_of
from dualsql import DualResponseServer, Settings
from dualsql.demo import Base, Institution

MOST = 0.003
"""Seconds that the adapter may take, in the median."""

_ROUNDS = 500

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Adapter:
    """Medians, in seconds: create_response alone, a tool call on a server of one SDK, and their difference."""

    sdk: str
    alone: float
    called: float
    overhead: float

    @property
    def holds(self) -> bool:
        """Whether that is less than the floor."""
        return self.overhead < MOST


async def measure(database: str) -> list[Adapter]:
    """Both SDKs over the demo's database."""
    async with DualResponseServer(
        database,
        base_url="http://127.0.0.1/resources",
        tables=Base,
        settings=Settings(default_sample_size=10),
    ) as dual:
        return [await _measured(dual, name, call) for name, call in _calls(dual).items()]


def _colleges(state: str) -> Select[Institution]:
    return select(Institution).where(Institution.state == state)


def _calls(dual: DualResponseServer) -> dict[str, Call]:
    # At its default level, the first would print a line for each request of either.
    official = MCPServer[Any]("benchmark", log_level="WARNING")
    fast = fastmcp.FastMCP[Any]("benchmark")
    for server in (official, fast):
        dual.tool(server, name="colleges")(_colleges)
    return {
        "mcp": lambda: official.call_tool("colleges", {"state": "NJ"}),
        "fastmcp": lambda: fast.call_tool("colleges", {"state": "NJ"}),
    }


async def _measured(dual: DualResponseServer, name: str, call: Call) -> Adapter:
    async def alone() -> object:
        return await dual.create_response(_colleges("NJ"), name="Colleges")

    await alone()
    answer = await call()
    if getattr(answer, "is_error", False):
        raise RuntimeError(f"the tool failed: {answer}"[:300])
    pairs = [(await _seconds(alone), await _seconds(call)) for _ in range(_ROUNDS)]
    return Adapter(
        name,
        median_of(f"{name}: create_response, s", [one for one, _ in pairs]),
        median_of(f"{name}: tool call, s", [other for _, other in pairs]),
        # Each with its neighbour: what else the machine does, it does to both.
        median_of(f"{name}: adapter, s", [other - one for one, other in pairs]),
    )


async def _seconds(work: Call) -> float:
    began = perf_counter()
    await work()
    return perf_counter() - began


def report(adapters: list[Adapter]) -> Report:
    """The table."""
    lines = [
        [
            adapter.sdk,
            f"{adapter.alone * 1000:.2f}",
            f"{adapter.called * 1000:.2f}",
            f"{adapter.overhead * 1000:.2f}",
            verdict(holds=adapter.holds),
        ]
        for adapter in adapters
    ]
    section = Section(
        "A tool over the create_response in it",
        f"Milliseconds, medians; the adapter may take {MOST * 1000:g}. Ten rows of 7 columns from SQLite.",
        ["SDK", "create_response", "tool call", "adapter", f"< {MOST * 1000:g}"],
        lines,
    )
    return Report("adapter", "Tools", [section], adapters, all(adapter.holds for adapter in adapters))
