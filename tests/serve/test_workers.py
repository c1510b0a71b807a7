"""`dualsql serve --workers 2`: processes on one port, of which one is killed, replaced or told to stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from typer.testing import CliRunner

from dualsql.cli.commands import app
from dualsql.store import upgrade
from dualsql_client import DualResponseClient
from tests.serve.conftest import PROGRAM, Serving, environment, serving_process
from tests.serve.test_stopping import MANY, ROWS, SECRET, assert_are_all, stored, told_to_stop
from tests.waiting import PATIENCE, until

SMALL = "SELECT * FROM makers ORDER BY id"
AGES = 120


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    upgrade(url)
    return url


@asynccontextmanager
async def serving(shop: str, store: str, *arguments: str) -> AsyncIterator[Serving]:
    async with asyncio.timeout(AGES), serving_process(
        "--database", shop, "--all", "--workers", "2", "--admin-port", "0", "--metrics", *arguments,
        DUALSQL_STORE=store, DUALSQL_SECRET=SECRET,
    ) as served:  # fmt: skip
        yield served


def workers_of(served: Serving) -> set[int]:
    """The numbers of their processes."""
    parent = served.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    workers = set()
    for each in children:
        with suppress(FileNotFoundError):  # it has just ended
            if b"resource_tracker" not in Path(f"/proc/{each}/cmdline").read_bytes():
                workers.add(int(each))
    return workers


async def ready(served: Serving) -> Any:
    async with httpx.AsyncClient() as http:
        return (await http.get(f"{served.admin}/ready", timeout=AGES)).json()


async def all_ready(served: Serving, *, patience: float = PATIENCE) -> None:
    await until(
        lambda: ready(served), lambda actual: actual["workers"] == {"ready": 2, "all": 2}, patience=patience
    )


async def create(served: Serving, query: str = SMALL) -> str:
    """The URL of a new result, on a connection of its own."""
    async with Client(f"{served.origin}/mcp") as model:
        result: Any = await model.call_tool("execute_query", {"query": query})
    url = result.structured_content["resource"]["url"]
    assert isinstance(url, str)
    return url


async def rows_of(url: str) -> int:
    """How many the page of the result has, on a connection of its own.

    A worker that stops closes a connection that it accepted and on which no request has arrived. As proxies do, a
    request is sent once more then (RFC 9112, 9.3.1).
    """
    async with httpx.AsyncClient() as http:
        try:
            answer = await http.get(url, params={"limit": 100}, timeout=AGES)
        except httpx.RemoteProtocolError:
            answer = await http.get(url, params={"limit": 100}, timeout=AGES)
    assert answer.status_code == 200, answer.text
    return len(answer.json()["data"])


async def requests_of(served: Serving) -> dict[str, float]:
    """Pages by worker, of the metrics of all."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{served.admin}/metrics", timeout=AGES)
    assert answer.status_code == 200
    lines = re.findall(
        r'^http_server_request_duration_seconds_count\{.*worker="(\d)".*\} (\S+)$', answer.text, re.MULTILINE
    )
    return {worker: float(count) for worker, count in lines}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--database", "sqlite:///x.sqlite", "--all"], "--workers requires --store"),
        (
            ["--database", "sqlite:///x.sqlite", "--all", "--stdio"],
            "--workers cannot be combined with --stdio",
        ),
        (["x.sqlite"], "--workers cannot be combined with files"),
        (["--database", "sqlite:///x.sqlite", "--all", "--open"], "--workers cannot be combined with --open"),
    ],
)
def test_what_workers_cannot_share_is_refused(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(app, ["serve", "--workers", "2", *arguments])
    assert (done.exit_code, told in done.output) == (1, True), done.output


@pytest.mark.long
async def test_a_worker_that_cannot_start_ends_all_with_its_reason(shop: str, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "serve", "--workers", "2", "--database", shop, "--all", "--port", "0",
        env=environment(DUALSQL_STORE=f"sqlite:///{tmp_path / 'none.sqlite'}", DUALSQL_SECRET=SECRET),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 1 and b"dualsql migrate --create" in output and b"Traceback" not in output, (
        output
    )


@pytest.mark.long
async def test_both_serve_the_results_of_both(shop: str, store: str) -> None:
    async with serving(shop, store) as served:
        assert (await ready(served))["workers"] == {"ready": 2, "all": 2}
        urls: list[str] = []

        async def creating_and_reading() -> dict[str, float]:
            urls.append(await create(served))
            assert await asyncio.gather(*map(rows_of, urls)) == [40] * len(urls)
            return await requests_of(served)

        served_by = await until(creating_and_reading, lambda actual: len(actual) == 2)
        assert sum(served_by.values()) >= len(urls)
        output = await served.stop()
    assert (output, served.process.returncode) == ("Stopped.\n", 0)


@pytest.mark.long
async def test_metrics_are_answered_while_a_worker_starts(shop: str, store: str) -> None:
    async with serving(shop, store) as served:
        os.kill(min(workers_of(served)), signal.SIGKILL)

        async def ready_workers() -> int:
            await requests_of(served)
            return int((await ready(served))["workers"]["ready"])

        await until(ready_workers, lambda number: number == 1)
        await until(ready_workers, lambda number: number == 2)


@pytest.mark.long
async def test_kill_9_of_each_worker_amid_a_stream(shop: str, store: str) -> None:
    """One of the two has the stream. It resumes at the other one, and each is replaced."""
    async with serving(shop, store) as served, DualResponseClient(f"{served.origin}/resources") as client:
        async with Client(f"{served.origin}/mcp") as model:
            result = await model.call_tool("execute_query", {"query": MANY})
        before, rows = workers_of(served), 0
        doomed = sorted(before)
        async for batch in client.parse(result, strict=True).fetch_stream():
            for row in batch:
                assert (row["one"] - 1) * 300 + row["two"] - 1 == rows
                rows += 1
            if doomed and rows > ROWS // 4 * (3 - len(doomed)):
                os.kill(doomed.pop(), signal.SIGKILL)
                await all_ready(served)
        assert rows == ROWS and not doomed
        assert not workers_of(served) & before
        assert "(-9); another one is started." in await served.stop()


@pytest.mark.long
async def test_kill_9_amid_creations_loses_none_that_was_answered(shop: str, store: str) -> None:
    async with serving(shop, store) as served:
        answered: list[str] = []
        broken = 0

        async def creating() -> None:
            nonlocal broken
            for _ in range(20):
                try:
                    answered.append(await create(served))
                except Exception:  # noqa: BLE001 - the SDK wraps the broken connection in groups of errors
                    broken += 1

        async def killing() -> None:
            await until(lambda: asyncio.sleep(0, len(answered)), lambda number: number > 5)
            os.kill(min(workers_of(served)), signal.SIGKILL)

        await asyncio.gather(killing(), *(creating() for _ in range(4)))
        await all_ready(served)
        assert len(answered) + broken == 80 and broken <= 8
        assert await asyncio.gather(*map(rows_of, answered)) == [40] * len(answered)


@pytest.mark.long
async def test_all_drain_at_a_signal(shop: str, store: str) -> None:
    async with serving(shop, store) as served, httpx.AsyncClient(timeout=AGES) as http:
        rows = f"{await stored(served)}/rows"
        async with AsyncExitStack() as stack:
            streams = []
            for _ in range(4):
                answer = await stack.enter_async_context(
                    http.stream("GET", f"{served.origin}{rows}", params={"format": "ndjson"})
                )
                pieces = answer.aiter_bytes()
                streams.append((await anext(pieces), pieces))
            await told_to_stop(served, http, signal.SIGTERM)
            assert await rows_of(f"{served.origin}{rows.removesuffix('/rows')}")
            for begun, pieces in streams:
                body = begun + b"".join([piece async for piece in pieces])
                assert_are_all(body.splitlines()[:-1])
        output, _ = await served.process.communicate()
    assert output.endswith(b"\nStopped.\n") and b"did not end in time" not in output, output
    assert served.process.returncode == 0


@pytest.mark.long
async def test_workers_are_replaced_without_a_request_that_fails(shop: str, store: str) -> None:
    """A stream that runs is read to its end, and pages on new connections and on open ones are answered."""
    async with serving(shop, store) as served, httpx.AsyncClient(timeout=AGES) as http:
        before, url, rows = workers_of(served), await create(served), f"{await stored(served)}/rows"
        async with http.stream("GET", f"{served.origin}{rows}", params={"format": "ndjson"}) as answer:
            pieces = answer.aiter_bytes()
            begun = await anext(pieces)
            served.process.send_signal(signal.SIGHUP)
            await until(lambda: asyncio.sleep(0, workers_of(served) - before))
            for _ in range(50):
                assert await rows_of(url) == 40
            body = begun + b"".join([piece async for piece in pieces])
        assert_are_all(body.splitlines()[:-1])
        while workers_of(served) & before:
            assert await rows_of(url) == 40
        assert "All workers were replaced." in await served.stop()


@pytest.mark.long
async def test_workers_drain_and_end_when_their_parent_is_killed(shop: str, store: str) -> None:
    async with serving(shop, store) as served, httpx.AsyncClient(timeout=AGES) as http:
        workers, rows = workers_of(served), f"{await stored(served)}/rows"
        async with http.stream("GET", f"{served.origin}{rows}", params={"format": "ndjson"}) as answer:
            pieces = answer.aiter_bytes()
            begun = await anext(pieces)
            served.process.kill()
            await served.process.wait()
            body = begun + b"".join([piece async for piece in pieces])
        assert_are_all(body.splitlines()[:-1])

        async def alive() -> list[int]:
            return [each for each in workers if is_running(each)]

        await until(alive, lambda actual: not actual)


def is_running(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return False
