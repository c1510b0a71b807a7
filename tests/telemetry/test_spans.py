"""Spans: which there are, whose children they are, and how few."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta

import pytest
from mcp import Client
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from sqlalchemy import Column, Integer, MetaData, Table, select

from dualsql.errors import QueryTimeoutError
from dualsql.store import SQLResourceStore
from dualsql.telemetry import ATTRIBUTES, MOST_SPANS, TELEMETRY
from tests.engines import opened
from tests.http.application import ALL, INSTITUTIONS, ROWS, fill, running
from tests.telemetry.exporting import Exports, exporting
from tests.telemetry.live import CALLER, SDKS, SECRETS, SLOW, TRACE, TRACEPARENT, live

pytestmark = pytest.mark.quick(50, "sqlite")


def tree(exports: Exports) -> dict[str, list[str]]:
    """The names of the children of each span; of spans without a parent here under the parent's id, or "" ."""
    names = {span.context.span_id: span.name for span in exports.all_spans}
    found: dict[str, list[str]] = {}
    for span in sorted(exports.all_spans, key=lambda span: span.start_time or 0):
        parent = "" if span.parent is None else names.get(span.parent.span_id, f"{span.parent.span_id:016x}")
        found.setdefault(parent, []).append(span.name)
    return found


def trace_ids(spans: list[ReadableSpan]) -> set[str]:
    return {f"{span.context.trace_id:032x}" for span in spans}


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_call_of_a_tool_is_one_trace_with_the_span_of_the_sdk(
    institutions_url: str, store: SQLResourceStore, sdk: str
) -> None:
    """The parent is the one that `_meta` names; creating and its statements are below the SDK's own span."""
    with exporting(of_process=True) as exports:
        async with live(institutions_url, sdk, store=store, secrets=SECRETS) as server:
            result = await server.call("institutions", {"state": "NJ"}, meta=TRACEPARENT)
            assert not result.get("isError"), result
        spans = tree(exports)
        assert trace_ids(exports.spans) == {TRACE}
    assert spans[CALLER] == ["tools/call institutions"]
    assert spans["tools/call institutions"] == ["dualsql create"]
    assert set(spans["dualsql create"]) == {"SELECT", "store insert"}, (
        "and a count beside, where it takes long"
    )


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_failed_call_says_its_code(institutions_url: str, sdk: str) -> None:
    with exporting(of_process=True) as exports:
        async with live(institutions_url, sdk) as server:
            result = await server.call("broken", {})
            assert result["isError"]
        span = exports.named("tools/call broken")
        assert span.attributes is not None
        assert span.status.status_code.name == "ERROR"
        assert exports.value("dualsql.errors", dualsql__surface="mcp") == 1
        [duration] = exports.points("mcp.server.operation.duration")
        assert (
            duration.attributes["error.type"] == exports.points("dualsql.errors")[0].attributes["error.type"]
        )


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_trace_of_the_header_goes_on_where_meta_has_none(institutions_url: str, sdk: str) -> None:
    other = TRACEPARENT.replace(TRACE, "f" * 32)
    with exporting(of_process=True) as exports:
        async with live(institutions_url, sdk) as server:
            for headers in ({"traceparent": TRACEPARENT}, {"meta": TRACEPARENT, "traceparent": other}):
                exports.clear()
                await server.call("institutions", {"state": "NJ"}, **headers)
                spans = {
                    span.name: span for span in exports.all_spans if span.context.trace_id == int(TRACE, 16)
                }
                assert {"tools/call institutions", "dualsql create", "SELECT"} <= spans.keys()
                parent = spans["tools/call institutions"].parent
                assert parent is not None and parent.span_id == int(CALLER, 16)
                assert not [span for span in exports.all_spans if span.context.trace_id == int("f" * 32, 16)]


