"""A worker is killed, or its clock jumps: another one goes on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

from dualsql_client import DualResponseClient, Progress
from tests.drills.conftest import Balancer, Report
from tests.failures.cluster import Cluster
from tests.proxies.running import PATIENCE, free_port
from tests.relay import relaying
from tests.serve.conftest import serving_process

# Sockets that a drill cuts are not closed in order.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECRET = "a secret of at least thirty-two characters"
PAIRS = "SELECT a.id, b.id AS other FROM parts a JOIN parts b ON b.id > 0 ORDER BY a.id, b.id"
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.mark.exhaustive
async def test_kill_9_amid_a_stream(own_cluster: Cluster, shop: str, report: Report) -> None:
    """`kill -9` of a worker amid a stream, with a second worker on the same store."""
    variables = {"DUALSQL_SECRET": SECRET, "DUALSQL_STORE": own_cluster.url("postgres")}
    async with relaying(Balancer()) as balancer:
        base = f"http://127.0.0.1:{balancer.port}"
        options = ("--database", shop, "--all", "--base-url", base)
        ports = [free_port(), free_port()]
        async with (
            serving_process(*options, "--port", str(ports[0]), **variables) as first,
            serving_process(*options, "--port", str(ports[1]), **variables),
        ):
            balancer.targets = ports
            async with Client(f"{base}/mcp") as model:
                result = await model.call_tool("execute_query", {"query": PAIRS})
            killed_at, number_of_rows, resumed_after = 0, 0, 0.0

            def kill(progress: Progress) -> None:
                nonlocal killed_at
                if progress.rows and not killed_at:
                    killed_at = progress.rows
                    first.process.kill()
                    report.end_trouble()

            async with asyncio.timeout(3 * PATIENCE), DualResponseClient(f"{base}/resources") as client:
                async for batch in client.parse(result, strict=True).fetch_stream(progress=kill):
                    if killed_at and not resumed_after and balancer.target == ports[1]:
                        resumed_after = time.monotonic() - report.ended_at
                    for row in batch:
                        assert (row["id"] - 1) * 1_000 + row["other"] - 1 == number_of_rows
                        number_of_rows += 1
            assert await first.process.wait() == -9
            assert 0 < killed_at < number_of_rows == 1_000_000
            effect = (
                "the connection broke; the client resumed at the other worker, and its result is found there"
            )
            report.add(effect=effect, recovery=f"{resumed_after:.1f} s")


@pytest.mark.exhaustive
async def test_the_clock_of_a_worker_jumps_by_an_hour(
    own_cluster: Cluster, shop: str, tmp_path: Path, report: Report
) -> None:
    """The clock of a worker jumps by an hour, forward and back (libfaketime)."""
    assert FAKETIME is not None, "libfaketime is not installed (Debian: apt-get install libfaketime)"
    clock = tmp_path / "clock"
    clock.write_text("+0")
    variables = {
        "DUALSQL_SECRET": SECRET,
        "DUALSQL_STORE": own_cluster.url("postgres"),
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    urls: list[str] = []

    async def create(origin: str) -> None:
        async with Client(f"{origin}/mcp") as model:
            result: Any = await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})
        urls.append(result.structured_content["resource"]["url"].rpartition("/")[2])

    async def all_live(origin: str) -> None:
        async with httpx.AsyncClient() as http:
            for each in urls:
                answer = await http.get(f"{origin}/resources/{each}", params={"limit": 1})
                assert answer.status_code == 200, answer.text

    async with serving_process("--database", shop, "--all", **variables) as worker:
        for jump in ("+0", "+3600", "-3600"):
            clock.write_text(jump)
            report.end_trouble()
            await create(worker.origin)
            await all_live(worker.origin)
    clock.write_text("+3600")
    async with serving_process("--database", shop, "--all", **variables) as skewed:
        assert "seconds ahead of the store's" in skewed.said
        await all_live(skewed.origin)
    report.add(
        effect="nothing; a worker that starts with another clock than the store's says so",
        recovery="none needed",
    )
