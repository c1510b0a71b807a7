"""A live Prometheus with the rules of examples/operations: each fault of a live server fires its alert and no other."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from dualsql.store import upgrade
from tests.drills.test_soak import SLOW, SMALL
from tests.proxies.running import free_port
from tests.serve.conftest import Serving, calling, serving_process
from tests.serve.test_stopping import SECRET
from tests.waiting import until

OPERATIONS = Path(__file__).parents[2] / "examples" / "operations"
A_MINUTE = 4
"""Seconds that a minute of the rules takes here."""
BROKEN = "SELECT * FROM makers, nothing_of_the_kind"

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
]


def faster(rules: str) -> str:
    """The rules, whose minutes and hours pass faster."""
    rules = re.sub(r"\b(\d+)h\b", lambda match: f"{int(match[1]) * 60}m", rules)
    return re.sub(r"\b(\d+)m\b", lambda match: f"{int(match[1]) * A_MINUTE}s", rules)


@asynccontextmanager
async def prometheus(target: str, folder: Path) -> AsyncIterator[str]:
    """The origin of a Prometheus that scrapes the target each "minute"."""
    settings = (OPERATIONS / "prometheus.yml").read_text().replace("dualsql:8001", target)
    # A scrape may take as long as its interval: with 1 s, a busy machine is one that does not answer.
    settings = settings.replace("15s", "4s").replace("global:", "global:\n  evaluation_interval: 1s")
    (folder / "prometheus.yml").write_text(settings)
    (folder / "alerts.yml").write_text(faster((OPERATIONS / "prometheus-alerts.yml").read_text()))
    origin = f"127.0.0.1:{free_port()}"
    process = await asyncio.create_subprocess_exec(
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={origin}", stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://{origin}"
    finally:
        process.terminate()
        await process.wait()


async def firing(origin: str) -> set[str]:
    with suppress(httpx.TransportError):
        async with httpx.AsyncClient() as http:
            body: Any = (await http.get(f"{origin}/api/v1/alerts")).json()
        return {each["labels"]["alertname"] for each in body["data"]["alerts"] if each["state"] == "firing"}
    return set()


class Scene:
    """A server under a little load, and what can be done to it.

    Attributes:
        queries: asked for in turns.
    """

    def __init__(self, served: Serving, folder: Path) -> None:
        self.served, self.folder = served, folder
        self.queries = [SMALL, SMALL, SMALL, "SELECT * FROM makers"]

    async def load(self) -> None:
        while True:
            for query in list(self.queries):
                with suppress(Exception):
                    async with calling(self.served.origin, {}) as model:
                        await model.call_tool("execute_query", {"query": query})
                with suppress(httpx.TransportError):
                    async with httpx.AsyncClient() as http:
                        await http.get(f"{self.served.admin}/ready")

    def execute(self, file: str, statement: str) -> None:
        with closing(sqlite3.connect(self.folder / file)) as connection:
            connection.execute(statement)
            connection.commit()

    async def nothing(self) -> None:
        """All is well."""

    async def killed(self) -> None:
        """The server is killed, and its workers end."""
        self.served.process.kill()

    async def store_refuses(self) -> None:
        """The store can be read and not written."""
        trigger = (
            "CREATE TRIGGER refuse BEFORE INSERT ON dualsql_resources BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        self.execute("store.sqlite", trigger)

    async def store_gone(self) -> None:
        """The store has lost its tables, and nobody creates."""
        self.queries = ["-"]  # no statement: the load asks /ready
        self.execute("store.sqlite", "ALTER TABLE dualsql_links RENAME TO lost")

    async def some_fail(self) -> None:
        """The database has lost one of its tables."""
        self.execute("shop.sqlite", "ALTER TABLE makers RENAME TO lost")

    async def wrong_calls(self) -> None:
        """A model asks for tables that do not exist."""
        self.queries = [SMALL, BROKEN]

    async def keep_gone(self) -> None:
        """The folder of kept rows is gone."""
        (self.folder / "keep").rename(self.folder / "gone")
        self.queries = [SLOW, SMALL]


FAULTS: list[tuple[Callable[[Scene], Awaitable[None]], set[str]]] = [
    (Scene.nothing, set()),
    (Scene.killed, {"DualsqlDown"}),
    (Scene.store_refuses, {"DualsqlNothingCreated"}),
    (Scene.store_gone, {"DualsqlNotReady"}),
    (Scene.some_fail, {"DualsqlErrors"}),
    (Scene.wrong_calls, {"DualsqlToolErrors"}),
    (Scene.keep_gone, {"DualsqlKeepingFails"}),
]


async def alerts_of(
    fault: Callable[[Scene], Awaitable[None]], expected: set[str], shop: str, folder: Path
) -> set[str]:
    store, keep = f"sqlite:///{folder / 'store.sqlite'}", folder / "keep"
    upgrade(store)
    async with serving_process(
        "--database", shop, "--all", "--workers", "2", "--admin-port", "0", "--metrics", "--keep", str(keep),
        DUALSQL_STORE=store, DUALSQL_SECRET=SECRET,
    ) as served:  # fmt: skip
        scene = Scene(served, folder)
        loading = asyncio.create_task(scene.load())
        try:
            async with prometheus(served.admin.removeprefix("http://"), folder) as origin:
                await asyncio.sleep(3 * A_MINUTE)
                assert await firing(origin) == set()
                await fault(scene)
                seen: set[str] = set()

                async def all_seen() -> bool:
                    seen.update(await firing(origin))
                    await asyncio.sleep(0.5)
                    return expected <= seen

                await until(all_seen, patience=40 * A_MINUTE)
                for _ in range(6 * A_MINUTE):
                    await all_seen()
                return seen
        finally:
            loading.cancel()


@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
async def test_a_fault_fires_its_alert_and_no_other(
    fault: Callable[[Scene], Awaitable[None]], expected: set[str], shop: str, tmp_path: Path
) -> None:
    assert await alerts_of(fault, expected, shop, tmp_path) == expected


async def test_a_disk_that_is_nearly_full(shop: str, tmp_path: Path) -> None:
    """A file system of 64 MB under the folder of kept rows."""
    keep = tmp_path / "keep"
    keep.mkdir(mode=0o700)
    mounting = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "none", str(keep)]
    if await asyncio.to_thread(subprocess.call, mounting):
        pytest.skip("no file system can be mounted here")
    try:
        expected = {"DualsqlKeepFolderFull"}
        assert await alerts_of(Scene.nothing, expected, shop, tmp_path) == expected
    finally:
        await asyncio.to_thread(subprocess.check_call, ["umount", "--lazy", str(keep)])