async def test_each_part_of_a_request_has_its_span(institutions_url: str, store: SQLResourceStore) -> None:
    """A page, a stream, a question: one trace each, from the caller's `traceparent` to the statement."""
    with exporting() as exports:
        async with live(institutions_url, store=store, secrets=SECRETS) as server:
            response = await server.dual.create_response(ALL, name="Institutions", count="none")
            path, headers = f"/resources/{response.resource_id}", {"traceparent": TRACEPARENT}
            route = "/resources/{resource_id}"
            for name, method, address, body in (
                ("page", "GET", "?limit=5", None),
                ("stream", "GET", "/rows", None),
                ("question", "POST", "/query", {"group_by": ["state"], "aggregates": ["count"]}),
            ):
                exports.clear()
                answer = await server.http.request(method, path + address, json=body, headers=headers)
                assert answer.status_code == 200, answer.text
                request = f"{method} {route}{address.partition('?')[0]}"
                assert tree(exports) == {
                    CALLER: [request],
                    request: ["store select", f"dualsql {name}"],
                    f"dualsql {name}": ["SELECT"],
                }
                assert trace_ids(exports.all_spans) == {TRACE}
                span = exports.named(request)
                assert span.kind.name == "SERVER" and exports.named("SELECT").kind.name == "CLIENT"


async def test_attributes_are_those_of_the_conventions(institutions_url: str) -> None:
    with exporting() as exports:
        async with live(institutions_url) as server:
            response = await server.dual.create_response(ALL, name="Institutions", count="none")
            exports.clear()
            await server.http.get(f"/resources/{response.resource_id}?limit=5")
        request, statement = exports.named("GET /resources/{resource_id}"), exports.named("SELECT")
        assert request.attributes == {
            "http.request.method": "GET",
            "http.route": "/resources/{resource_id}",
            "http.response.status_code": 200,
            "url.scheme": "http",
            "network.protocol.version": "1.1",
        }
        attributes = dict(statement.attributes or {})
        assert len(str(attributes.pop("dualsql.statement"))) == 16
        assert attributes == {
            "db.system.name": institutions_url.partition("+")[0],
            "db.operation.name": "SELECT",
            "db.response.returned_rows": 6,
            "dualsql.database": "default",
        }
        known = {name for span in exports.spans for name in span.attributes or {}}
        assert known <= ATTRIBUTES.keys()


async def test_a_statement_has_one_fingerprint_for_all_values(institutions_url: str) -> None:
    async def fingerprint(state: str) -> object:
        exports.clear()
        wanted = select(INSTITUTIONS).where(INSTITUTIONS.c.state == state)
        path = await application.create(wanted, count="none")
        exports.clear()
        await application.http.get(f"{path}?limit=5")
        return (exports.named("SELECT").attributes or {})["dualsql.statement"]

    with exporting() as exports:
        async with running(institutions_url) as application:
            assert await fingerprint("NJ") == await fingerprint("PA")


async def test_a_request_has_at_most_five_spans_and_a_stream_none_for_a_chunk(sqlite_url: str) -> None:
    """A stream of twenty chunks; a profile, which runs many statements; the dearest kinds of requests."""
    many = [{**ROWS[number % 60], "id": number} for number in range(20_000)]
    async with opened(sqlite_url) as engine:
        await fill(engine, many)
    with exporting() as exports:
        async with live(sqlite_url) as server:
            response = await server.dual.create_response(ALL, name="Institutions", profile="full")
            path = f"/resources/{response.resource_id}"
            for address, least in (("/rows?format=csv", 3), ("/profile?kind=full", 2), ("?count=exact", 1)):
                exports.clear()
                answer = await server.http.get(path + address)
                assert answer.status_code == 200
                assert least <= len(exports.spans) <= MOST_SPANS, [span.name for span in exports.spans]
            statements = exports.value("db.client.operation.duration")
    assert statements > 2 * MOST_SPANS, "every statement is in the metrics"


