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
from pathlib import Path
from typing import Any

import httpx
import pytest

from dualsql.databases.sqlite import BACKEND as SQLITE
from dualsql.settings import Settings
from tests.drills.conftest import Report
from tests.drills.test_soak import SMALL, databases
from tests.engines import opened
from tests.failures.test_client import MANY
from tests.http.live.serving import listening
from tests.http.test_health import processes_of
from tests.mariadb import MariaDB
from tests.proxies.running import PATIENCE
from tests.serve.conftest import Serving, calling, serving_process
from tests.serve.test_stopping import SECRET
from tests.waiting import until

IDLE = 2_000
SLOW = 300
HEAVY = 60
BYSTANDERS = 20
PAGES = 25
STREAMS = 20
ENDLESS = "SELECT count(*) AS n FROM parts a, parts b, parts c WHERE a.price + b.price + c.price <> 1"
WIDE = "SELECT a.id AS one, b.id AS two, 'of a million rows' AS three FROM parts a, parts b ORDER BY 1, 2"
WHO = """
from dualsql import Principal

async def who(request):
    return Principal(id=request.headers["x-name"])
"""


def threads(*processes: int) -> list[int]:
    return [int(each.name) for process in processes for each in Path(f"/proc/{process}/task").iterdir()]


def run_on_last_core(*databases: int) -> None:
    """Leave the other cores to callers and server: in use, the database is another machine."""
    core = max(os.sched_getaffinity(0))
    for thread in threads(*databases):
        os.sched_setaffinity(thread, {core})


def yield_to_callers(server: int) -> None:
    """SQLite runs in threads of the server; in use, these take no CPU of the callers, who are other machines."""
    for thread in threads(server):
        os.setpriority(os.PRIO_PROCESS, thread, 10)


async def fill_mariadb(url: str) -> None:
    """The shop, without its views."""
    async with opened(url) as engine, engine.begin() as connection:
        for statement in (
            "CREATE TABLE makers (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL)",
            "CREATE TABLE parts (id INTEGER PRIMARY KEY, maker_id INTEGER NOT NULL, price DOUBLE)",
            "INSERT INTO makers SELECT seq, concat('Maker ', seq) FROM seq_1_to_40",
            "INSERT INTO parts SELECT seq, 1 + seq MOD 40, seq MOD 100 + 0.5 FROM seq_1_to_1000",
        ):
            await connection.exec_driver_sql(statement)


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
        report.add(effect=f"nothing; a page took {seconds * 1000:.0f} ms meanwhile", recovery="none needed")


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

        statuses = Counter(await asyncio.gather(*map(status, readers)))
        assert statuses == {200: 7, 503: SLOW - 7}  # one caller's share of ten
        began = time.monotonic()
        for _ in range(20):
            assert (await live.http.get(live.path, params={"limit": 10})).status_code == 200
        seconds = (time.monotonic() - began) / 20
        assert seconds < 2
        await stack.aclose()
        report.end_trouble()
        one_row = f"{live.path}/rows?limit=1"
        await until(lambda: live.http.get(one_row), lambda answer: answer.status_code == 200)
        report.add(
            effect=f"7 streams, 293 times 503 TOO_MANY_QUERIES; a page took {seconds * 1000:.0f} ms meanwhile"
        )


