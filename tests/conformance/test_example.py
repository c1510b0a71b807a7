"""examples/standard passes without a package of ours; both clients fetch from it, and from a server with all parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest

from dualsql.conformance.probe import Target
from dualsql.conformance.run import check_server, report
from dualsql.conformance.standard import standard, standard_row
from dualsql_client import DualResponseClient
from tests.client.hosting import listening_socket, origin_of, serving
from tests.conformance.mutants import Mutant
from tests.javascript.running import node, run

Server = Callable[[], AbstractAsyncContextManager[str]]
ROOT = Path(__file__).parents[2]
SERVER = ROOT / "examples" / "standard" / "server.ts"
ROWS = [dict(standard_row(number)) for number in range(1, 1_001)]
SORTED = sorted((row["score"] for row in ROWS if row["score"] is not None), reverse=True)


@asynccontextmanager
async def serving_all_parts() -> AsyncIterator[str]:
    """The origin of a server with all parts."""
    with listening_socket() as bound:
        async with serving(Mutant(origin_of(bound)).application(), bound):
            yield origin_of(bound)


@asynccontextmanager
async def serving_example() -> AsyncIterator[str]:
    """Its origin, while it runs."""
    with listening_socket() as bound:
        port = bound.getsockname()[1]
    program = await asyncio.create_subprocess_exec(
        node(), SERVER, str(port), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert program.stdout is not None
        assert (await program.stdout.readline()).startswith(b"MCP: ")
        yield f"http://127.0.0.1:{port}"
    finally:
        program.terminate()
        await program.wait()


async def called(origin: str, rows: int) -> dict[str, Any]:
    async with mcp.Client(f"{origin}/mcp") as client:
        result = await client.call_tool("standard_rows", {"rows": rows})
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_it_is_short_and_needs_no_package() -> None:
    lines = SERVER.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 300
    imports = [line for line in lines if line.startswith("import")]
    assert imports
    assert all('from "node:' in line for line in imports)


@pytest.mark.long
async def test_it_passes_the_required_part() -> None:
    async with serving_example() as origin:
        outcomes = await check_server(Target(f"{origin}/mcp"))
    required = [each for each in outcomes if each.sentence.part in standard()["required"]]
    assert {each.verdict for each in required} == {"passed"}, report(outcomes)


servers = pytest.mark.parametrize("server", [serving_example, serving_all_parts])


@servers
async def test_the_python_client_fetches_all_sorted_paged_and_cancels(server: Server) -> None:
    async with server() as origin, DualResponseClient(f"{origin}/resources") as client:
        parsed = client.parse(await called(origin, 1_000), strict=True)
        assert await parsed.fetch_all() == ROWS
        scores = [row["score"] for row in await parsed.fetch_all(sort="-score")]
        assert scores[: len(SORTED)] == SORTED
        assert set(scores[len(SORTED) :]) == {None}
        assert [len(page.data) async for page in parsed.pages(limit=400)] == [400, 400, 200]
        async with aclosing(parsed.fetch_stream(batch_size=10)) as batches:
            assert await anext(batches) == ROWS[:10]
        assert (await parsed.fetch(limit=1, offset=999)).data == ROWS[999:]


async def test_the_python_client_sorts_by_several_keys() -> None:
    async with serving_all_parts() as origin, DualResponseClient(f"{origin}/resources") as client:
        parsed = client.parse(await called(origin, 1_000), strict=True)
        rows = await parsed.fetch_all(sort=["kind", "-id"])
        pages = [page.data async for page in parsed.pages(limit=300, sort=["kind", "-id"])]
    assert rows == sorted(ROWS, key=lambda row: (row["kind"], -row["id"]))
    assert [row for page in pages for row in page] == rows


@servers
async def test_the_javascript_client_fetches_all_sorted_paged_and_cancels(server: Server) -> None:
    async with server() as origin:
        job = {"baseUrl": f"{origin}/resources", "toolResult": await called(origin, 1_000)}
        answer = json.loads(await run(node(), Path(__file__).parent / "fetching.mjs", given=job))
    assert answer["all"] == [row["id"] for row in ROWS]
    assert [score for score in answer["sorted"] if score is not None] == SORTED
    assert answer["pages"] == [400, 400, 200]
    assert answer["cancelled"] == "AbortError"
