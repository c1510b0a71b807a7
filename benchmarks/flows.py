"""Scripted conversations with `dualsql serve`, each of several steps. What goes wrong on purpose is mended.

A flow does what a model and the application around it do: look at the tables, query, meet an error and heed its
suggestion, page, stream, ask the result, keep it, throw it away. A step fails when it answers otherwise than its
script expects; a flow completes when none of its steps does.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import quantiles
from time import perf_counter
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from dualsql_client import DualResponseClient, FetchError, ParsedDualResponse

TOKEN = "token-of-a-benchmark-that-nobody-keeps"
STATES = "AL AZ CA CO CT FL GA IA IL IN KY MA MD MI MN MO NC NJ NY OH OK OR PA SC TN TX VA WA WI WV".split()

Flow = Callable[["Session"], Awaitable[None]]


class StepError(Exception):
    """A step answered otherwise than its script expects."""


@dataclass
class Tally:
    """What many flows came to.

    Attributes:
        steps: calls of tools and requests of the application.
        provoked: errors that were asked for, and mended.
        failures: steps that answered otherwise than expected.
        unparsed: tool results in which the client found no dual response though there had to be one.
        seconds: of each tool call that made one.
    """

    flows: int = 0
    completed: int = 0
    steps: int = 0
    provoked: int = 0
    unparsed: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def percentile(self, percent: int) -> float:
        """Seconds that so many of a hundred calls stayed below."""
        return quantiles(self.seconds, n=100)[percent - 1]


@dataclass
class Session:
    """One conversation: the model's half, the application's half, and what is counted."""

    model: Client
    application: DualResponseClient
    tally: Tally
    number: int

    @property
    def state(self) -> str:
        """Another one for each flow."""
        return STATES[self.number % len(STATES)]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structure of a result that is no error."""
        result = await self._call(tool, arguments)
        if result.is_error:
            raise StepError(f"{tool}: {result.content}"[:300])
        return _structure(result)

    async def ask(self, tool: str, **arguments: Any) -> ParsedDualResponse:
        """A dual response, found in the result as an application finds it."""
        began = perf_counter()
        result = await self._call(tool, arguments)
        try:
            parsed = self.application.parse(result, strict=True)
        except FetchError as error:
            self.tally.unparsed += 1
            raise StepError(f"{tool} was not parsed: {result.content}"[:300]) from error
        self.tally.seconds.append(perf_counter() - began)
        return parsed

    async def fail(self, tool: str, code: str, **arguments: Any) -> dict[str, Any]:
        """The details of an error that is asked for."""
        result = await self._call(tool, arguments)
        error = _structure(result).get("error", {}) if result.is_error else {}
        if error.get("code") != code:
            raise StepError(f"{tool} did not answer {code}: {result.content}"[:300])
        self.tally.provoked += 1
        details: dict[str, Any] = error["details"]
        return details

    def expect(self, *, holds: bool, what: str) -> None:
        """One step of the application's."""
        self.tally.steps += 1
        if not holds:
            raise StepError(what)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        self.tally.steps += 1
        return await self.model.call_tool(tool, arguments)


def _structure(result: CallToolResult) -> dict[str, Any]:
    content: Any = result.structured_content or {}
    return dict(content)


# --- the flows -----------------------------------------------------------------------------------------------------


async def look_and_read(session: Session) -> None:
    """Tables, columns, a query; every row as pages and as a stream."""
    tables = (await session.call("list_tables"))["tables"]
    session.expect(holds="institutions" in {table["name"] for table in tables}, what="tables")
    described = await session.call("describe_table", table="institutions")
    names = [column["name"] for column in described["columns"]]
    result = await session.ask(
        "execute_query",
        query=f"SELECT {', '.join(names)} FROM institutions WHERE state = :state ORDER BY name",
        parameters={"state": session.state},
    )
    total = result.total_count
    page = await result.fetch(limit=20, sort={"field": "unitid", "order": "desc"})
    session.expect(holds=len(page.data) == min(20, total or 0), what="a page")
    rows = [row async for batch in result.fetch_stream(batch_size=200) for row in batch]
    session.expect(
        holds=len(rows) == total and {row["state"] for row in rows} == {session.state}, what="a stream"
    )
    session.expect(holds=await result.delete(), what="delete")


async def misspell(session: Session) -> None:
    """A table and a column that are not there; the error's own suggestion is taken."""
    missing = await session.fail("describe_table", "UNKNOWN_TABLE", table="programz")
    table = missing["suggestions"][0]
    await session.call("describe_table", table=table)
    wrong = await session.fail(
        "execute_query", "UNKNOWN_COLUMN", query=f"SELECT credental, debt FROM {table}"
    )
    right = wrong["suggestions"][0]
    result = await session.ask(
        "execute_query",
        query=f"SELECT {right}, count(*) AS n, avg(debt) AS debt FROM {table} GROUP BY {right}",
    )
    session.expect(holds=len(await result.fetch_all()) > 3, what="all rows")
    session.expect(holds=await result.pin(), what="pin")
    session.expect(holds=(await result.get_metadata()).status == "pinned", what="pinned")
    session.expect(holds=await result.delete(), what="delete")