class Crowd:
    """One caller with queries and streams that do not end, and others, who create results and read."""

    def __init__(self, served: Serving, http: httpx.AsyncClient) -> None:
        self.served, self.http = served, http
        self.creations: list[float] = []
        self.pages: list[float] = []
        self.streams: list[float] = []
        # The heavy caller leaves three streams of ten; whoever finds none free is refused.
        self._turns = asyncio.Semaphore(3)

    async def create(self, name: str, query: str) -> str:
        async with calling(self.served.origin, {"X-Name": name}) as model:
            began = time.monotonic()
            result: Any = await model.call_tool("execute_query", {"query": query})
            self.creations.append(time.monotonic() - began)
        assert not result.is_error, result.structured_content
        return str(result.structured_content["resource"]["url"])

    async def query_without_end(self) -> None:
        async with calling(self.served.origin, {"X-Name": "heavy"}) as model:
            while True:
                result: Any = await model.call_tool("execute_query", {"query": ENDLESS})
                await asyncio.sleep(result.structured_content["error"]["details"].get("retry_after", 0))

    async def stream_without_end(self, url: str) -> None:
        while True:
            async with self.http.stream("GET", f"{url}/rows", headers={"X-Name": "heavy"}) as answer:
                if answer.status_code == 200:
                    await asyncio.Event().wait()  # what is sent is not read
                await asyncio.sleep(float(answer.headers["Retry-After"]))

    async def slots(self, kind: str) -> float:
        text = (await self.http.get(f"{self.served.admin}/metrics")).text
        pattern = rf'^dualsql_slots_used\{{.*dualsql_slot="{kind}".*\}} (\S+)$'
        [used] = re.findall(pattern, text, re.MULTILINE)
        return float(used)

    async def read(self, name: str) -> None:
        url = await self.create(name, SMALL)
        for turn in range(PAGES):
            await asyncio.sleep(0.25)
            began = time.monotonic()
            page = await self.http.get(url, params={"limit": 10}, headers={"X-Name": name})
            self.pages.append(time.monotonic() - began)
            assert len(page.json()["data"]) == 10
            if turn % 5 == 0:
                async with self._turns:
                    began = time.monotonic()
                    rows = await self.http.get(f"{url}/rows", headers={"X-Name": name})
                    self.streams.append(time.monotonic() - began)
                assert len(rows.text.splitlines()) == 1000 + 1, rows.text[:1000]


def quantile(part: float, seconds: list[float]) -> float:
    """The most that this part of the requests took."""
    return sorted(seconds)[int(len(seconds) * part)]


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
# Those who wait for the endless queries are cancelled.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
async def test_heavy_queries_of_one_caller(
    kind: str, tmp_path: Path, report: Report, request: pytest.FixtureRequest
) -> None:
    """60 queries and 20 streams without an end of one caller, while 20 others create results and read."""
    on_mariadb = request.getfixturevalue("mariadb_url") if kind == "mariadb" else None
    (tmp_path / "names.py").write_text(WHO)
    slots = (
        min(Settings().maximum_concurrent_queries, SQLITE.most_statements or 0) if kind == "sqlite" else 15
    )
    with databases("sqlite" if on_mariadb else kind, tmp_path) as (data, store, postgresql):
        if on_mariadb is not None:
            await fill_mariadb(on_mariadb)
            mariadb: MariaDB = request.getfixturevalue("mariadb_server")
            run_on_last_core(int(mariadb.socket.with_name("pid").read_text()))
        if postgresql is not None:
            run_on_last_core(*processes_of(postgresql))
        async with (
            serving_process(
                "--database", on_mariadb or data, "--all", "--authenticate", "names:who", "--admin-port", "0",
                "--metrics", DUALSQL_STORE=store, DUALSQL_SECRET=SECRET, PYTHONPATH=str(tmp_path),
            ) as served,
            httpx.AsyncClient(timeout=PATIENCE, limits=httpx.Limits(max_connections=None)) as http,
        ):  # fmt: skip
            if kind == "sqlite":
                yield_to_callers(served.process.pid)
            crowd, queries, streams = Crowd(served, http), list[float](), list[float]()

            async def watch() -> None:
                while True:
                    queries.append(await crowd.slots("query"))
                    streams.append(await crowd.slots("stream"))
                    await asyncio.sleep(1)

            url = await crowd.create("heavy", WIDE)
            tasks = [asyncio.create_task(crowd.stream_without_end(url)) for _ in range(STREAMS)]
            await until(lambda: crowd.slots("stream"), lambda number: number >= 3)
            tasks += [asyncio.create_task(crowd.query_without_end()) for _ in range(HEAVY)]
            await until(lambda: crowd.slots("query"), lambda number: number >= slots // 3)
            tasks.append(asyncio.create_task(watch()))
            crowd.creations.clear()
            await asyncio.gather(*(crowd.read(f"{number}") for number in range(BYSTANDERS)))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        slots_used, streams_used = statistics.median(queries), statistics.median(streams)
        report.add(
            effect=f"a page of the 20 took {statistics.median(crowd.pages) * 1000:.0f} ms, "
            f"99 of 100 at most {quantile(0.99, crowd.pages) * 1000:.0f} ms, a creation at most "
            f"{max(crowd.creations):.1f} s, a stream at most {max(crowd.streams):.1f} s; "
            f"{slots_used:.0f} of {slots} slots and {streams_used:.0f} of 10 streams were in use",
            recovery="none needed",
        )
        assert quantile(0.99, crowd.pages) < 1
        assert quantile(0.99, crowd.streams) < 1
        assert slots_used >= slots // 3 and streams_used >= 3
