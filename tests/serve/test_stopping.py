"""`dualsql serve` is told to stop while a stream is read: a process, real signals, real sockets."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from mcp import Client

from dualsql.store import upgrade
from tests.serve.conftest import Serving, serving_process
from tests.waiting import until

SECRET = "a secret of at least thirty-two characters"
ROWS = 1000 * 300
# More bytes than the sockets hold, where they are not compressed: the stream cannot end before its reader goes on.
MANY = """
SELECT one.id AS one, two.id AS two, 'text that fills the buffers' AS filling
FROM parts AS one JOIN parts AS two ON two.id <= 300 ORDER BY one.id, two.id
"""
WHOLE: dict[str, Any] = {"params": {"format": "ndjson"}, "headers": {"Accept-Encoding": "identity"}}


@asynccontextmanager
async def serving(shop: str, store: str) -> AsyncIterator[Serving]:
    async with serving_process(
        "--database", shop, "--all", "--admin-port", "0", "--metrics",
        DUALSQL_STORE=store, DUALSQL_SECRET=SECRET,
    ) as served:  # fmt: skip
        yield served


@pytest.fixture
def store(tmp_path: Path) -> str:
    (tmp_path / "store.sqlite").touch()
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    upgrade(url)
    return url


async def stored(served: Serving, query: str = MANY) -> str:
    """The path of a new result, by default with ROWS rows."""
    async with Client(f"{served.origin}/mcp") as model:
        result = await model.call_tool("execute_query", {"query": query})
    path = re.search(r"/resources/[\w-]+", result.model_dump_json())
    assert path, result
    return path[0]


async def told_to_stop(served: Serving, http: httpx.AsyncClient, how: signal.Signals) -> None:
    """Send the signal, and wait until it is heeded."""
    assert (await http.get(f"{served.admin}/ready")).status_code == 200
    served.process.send_signal(how)
    while (ready := await http.get(f"{served.admin}/ready")).status_code == 200:
        pass
    assert ready.json()["parts"]["server"] == "draining"


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_a_second_signal_ends_streams_with_a_record_that_another_process_goes_on_from(
    shop: str, store: str, how: signal.Signals
) -> None:
    async with asyncio.timeout(120), httpx.AsyncClient(timeout=60) as http:
        async with serving(shop, store) as served:
            rows = f"{await stored(served)}/rows"
            async with http.stream("GET", f"{served.origin}{rows}", **WHOLE) as answer:
                pieces = answer.aiter_bytes()
                begun = await anext(pieces)
                await told_to_stop(served, http, how)
                refused = await http.get(f"{served.origin}{rows}")
                assert (refused.status_code, refused.json()["code"]) == (503, "SERVER_UNAVAILABLE")
                page = await http.get(f"{served.origin}{rows.removesuffix('/rows')}", params={"limit": 1})
                assert page.status_code == 200
                served.process.send_signal(how)
                body = begun + b"".join([piece async for piece in pieces])
            output, _ = await served.process.communicate()
            assert output.decode().endswith("\nStopped.\n") and b"Traceback" not in output, output.decode()
            assert served.process.returncode == 0
        *lines, last = body.splitlines()
        end = orjson.loads(last)
        assert end["$problem"]["code"] == "SERVER_UNAVAILABLE", last
        async with serving(shop, store) as other:
            wanted: dict[str, Any] = {"resume": answer.headers["dualsql-resume"], "after": len(lines)}
            rest = (await http.get(f"{other.origin}{rows}", params=wanted)).content.splitlines()
    assert orjson.loads(rest[-1])["$summary"]["complete"] is True
    assert_are_all([*lines, *rest[:-1]])


@pytest.mark.long
async def test_after_one_signal_a_stream_that_is_read_ends_complete(shop: str, store: str) -> None:
    async with asyncio.timeout(120), httpx.AsyncClient(timeout=60) as http, serving(shop, store) as served:
        rows = f"{await stored(served)}/rows"
        async with http.stream("GET", f"{served.origin}{rows}", **WHOLE) as answer:
            pieces = answer.aiter_bytes()
            begun = await anext(pieces)
            await told_to_stop(served, http, signal.SIGTERM)
            body = begun + b"".join([piece async for piece in pieces])
        output, _ = await served.process.communicate()
    assert "did not end in time" not in output.decode() and output.endswith(b"\nStopped.\n")
    assert_are_all(body.splitlines()[:-1])


@pytest.mark.long
async def test_a_page_that_takes_too_long_is_answered_before_the_server_ends(shop: str, store: str) -> None:
    async with asyncio.timeout(120), httpx.AsyncClient(timeout=60) as http, serving(shop, store) as served:
        result = await stored(served, "SELECT a.price + b.price AS price FROM parts a, parts b, parts c")
        page = asyncio.create_task(http.get(f"{served.origin}{result}", params={"sort": "-price"}))
        running = re.compile(r'^dualsql_slots_used\{.*dualsql_slot="query".*\} 1', re.MULTILINE)
        await until(lambda: http.get(f"{served.admin}/metrics"), lambda answer: running.search(answer.text))
        for _ in range(2):  # the second one ends the drain
            served.process.send_signal(signal.SIGTERM)
        answer = await page
        output, _ = await served.process.communicate()
    assert (answer.status_code, answer.json()["code"]) == (503, "SERVER_UNAVAILABLE"), answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert b"Traceback" not in output and output.endswith(b"\nStopped.\n"), output.decode()


def assert_are_all(lines: Sequence[bytes]) -> None:
    """Each row once, and in order."""
    assert len(lines) == ROWS
    actual = ((row["one"], row["two"]) for row in map(orjson.loads, lines))
    expected = ((one, two) for one in range(1, 1001) for two in range(1, 301))
    assert all(row == wanted for row, wanted in zip(actual, expected, strict=True))