async def be_refused(session: Session) -> None:
    """What may not be done is refused, and changes nothing; then the question is asked properly."""
    await session.fail("execute_query", "FORBIDDEN_SQL", query="DELETE FROM programs")
    await session.fail("execute_query", "INVALID_SQL", query="SELECT * FROM programs WHERE")
    await session.fail("execute_query", "UNKNOWN_TABLE", query="SELECT * FROM sqlite_master")
    result = await session.ask("execute_query", query="SELECT count(*) AS n FROM programs")
    [row] = await result.fetch_all()
    session.expect(holds=row["n"] == 106_145, what="nothing was changed")
    session.expect(holds=await result.delete(), what="delete")


async def search_and_sort(session: Session) -> None:
    """A word is looked for in the catalogue, a join is asked, and its pages are walked by cursor."""
    matches = await session.call("search_catalog", terms=["earning", "institution"])
    session.expect(holds=matches["unmatched"] == [], what="matches")
    result = await session.ask(
        "execute_query",
        query=(
            "SELECT i.name, f.title, p.earnings FROM programs p JOIN institutions i USING (unitid) "
            "JOIN fields_of_study f USING (cip_code) "
            "WHERE i.state = :state AND p.earnings > 50000 ORDER BY p.earnings DESC"
        ),
        parameters={"state": session.state},
    )
    rows = await result.fetch_all(limit=50)
    earnings = [row["earnings"] for row in rows]
    session.expect(holds=earnings == sorted(earnings, reverse=True), what="the query's order")
    session.expect(holds=await result.delete(), what="delete")


async def refine(session: Session) -> None:
    """A stored result is asked again, where its rows are, by its link."""
    answer = await session.ask(
        "execute_query",
        query="SELECT name, state, control FROM institutions WHERE state = :state",
        parameters={"state": session.state},
    )
    by_control = await session.ask(
        "query_result", resource=answer.resource_uri, group_by=["control"], aggregates=[{"function": "count"}]
    )
    rows = await by_control.fetch_all()
    counts = [next(value for value in row.values() if isinstance(value, int)) for row in rows]
    session.expect(holds=sum(counts) == answer.total_count, what="the groups are the whole")
    refined = await session.ask("refine_result", resource=answer.resource_uri, columns=["name"], limit=5)
    session.expect(holds=len(await refined.fetch_all()) == min(5, answer.total_count or 0), what="refined")
    for result in (refined, by_control, answer):
        session.expect(holds=await result.delete(), what="delete")


async def lose_the_link(session: Session) -> None:
    """A link that is dead says so, and the query is run again."""
    query = "SELECT * FROM fields_of_study ORDER BY cip_code"
    lost = await session.ask("execute_query", query=query)
    session.expect(holds=await lost.delete(), what="delete")
    try:
        await lost.fetch()
    except FetchError as error:
        session.tally.provoked += 1
        session.expect(holds=error.code == "RESOURCE_NOT_FOUND", what=error.code)
    else:
        raise StepError("a deleted result was served")
    again = await session.ask("execute_query", query=query)
    session.expect(holds=len(await again.fetch_all()) == again.total_count, what="all rows")
    session.expect(holds=await again.delete(), what="delete")


FLOWS: Sequence[Flow] = (look_and_read, misspell, be_refused, search_and_sort, refine, lose_the_link)


# --- running them --------------------------------------------------------------------------------------------------


async def run(origin: str, number: int, *, at_once: int = 4) -> Tally:
    """So many flows, taken in turns, `at_once` at a time, against the server at `origin`."""
    tally = Tally()
    numbers = iter(range(number))
    headers = {"Authorization": f"Bearer {TOKEN}"}

    async def converse() -> None:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(f"{origin}/mcp", http_client=http)) as model,
            DualResponseClient(f"{origin}/resources", headers=headers) as application,
        ):
            for seconds in numbers:
                await _flow(FLOWS[seconds % len(FLOWS)], Session(model, application, tally, seconds))

    await asyncio.gather(*(converse() for _ in range(at_once)))
    return tally


async def _flow(flow: Flow, session: Session) -> None:
    tally = session.tally
    tally.flows += 1
    try:
        await flow(session)
        tally.completed += 1
    # Whatever a step raises, it is that flow's failure and no other's.
    except Exception as error:  # noqa: BLE001
        tally.failures.append(f"{flow.__name__} {session.number}: {type(error).__name__} {error}")


@asynccontextmanager
async def serving(database: str, *arguments: str) -> AsyncIterator[str]:
    """`dualsql serve` over `database` as a process of its own; where it listens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from dualsql.cli import main; main()",
        "serve", "--all", "--port", "0", *arguments,
        env={**os.environ, "DUALSQL_DATABASE_URL": database, "DUALSQL_TOKEN": TOKEN},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        text = (await process.stdout.readuntil(b"Ctrl-C")).decode()
        match = re.search(r"(http://127\.0\.0\.1:\d+)/mcp", text)
        assert match
        yield match[1]
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
