"""Two thousand idle connections, three hundred readers who take nothing, and sixty queries without an end."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import statistics
import time
from collections import Counter
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.drills.conftest import Report
from tests.drills.test_soak import SMALL, databases
from tests.failures.test_client import MANY
from tests.http.live.serving import listening
from tests.proxies.running import PATIENCE
from tests.serve.conftest import calling, serving_process
from tests.serve.test_stopping import SECRET
from tests.waiting import until

IDLE = 2_000
SLOW = 300
HEAVY = 60
BYSTANDERS = 20
PAGES = 25
ENDLESS = "SELECT count(*) AS n FROM parts a, parts b, parts c WHERE a.price + b.price + c.price <> 1"
WHO = """
from dualsql import Principal

async def who(request):
    return Principal(id=request.headers["x-name"])
"""


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


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
# Those who wait for the endless queries are cancelled.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_heavy_queries_of_one_caller(kind: str, tmp_path: Path, report: Report) -> None:
    """60 queries without an end of one caller, while 20 others create results and read their pages."""
    (tmp_path / "names.py").write_text(WHO)
    with databases(kind, tmp_path) as (data, store, _):
        async with (
            serving_process(
                "--database", data, "--all", "--authenticate", "names:who", "--admin-port", "0", "--metrics",
                DUALSQL_STORE=store, DUALSQL_SECRET=SECRET, PYTHONPATH=str(tmp_path),
            ) as served,
            AsyncExitStack() as stack,
        ):  # fmt: skip

            async def heavy() -> None:
                async with calling(served.origin, {"X-Name": "heavy"}) as model:
                    while True:
                        found: Any = await model.call_tool("execute_query", {"query": ENDLESS})
                        await asyncio.sleep(
                            found.structured_content["error"]["details"].get("retry_after", 0)
                        )

            async def slots() -> float:
                text = (await http.get(f"{served.admin}/metrics")).text
                [used] = re.findall(
                    r'^dualsql_slots_used\{.*dualsql_slot="query".*\} (\S+)$', text, re.MULTILINE
                )
                return float(used)

            async def read(name: str) -> list[float]:
                async with calling(served.origin, {"X-Name": name}) as model:
                    began = time.monotonic()
                    made: Any = await model.call_tool("execute_query", {"query": SMALL})
                    creations.append(time.monotonic() - began)
                url = made.structured_content["resource"]["url"]
                seconds = []
                for _ in range(PAGES):
                    await asyncio.sleep(0.25)
                    began = time.monotonic()
                    page = await http.get(url, params={"limit": 10}, headers={"X-Name": name})
                    seconds.append(time.monotonic() - began)
                    assert len(page.json()["data"]) == 10
                return seconds

            async def watch() -> None:
                while True:
                    used.append(await slots())
                    await asyncio.sleep(1)

            # Callers are on other machines: the threads of the queries do not take their CPU.
            for thread in os.listdir(f"/proc/{served.process.pid}/task"):  # noqa: PTH208
                os.setpriority(os.PRIO_PROCESS, int(thread), 10)
            creations: list[float] = []
            used: list[float] = []
            http = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE))
            tasks = [asyncio.create_task(heavy()) for _ in range(HEAVY)]
            await until(slots, lambda number: number >= 5)
            tasks.append(asyncio.create_task(watch()))
            read_seconds = await asyncio.gather(*(read(f"{number}") for number in range(BYSTANDERS)))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        pages = sorted(chain.from_iterable(read_seconds))
        median, slots_used = statistics.median(pages), statistics.median(used)
        p99 = pages[int(len(pages) * 0.99)]
        report.tell(
            told=f"a page of the 20 took {median * 1000:.0f} ms, 99 of 100 at most {p99 * 1000:.0f} ms, "
            f"a creation at most {max(creations):.1f} s; {slots_used:.0f} of 15 slots in use",
            recovery="none needed",
        )
        assert p99 < 1
        assert slots_used >= 5
