"""What telemetry costs in pages a second: `python -m benchmarks.telemetry`. Exits with 1 when a limit does not hold.

One process and one server; rounds of all settings in turns, so that each is compared with its neighbours on a machine
that others use too. A page of 100 rows is asked for over the ASGI interface: without the cost of a HTTP server, which
makes the shares greater than a caller sees. CPU seconds count. A turn ends with an export, of which each of its pages
has its share.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import quantiles
from time import process_time
from unittest.mock import patch

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from sqlalchemy import Column, Float, Integer, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message, Receive, Scope, Send

from dualsql import DualResponseServer
from dualsql.events import UNMEASURED
from dualsql.request_log import RequestLog
from dualsql.store import protocol
from dualsql.telemetry import TELEMETRY

BASE_URL = "http://127.0.0.1:8000/resources"
ROWS, PAGE = 10_000, 100
PAGES, ROUNDS = 20, 60
LIMITS = {"spans of every request": 0.25, "spans of one request in 100": 0.06}
"""The most of the pages a second that may be lost."""

FLIGHTS = Table(
    "flights",
    MetaData(),
    Column("id", Integer, primary_key=True),
    *(Column(f"place_{number}", String(3)) for number in range(4)),
    *(Column(f"delay_{number}", Integer) for number in range(4)),
    *(Column(f"distance_{number}", Float) for number in range(2)),
)


class Nowhere(SpanExporter):
    """Takes spans, and drops them: what a collector costs is not measured."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See SpanExporter."""
        return SpanExportResult.SUCCESS


def tracers(share: float) -> TracerProvider:
    """A provider that samples so many of all requests, and exports in batches."""
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)))
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return provider


def meters() -> MeterProvider:
    """A provider of metrics, which are never collected."""
    return MeterProvider([InMemoryMetricReader()])


@contextmanager
def providers(spans: TracerProvider | None = None, metrics: MeterProvider | None = None) -> Iterator[None]:
    """Measure with these providers in the block, and export its spans at its end."""
    if spans is not None or metrics is not None:
        TELEMETRY.start(tracer_provider=spans, meter_provider=metrics)
    yield
    if spans is not None:
        spans.force_flush()
    TELEMETRY.stop()


@contextmanager
def without_code() -> Iterator[None]:
    """Answer requests in the block without the code that asks whether there is a provider."""

    async def answer(self: RequestLog, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    with (
        patch.object(RequestLog, "_answer", answer),
        patch.object(protocol, "store_operation", lambda _: UNMEASURED),
    ):
        yield


def settings() -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """What is compared, the first with each other one."""
    every, few, metrics = tracers(1.0), tracers(0.01), meters()
    return {
        "no provider": providers,
        "no code for telemetry": without_code,
        "spans of every request": partial(providers, every),
        "spans of one request in 100": partial(providers, few),
        "metrics": partial(providers, metrics=metrics),
        "spans of one request in 100, and metrics": partial(providers, few, metrics),
        "spans of every request, and metrics": partial(providers, every, metrics),
    }


async def ask(app: Starlette, path: str) -> int:
    """The status of a page."""
    status = 0

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"limit=%d&offset=5000" % PAGE, "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8000")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
    }  # fmt: skip
    await app(scope, receive, send)
    return status


async def measure(app: Starlette, path: str) -> dict[str, list[float]]:
    """CPU seconds of each page, by setting."""
    compared = settings()
    costs: dict[str, list[float]] = {name: [] for name in compared}
    turns, shuffled = list(compared.items()), Random(1)
    for _ in range(ROUNDS):
        shuffled.shuffle(turns)  # What a setting leaves in caches falls on each other one.
        for name, setting in turns:
            gc.collect()
            with setting():
                await ask(app, path)
                times = [process_time()]
                for _ in range(PAGES):
                    assert await ask(app, path) == 200
                    times.append(process_time())
            export = (process_time() - times[-1]) / PAGES
            costs[name] += [export + end - start for start, end in pairwise(times)]
    return costs


async def main() -> int:
    """Print what each setting costs."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite+aiosqlite:///{Path(folder) / 'flights.sqlite'}"
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(FLIGHTS.metadata.create_all)
            rows = [
                {column.name: "EWR" if column.name.startswith("place") else number for column in FLIGHTS.c}
                for number in range(ROWS)
            ]
            await connection.execute(insert(FLIGHTS), rows)
        await engine.dispose()
        async with DualResponseServer(url, base_url=BASE_URL, tables=FLIGHTS.metadata) as dual:
            app = Starlette(routes=[Mount("/resources", dual.router())])
            response = await dual.create_response(select(FLIGHTS), name="Flights", count="none")
            times = await measure(app, f"/resources/{response.resource_id}")
    return report(times)


def report(times: dict[str, list[float]]) -> int:
    """Print a line for each setting; 1 if a limit does not hold."""
    # The first quartile: what others on the machine do makes some pages slower, of each setting other ones.
    [(_, alone), *others] = [(name, quantiles(seconds, n=4)[0]) for name, seconds in times.items()]
    print(f"no provider: {alone * 1e6:.0f} us of CPU for a page of {PAGE} rows")
    missed = False
    for name, seconds in others:
        lost = 1 - alone / seconds  # pages a second are the inverse of seconds for a page
        limit = LIMITS.get(name)
        missed |= limit is not None and lost > limit
        print(f"{name}: {lost:.1%} fewer pages a second{'' if limit is None else f' (at most {limit:.0%})'}")
    return int(missed)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(main()))