@pytest.mark.long
@pytest.mark.parametrize("sdk", SDKS)
async def test_a_call_that_makes_several_results_has_at_most_five_spans_too(
    institutions_url: str, sdk: str
) -> None:
    with exporting(of_process=True) as exports:
        async with live(institutions_url, sdk) as server:
            await server.call("several", {})
        assert len(exports.spans) == MOST_SPANS, [span.name for span in exports.spans]


async def test_background_work_has_no_span_of_the_request_that_started_it(
    institutions_url: str, store: SQLResourceStore
) -> None:
    """Access counts are written in the background: that is no part of the first request."""
    with exporting() as exports:
        async with running(institutions_url, store=store, secrets=SECRETS) as application:
            path = await application.create(count="none")
            await application.http.get(f"{path}?limit=5")
        assert "store update" not in [span.name for span in exports.spans]
        assert exports.value("dualsql.store.duration", dualsql__store__operation="update") > 0


async def test_an_unsampled_request_has_metrics_only(institutions_url: str) -> None:
    with exporting(sampler=ALWAYS_OFF) as exports:
        async with running(institutions_url) as application:
            path = await application.create(count="none")
            await application.http.get(f"{path}?limit=5")
        assert exports.all_spans == []
        assert exports.value("http.server.request.duration") == 1


async def test_a_failure_is_told_by_its_code_alone(institutions_url: str) -> None:
    """A caller's mistake is no failure of the server; a timeout is."""
    with exporting() as exports:
        async with running(institutions_url, query_timeout=timedelta(milliseconds=300)) as application:
            with pytest.raises(QueryTimeoutError):
                await application.create(SLOW, count="none")
            await application.http.get("/resources/unknown?limit=5")
        create, request = exports.named("dualsql create"), exports.named("GET /resources/{resource_id}")
        assert (create.attributes or {})["error.type"] == "QUERY_TIMEOUT"
        assert create.status.status_code.name == "ERROR" and create.status.description is None
        assert request.status.status_code.name == "UNSET"
        assert all(span.events == () for span in exports.spans)
        assert exports.value("dualsql.errors", error__type="RESOURCE_NOT_FOUND") == 1
        assert exports.value("dualsql.refusals", dualsql__reason="unknown") == 1


BLOCKED = """
import asyncio, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ImportError(name)
sys.meta_path.insert(0, Blocker())
from sqlalchemy import MetaData, Table, Column, Integer, select
from dualsql import DualResponseServer
from dualsql.telemetry import TELEMETRY
numbers = Table("numbers", MetaData(), Column("n", Integer, primary_key=True))
async def main():
    url = "http://127.0.0.1:8000/resources"
    async with DualResponseServer(sys.argv[1], base_url=url, tables=numbers.metadata) as dual:
        await dual.create_response(select(numbers), name="Numbers")
    assert not TELEMETRY.is_on
    assert not [name for name in sys.modules if name.startswith("opentelemetry")]
asyncio.run(main())
"""


@pytest.mark.long
async def test_without_the_package_nothing_is_imported_or_measured(sqlite_url: str) -> None:
    numbers = Table("numbers", MetaData(), Column("n", Integer, primary_key=True))
    async with opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(numbers.metadata.create_all)
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", BLOCKED, sqlite_url], check=True)


def test_without_a_provider_nothing_is_measured() -> None:
    """The package is there, since the MCP SDKs require it. A process of its own: other tests set a provider."""
    program = (
        "from dualsql.telemetry import TELEMETRY; assert not TELEMETRY.start(); assert not TELEMETRY.is_on"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert not TELEMETRY.is_on


@pytest.mark.long
@pytest.mark.parametrize("sdk", SDKS)
async def test_an_official_client_is_the_parent(institutions_url: str, sdk: str) -> None:
    """The client of the SDK sends the trace of the application in which it runs."""
    with exporting(of_process=True) as exports:
        async with live(institutions_url, sdk) as server, Client(f"{server.origin}/mcp") as model:
            await model.call_tool("institutions", {"state": "NJ"})
        assert "tools/call institutions" in tree(exports)["MCP send tools/call institutions"]
