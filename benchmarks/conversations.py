"""A thousand scripted conversations, counted and timed. The floors are those of dual-mode answers.

The floors (specification S8): no result is parsed wrongly, every flow of several steps completes, less than one step in
a hundred fails, and that responses are processed in less than 100 ms. The last is measured apart, one call after the
other: a tool call over HTTP, found and read by the client, against its two queries by hand in one process. Such a call
takes at most 8 ms from end to end in the median.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.flows import TOKEN, Session, Tally, run
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import median_of
from dualsql_client import DualResponseClient

NUMBER = 1_000
MOST_OVERHEAD, MOST_ALONE = 0.1, 0.008
MOST_FAILING = 0.01

QUERY = "SELECT name, state, control FROM institutions WHERE state = 'CA' ORDER BY name"
_SAMPLE = 15
_CALLS = 200


@dataclass(frozen=True)
class Conversations:
    """What so many flows came to, what a call takes alone, and what of it is not its queries; seconds."""

    flows: int
    completed: int
    steps: int
    provoked: int
    failed: int
    unparsed: int
    call_p50: float
    call_p95: float
    alone_p50: float
    overhead_p50: float
    overhead_p95: float

    @property
    def failing(self) -> float:
        """The part of all steps that failed."""
        return self.failed / max(1, self.steps)

    @property
    def floors(self) -> dict[str, bool]:
        """Each floor, and whether it holds."""
        return {
            "every flow completes": self.completed == self.flows,
            "no result is parsed wrongly": self.unparsed == 0,
            "less than 1 % of steps fail": self.failing < MOST_FAILING,
            "a response is processed in 100 ms": self.overhead_p95 < MOST_OVERHEAD,
            "a tool call alone takes 8 ms (p50)": self.alone_p50 < MOST_ALONE,
        }


async def measure(
    origin: str, path: str, number: int = NUMBER, note: Callable[[str], object] = str
) -> Conversations:
    """The flows against the server at `origin`, which serves the SQLite file at `path`."""
    note(f"{number:,} flows")
    tally = await run(origin, number)
    for failure in tally.failures[:10]:
        note(failure)
    note("overhead")
    alone, over = await _overhead(origin, path)
    return Conversations(
        flows=tally.flows,
        completed=tally.completed,
        steps=tally.steps,
        provoked=tally.provoked,
        failed=len(tally.failures),
        unparsed=tally.unparsed,
        call_p50=tally.percentile(50),
        call_p95=tally.percentile(95),
        alone_p50=median_of("a call alone, s", alone),
        overhead_p50=median_of("a call alone without its queries, s", over),
        overhead_p95=quantiles(over, n=20)[-1],
    )


async def _overhead(origin: str, path: str) -> tuple[list[float], list[float]]:
    """Seconds of calls, and those beyond the same queries by hand, taken in turns."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    calls, problems = [], []
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{origin}/mcp", http_client=http)) as model,
        DualResponseClient(f"{origin}/resources", headers=headers) as application,
    ):
        session = Session(model, application, Tally(), 0)
        with closing(sqlite3.connect(path)) as connection:
            await session.ask("execute_query", query=QUERY)
            for _ in range(_CALLS):
                by_hand = _by_hand(connection)
                await session.ask("execute_query", query=QUERY)
                calls.append(session.tally.seconds[-1])
                problems.append(calls[-1] - by_hand)
    return calls, problems


def _by_hand(connection: sqlite3.Connection) -> float:
    began = perf_counter()
    connection.execute(f"{QUERY} LIMIT {_SAMPLE + 1}").fetchall()
    connection.execute(f"SELECT count(*) FROM ({QUERY})").fetchall()
    return perf_counter() - began


def report(conversations: Conversations) -> Report:
    """The tables."""
    section = Section(
        "Scripted conversations",
        "Over HTTP, with a token, four at a time; six kinds of flow, with errors that are provoked and mended.",
        ["", "number"],
        [
            ["flows", f"{conversations.flows:,}"],
            ["... that completed", f"{conversations.completed:,}"],
            ["steps", f"{conversations.steps:,}"],
            ["errors provoked and mended", f"{conversations.provoked:,}"],
            ["steps that failed", f"{conversations.failed:,} ({conversations.failing:.2%})"],
            ["results not parsed", f"{conversations.unparsed:,}"],
            [
                "a query, asked and read, four at a time: p50, p95",
                f"{_ms(conversations.call_p50)}, {_ms(conversations.call_p95)}",
            ],
            ["one alone, end to end: p50", f"{conversations.alone_p50 * 1000:.1f} ms"],
            [
                "one alone, beyond its SQL by hand: p50, p95",
                f"{_ms(conversations.overhead_p50)}, {_ms(conversations.overhead_p95)}",
            ],
        ],
    )
    floors = Section(
        "Floors",
        "Those of specification S8, and of a call alone.",
        ["floor", ""],
        [[n, verdict(holds=h)] for n, h in conversations.floors.items()],
    )
    return Report(
        "flows", "Conversations", [section, floors], [conversations], all(conversations.floors.values())
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
