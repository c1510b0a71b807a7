"""Metrics: each is exported, and says what happened."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dualsql.errors import QueryTimeoutError
from dualsql.settings import ResultCache
from dualsql.store import MemoryStore, SQLResourceStore
from dualsql.telemetry import EXPIRED, INSTRUMENTS
from tests.engines import opened
from tests.http.application import ALL, ROWS, fill, running
from tests.telemetry.exporting import exporting, until
from tests.telemetry.live import SDKS, SECRETS, SLOW, Live, live

pytestmark = pytest.mark.quick(50, "sqlite")


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_call_of_a_tool(institutions_url: str, sdk: str) -> None:
    with exporting() as exports:
        async with live(institutions_url, sdk) as server:
            for state in ("NJ", "PA", "nowhere"):
                await server.call("institutions", {"state": state})
            await server.call("broken", {})
        tools = exports.points("mcp.server.operation.duration")
        assert {(p.attributes["gen_ai.tool.name"], p.value) for p in tools} == {
            ("institutions", 3),
            ("broken", 1),
        }
        assert exports.value("dualsql.shown.rows", gen_ai__tool__name="institutions") == 40
        assert exports.value("dualsql.counts", dualsql__count="exact") == 3
        assert (
            exports.value("dualsql.errors", dualsql__surface="mcp", error__type="QUERY_EXECUTION_FAILED") == 1
        )
        assert exports.value("dualsql.stored.bytes") > 500


async def test_no_value_is_lost_or_counted_twice_while_another_thread_collects() -> None:
    with exporting() as exports:
        noted = 0
        async with asyncio.TaskGroup() as group:
            collecting = group.create_task(asyncio.to_thread(lambda: [exports.points() for _ in range(5)]))
            while not collecting.done() or noted % 32 == 0:
                EXPIRED.note(1)
                noted += 1
                await asyncio.sleep(0)
        assert exports.value("dualsql.expired") == noted


async def test_requests_by_route_and_status(institutions_url: str) -> None:
    with exporting() as exports:
        async with live(institutions_url) as server:
            path = await _path(server)
            for address in ("?limit=5", "?limit=6", "?limit=0", "/nonsense", "/rows"):
                await server.http.get(path + address)
        figures = {
            (point.attributes.get("http.route"), point.attributes["http.response.status_code"]): point.value
            for point in exports.points("http.server.request.duration")
        }
        result = "/resources/{resource_id}"
        assert figures == {(result, 200): 2, (result, 400): 1, (None, 404): 1, (f"{result}/rows", 200): 1}
        assert exports.value("dualsql.errors", error__type="BAD_PARAMETER", dualsql__surface="http") == 1
        assert exports.value("db.client.operation.duration", dualsql__database="default") >= 4


async def test_streams(sqlite_url: str) -> None:
    """Rows and bytes of a whole stream, of one that reached a limit, and of one whose reader left."""
    many = [{**ROWS[number % 60], "id": number} for number in range(40_000)]
    async with opened(sqlite_url) as engine:
        await fill(engine, many)
    with exporting() as exports:
        async with live(sqlite_url, maximum_stream_rows=30_000) as server:
            path = await _path(server)
            few = await server.http.get(
                f"{path}/rows?format=csv&limit=7", headers={"Accept-Encoding": "identity"}
            )
            # A stream is counted once its last bytes are sent, which its reader may have before.
            await until(lambda: exports.value("dualsql.streamed.rows", dualsql__format="csv") == 7)
            written = exports.value("dualsql.streamed.bytes", dualsql__format="csv")
            assert len(few.content) // 2 < written < len(few.content), "without the line of names"
            await server.http.get(f"{path}/rows?format=ndjson")
            # The slot of a stream that reached its limit is free once its statement has ended.
            await until(lambda: exports.value("dualsql.slots.used", dualsql__slot="stream") == 0)
            async with server.http.stream("GET", f"{path}/rows?format=json") as left:
                await anext(left.aiter_bytes())
                assert exports.value("dualsql.streams.running") == 1
                assert exports.value("dualsql.slots.used", dualsql__slot="stream") == 1
            await until(lambda: exports.value("dualsql.streams") == 3)
        endings = {
            (point.attributes["dualsql.format"], point.attributes.get("error.type"))
            for point in exports.points("dualsql.streams")
        }
        assert endings == {("csv", None), ("ndjson", "LIMIT_EXCEEDED"), ("json", "CALLER_GONE")}
        assert all(p.attributes["dualsql.lane"] == "sqlite_thread" for p in exports.points("dualsql.streams"))
        await until(lambda: exports.value("dualsql.statements.stopped", dualsql__reason="cancelled") >= 1)


async def test_the_queue_and_what_is_stopped(institutions_url: str) -> None:
    """One slot: a second statement waits, and both are stopped when their time is over."""
    options = {"maximum_concurrent_queries": 1, "query_timeout": timedelta(milliseconds=300)}
    with exporting() as exports:
        async with running(institutions_url, **options) as application:

            async def slow() -> None:
                with pytest.raises(QueryTimeoutError):
                    await application.create(SLOW, count="none")

            both = asyncio.gather(slow(), slow())
            await until(lambda: exports.value("dualsql.queue.depth") == 1)
            assert exports.value("dualsql.slots.used", dualsql__slot="query") == 1
            await both
            assert exports.value("dualsql.queue.depth") == 0
            [slots] = [
                p for p in exports.points("dualsql.slots.limit") if p.attributes["dualsql.slot"] == "query"
            ]
            assert slots.value == 1
        [wait] = exports.points("dualsql.queue.wait")
        assert wait.value == 1 and 0.1 < wait.sum < 10
        assert exports.value("dualsql.statements.stopped", dualsql__reason="timeout") == 2
        assert exports.value("db.client.operation.duration", error__type="STOPPED") == 2


async def test_expiry_refusals_and_pages_in_the_cache(institutions_url: str) -> None:
    options = {"gone_retention": timedelta(0), "result_cache": ResultCache(ttl=timedelta(minutes=1))}
    with exporting() as exports:
        async with running(institutions_url, **options) as application:
            path = await application.create(count="none", expiration=timedelta(milliseconds=1))
            created = datetime.now(UTC)
            kept = await application.create(count="none")
            assert (await application.http.get(f"{kept}?limit=5")).status_code == 200
            assert exports.value("dualsql.cached.bytes") > 100
            await until(lambda: datetime.now(UTC) > created + timedelta(milliseconds=1))
            assert (await application.http.get(path)).status_code == 404
            await application.server.maintenance.sweep()
        assert exports.value("dualsql.refusals") >= 1
        assert exports.value("dualsql.expired") == 1


async def test_the_store(institutions_url: str, store: SQLResourceStore) -> None:
    with exporting() as exports:
        async with running(institutions_url, store=store, secrets=SECRETS) as application:
            path = await application.create(count="none")
            await application.http.get(f"{path}?limit=5")
        assert exports.value("dualsql.store.duration", dualsql__store__operation="insert") == 1
        assert exports.value("dualsql.store.duration", dualsql__store__operation="select") >= 1


class OwnStore(MemoryStore):
    """A store of an application."""


async def test_a_store_of_an_application(institutions_url: str) -> None:
    with exporting() as exports:
        async with running(institutions_url, store=OwnStore()) as application:
            await application.create(count="none")
        assert exports.value("dualsql.store.duration", dualsql__store__operation="save") == 1


async def test_the_pool(postgresql_url: str) -> None:
    async with opened(postgresql_url) as engine:
        await fill(engine)
    with exporting() as exports:
        async with running(postgresql_url) as application:
            await application.create(count="none")
            await asyncio.gather(*application.server.parts.sources["default"].finishing)
            pools = {
                p.attributes["db.client.connection.state"]: p.value
                for p in exports.points("db.client.connection.count")
            }
            assert pools["used"] == 0 and pools["idle"] >= 1
            assert exports.value("db.client.connection.max") == 35
        assert exports.points("db.client.connection.count") == [], "the server was shut down"


async def test_two_servers_of_one_process_are_added_up(institutions_url: str) -> None:
    with exporting() as exports:
        async with running(institutions_url), running(institutions_url):
            assert exports.value("dualsql.slots.limit", dualsql__slot="stream") == 2 * 10


async def _path(server: Live) -> str:
    response = await server.dual.create_response(ALL, name="Institutions", count="none")
    return f"/resources/{response.resource_id}"


def test_the_documentation_lists_all_metrics() -> None:
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = [line for line in text.partition("### Metrics")[2].splitlines() if line.startswith("| `")]
    actual = {name for row in rows for name in re.findall(r"`([a-z.]+)`", row.split("|")[1])}
    assert actual == {instrument.name for instrument in INSTRUMENTS}
