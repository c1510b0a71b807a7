"""What telemetry costs in pages a second: `python -m benchmarks.telemetry`. Exits with 1 when a limit does not hold.

One process and one server; rounds of all settings in turns, so that each is compared with its neighbours on a machine
that others use too. A page of 100 rows is asked for over the ASGI interface: without the cost of a HTTP server, which
makes the shares greater than a caller sees. CPU seconds count, those of the exporting thread included.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import process_time

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from sqlalchemy import Column, Float, Integer, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message

from dualsql import DualResponseServer
from dualsql.log.telemetry import TELEMETRY

BASE_URL = "http://127.0.0.1:8000/resources"
ROWS, PAGE = 10_000, 100
PAGES, ROUNDS = 40, 15
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


def settings() -> dict[str, Callable[[], object]]:
    """What is compared, the first with each other one."""
    every, few = tracers(1.0), tracers(0.01)
    metrics = meters()
    return {
        "no provider": TELEMETRY.stop,
        "spans of every request": lambda: TELEMETRY.start(tracer_provider=every),
        "spans of one request in 100": lambda: TELEMETRY.start(tracer_provider=few),
        "metrics": lambda: TELEMETRY.start(meter_provider=metrics),
        "spans of one request in 100, and metrics": lambda: TELEMETRY.start(
            tracer_provider=few, meter_provider=metrics
        ),
        "spans of every request, and metrics": lambda: TELEMETRY.start(
            tracer_provider=every, meter_provider=metrics
        ),
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
    """CPU seconds of a page in each round, by setting."""
    compared = settings()
    found: dict[str, list[float]] = {name: [] for name in compared}
    for _ in range(ROUNDS):
        for name, begin in compared.items():
            TELEMETRY.stop()
            begin()
            started = process_time()
            for _ in range(PAGES):
                assert await ask(app, path) == 200
            found[name].append((process_time() - started) / PAGES)
    TELEMETRY.stop()
    return found


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
            found = await measure(app, f"/resources/{response.resource_id}")
    return report(found)


def report(found: dict[str, list[float]]) -> int:
    """Print a line for each setting; 1 if a limit does not hold."""
    [(_, alone), *others] = found.items()
    print(f"no provider: {median(alone) * 1e6:.0f} us of CPU for a page of {PAGE} rows")
    missed = False
    for name, seconds in others:
        # Pages a second are the inverse of seconds for a page: of each round, then the median.
        lost = median(1 - base / taken for base, taken in zip(alone, seconds, strict=True))
        limit = LIMITS.get(name)
        missed |= limit is not None and lost > limit
        print(f"{name}: {lost:.1%} fewer pages a second{'' if limit is None else f' (at most {limit:.0%})'}")
    return int(missed)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(main()))
