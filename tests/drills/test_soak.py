"""`make soak`: minutes of mixed load on two workers, with each fault once; then everything is back where it began."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.drills import Soak, Use
from dualsql.store import upgrade
from tests.drills.conftest import NAMES, Report
from tests.failures.cluster import Cluster, cluster
from tests.http.test_health import processes_of
from tests.serve.conftest import SHOP, TOKEN, Serving, calling, serving_process
from tests.serve.test_stopping import SECRET
from tests.serve.test_workers import all_ready, workers_of
from tests.waiting import PATIENCE, until

MINUTES = float(os.environ.get("DUALSQL_SOAK_MINUTES", "60"))
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CALLERS = 6
OF_FAULTS = {
    "BROKEN",
    "STORAGE_ERROR",
    "DATABASE_UNREACHABLE",
    "DATABASE_BUSY",
    "SERVER_UNAVAILABLE",
    "QUERY_TIMEOUT",
}
"""What a caller may be told while a part fails: the connection broke, or a code."""
OF_LOAD = {"TOO_MANY_QUERIES", "QUERY_TIMEOUT", "DATABASE_BUSY"}
"""What a caller may be told at any time."""
SMALL = "SELECT * FROM parts ORDER BY id"
LARGE = "SELECT one.id AS one, two.id AS two, 'f' AS f FROM parts one JOIN parts two ON two.id <= 50 ORDER BY 1, 2"
SLOW = (
    "SELECT one.maker_id, count(*) AS n, sum(two.price) AS s FROM parts one JOIN parts two ON one.price <> two.price "
    "JOIN makers ON makers.id <= 40 GROUP BY one.maker_id ORDER BY one.maker_id"
)


@dataclass
class Load:
    """Callers who create, read, stream, hang up and delete until told to stop."""

    served: Serving
    answers: Counter[str] = field(default_factory=Counter)
    unforeseen: list[str] = field(default_factory=list)
    in_trouble: bool = False

    def note(self, what: str, code: str | None) -> None:
        self.answers[code or what] += 1
        allowed = OF_LOAD | (OF_FAULTS if self.in_trouble else set())
        if code is not None and code not in allowed:
            self.unforeseen.append(f"{what}: {code}")

    async def caller(self, seed: int) -> None:
        chance = random.Random(seed)
        async with httpx.AsyncClient(headers=HEADERS, timeout=90) as http:
            while True:
                with suppress(httpx.TransportError):
                    await self._turn(http, chance)
                    continue
                self.note("connection", "BROKEN")

    async def _turn(self, http: httpx.AsyncClient, chance: random.Random) -> None:
        query = chance.choices([SMALL, LARGE, SLOW], [6, 3, 1])[0]
        url = await self._create(query)
        if url is None:
            return
        for _ in range(5):
            self._judge("page", await http.get(url, params={"limit": 20, "offset": chance.randrange(20)}))
        async with http.stream("GET", f"{url}/rows", params={"format": "ndjson"}) as answer:
            if answer.status_code == 200:
                async for _ in answer.aiter_bytes():
                    if chance.random() < 0.1:
                        break  # the reader leaves
            else:
                await answer.aread()
            self._judge("stream", answer)
        self._judge("delete", await http.delete(url))

    async def _create(self, query: str) -> str | None:
        try:
            async with asyncio.timeout(90), calling(self.served.origin, HEADERS) as model:
                result: Any = await model.call_tool("execute_query", {"query": query})
        except Exception:  # noqa: BLE001 - the SDK wraps a broken connection in groups of errors
            self.note("create", "BROKEN")
            return None
        if result.is_error:
            self.note("create", result.structured_content["error"]["code"])
            return None
        self.note("create", None)
        return str(result.structured_content["resource"]["url"])

    def _judge(self, what: str, answer: httpx.Response) -> None:
        # A deletion whose answer broke is not repeated; its result is then unknown.
        code = None
        if answer.status_code >= 400:
            is_problem = answer.headers.get("Content-Type") == "application/json"
            code = answer.json()["code"] if is_problem else f"{answer.status_code} {answer.text[:100]}"
        self.note(what, code)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.caller(seed)) for seed in range(CALLERS)]
        try:
            yield
        finally:
            for each in tasks:
                each.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended

    async def trouble(self, fault: Callable[[], Awaitable[object]]) -> None:
        """The fault, and then some seconds: requests that it struck end."""
        self.in_trouble = True
        await fault()
        await all_ready(self.served, patience=5 * PATIENCE)
        await asyncio.sleep(35)  # the longest that a statement of before may take
        self.in_trouble = False


def use(served: Serving, keep: Path, database: Cluster | None) -> Use:
    workers = workers_of(served)
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in workers)
    descriptors = sum(len(os.listdir(f"/proc/{each}/fd")) for each in workers)  # noqa: PTH208
    return Use(
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        descriptors,
        connections(database),
        len(list(keep.iterdir())),
    )


def connections(database: Cluster | None) -> int:
    if database is None:
        return 0
    command = ["psql", "-h", database.socket_folder, "-U", "postgres", "-Atc"]
    counted = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'dualsql%'"
    return int(subprocess.run([*command, counted], check=True, capture_output=True, text=True).stdout)


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[tuple[str, str, Cluster | None]]:
    """The URLs of data and store."""
    store = f"sqlite:///{folder / 'store.sqlite'}"
    with nullcontext() if kind == "sqlite" else cluster() as database:
        if database is None:
            with closing(sqlite3.connect(folder / "shop.sqlite")) as connection:
                connection.executescript(SHOP)
            data = f"sqlite:///{folder / 'shop.sqlite'}"
        else:
            data = store = database.url("postgres")
            command = ["psql", "-q", "-h", database.socket_folder, "-U", "postgres", "-v", "ON_ERROR_STOP=1"]
            subprocess.run(command, input=SHOP.replace("price REAL", "price float8"), text=True, check=True)
        upgrade(store)
        yield data, store, database


def faults(
    served: Serving, folder: Path, database: Cluster | None
) -> Mapping[str, Callable[[], Awaitable[object]]]:
    """Each fault, and its end."""

    async def keep_folder_gone() -> None:
        (folder / "keep").rename(folder / "gone")
        await asyncio.sleep(10)
        (folder / "gone").rename(folder / "keep")

    async def store_locked() -> None:
        with closing(sqlite3.connect(folder / "store.sqlite", isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            await asyncio.sleep(10)

    async def restarted() -> None:
        assert database is not None
        database.stop(signal.SIGQUIT)
        await asyncio.to_thread(database.start)

    async def paused() -> None:
        assert database is not None
        struck = processes_of(database)
        for each in struck:
            os.kill(each, signal.SIGSTOP)
        await asyncio.sleep(10)
        for each in reversed(struck):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)

    of_store = {"the store is locked": store_locked}
    of_database = {"PostgreSQL is killed": restarted, "PostgreSQL is paused": paused}
    return {"the folder of kept rows is gone": keep_folder_gone, **(of_database if database else of_store)}


@pytest.mark.exhaustive
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_soak(kind: str, tmp_path: Path, report: Report) -> None:
    seconds, began = MINUTES * 30, time.monotonic()
    keep = tmp_path / "keep"
    with databases(kind, tmp_path) as (data, store, database):
        async with serving_process(
            "--database", data, "--all", "--workers", "2", "--admin-port", "0", "--metrics", "--keep", str(keep),
            DUALSQL_STORE=store, DUALSQL_SECRET=SECRET, DUALSQL_TOKEN=TOKEN,
        ) as served:  # fmt: skip
            load = Load(served)

            async def kill() -> None:
                os.kill(min(workers_of(served)), signal.SIGKILL)

            async def replace() -> None:
                before = workers_of(served)
                served.process.send_signal(signal.SIGHUP)
                await until(
                    lambda: asyncio.sleep(0.1, workers_of(served) & before), lambda old: not old, patience=300
                )

            async with load.running():
                await load.trouble(kill)
                await load.trouble(replace)
                await asyncio.sleep(seconds / 5)
            first = await settled(served, keep, database)
            struck = faults(served, tmp_path, database)
            async with load.running():
                for fault in struck.values():
                    await load.trouble(fault)
                await asyncio.sleep(began + seconds - time.monotonic())
            last = await settled(served, keep, database)
            minutes = (time.monotonic() - began) / 60
            report.results.append(Soak(NAMES[kind], minutes, dict(load.answers), first, last))
            said = await served.stop()
        assert load.unforeseen == [], said
        assert last.megabytes < 1.2 * first.megabytes + 20
        assert last.descriptors <= first.descriptors + 20
        assert last.connections <= first.connections + 10
        assert last.files <= first.files + load.answers["BROKEN"]


async def settled(served: Serving, keep: Path, database: Cluster | None) -> Use:
    """What is held once nothing is freed any more."""
    before, now = None, use(served, keep, database)
    while before is None or holds_less(now, before):
        await asyncio.sleep(75)  # sweeps are 60 seconds apart
        before, now = now, use(served, keep, database)
    return now


def holds_less(now: Use, before: Use) -> bool:
    return (
        now.descriptors < before.descriptors
        or now.connections < before.connections
        or now.files < before.files
    )
