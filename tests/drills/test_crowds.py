"""Two thousand idle connections, and three hundred readers who take nothing."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from tests.drills.conftest import Report
from tests.failures.test_client import MANY
from tests.http.live.serving import listening
from tests.proxies.running import PATIENCE
from tests.waiting import until

IDLE = 2_000
SLOW = 300


@pytest.fixture(autouse=True)
def many_files() -> None:
    """Both ends of each connection are files of this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * IDLE
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@pytest.mark.exhaustive
async def test_idle_connections(data_url: str, report: Report) -> None:
    """2,000 connections that send nothing."""
    async with listening(data_url) as live, AsyncExitStack() as stack:
        for _ in range(IDLE):
            await stack.enter_async_context(live.connection())
        began = time.monotonic()
        for _ in range(20):
            assert (await live.http.get(live.path, params={"limit": 10})).status_code == 200
        seconds = (time.monotonic() - began) / 20
        assert seconds < 1
        report.tell(told=f"nothing; a page took {seconds * 1000:.0f} ms meanwhile", recovery="none needed")


@pytest.mark.exhaustive
async def test_slow_readers(data_url: str, report: Report) -> None:
    """300 readers of large streams who take nothing."""
    async with listening(data_url, statement=MANY) as live, AsyncExitStack() as stack:
        head = live.head_of("GET").replace(live.path.encode(), f"{live.path}/rows".encode())
        readers = []
        for _ in range(SLOW):
            reader, writer = await stack.enter_async_context(live.connection())
            writer.write(head)
            readers.append(reader)

        async def status(reader: asyncio.StreamReader) -> int:
            async with asyncio.timeout(PATIENCE):
                return int((await reader.readuntil(b"\r\n")).split()[1])

        found = Counter(await asyncio.gather(*map(status, readers)))
        assert found == {200: 10, 503: SLOW - 10}
        began = time.monotonic()
        for _ in range(20):
            assert (await live.http.get(live.path, params={"limit": 10})).status_code == 200
        seconds = (time.monotonic() - began) / 20
        assert seconds < 2
        await stack.aclose()
        report.end_trouble()
        one_row = f"{live.path}/rows?limit=1"
        await until(lambda: live.http.get(one_row), lambda found: found.status_code == 200)
        report.tell(
            told=f"10 streams, 290 times 503 TOO_MANY_QUERIES; a page took {seconds * 1000:.0f} ms meanwhile"
        )
