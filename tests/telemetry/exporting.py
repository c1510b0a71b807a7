"""What the real SDK exports while the real server answers under uvicorn: spans and metrics, kept in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Sampler
from opentelemetry.trace import (
    NoOpTracerProvider,
    Span,
    Tracer,
    TracerProvider as APITracerProvider,
    set_tracer_provider,
)
from starlette.types import ASGIApp

from dualsql.events import EVENTS
from dualsql.telemetry import SCOPE, TELEMETRY
from tests.client.hosting import listening_socket, origin_of, serving


@dataclass(frozen=True)
class Point:
    """A value of a metric: a number, or of a histogram how many there were and their sum."""

    metric: str
    attributes: Mapping[str, Any]
    value: float
    sum: float = 0.0


class Exports:
    """All that was exported."""

    def __init__(self, spans: InMemorySpanExporter, metrics: InMemoryMetricReader) -> None:
        self._spans = spans
        self._metrics = metrics

    def clear(self) -> None:
        """Forget the spans."""
        self._spans.clear()

    @property
    def all_spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those of dualsql, in the order in which they ended."""
        return [span for span in self.all_spans if _scope(span) == SCOPE]

    def named(self, name: str) -> ReadableSpan:
        """The only span with this name."""
        [found] = [span for span in self.all_spans if span.name == name]
        return found

    def points(self, metric: str | None = None) -> list[Point]:
        """The values of a metric, or of all."""
        data = self._metrics.get_metrics_data()
        if data is None:
            return []
        return [
            Point(
                each.name,
                dict(point.attributes or {}),
                float(getattr(point, "value", getattr(point, "count", 0))),
                getattr(point, "sum", 0.0),
            )
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for each in scope.metrics
            for point in each.data.data_points
            if metric is None or each.name == metric
        ]

    def value(self, metric: str, **attributes: object) -> float:
        """The sum of the values with these attributes, whose names are written with _ for the points."""
        wanted = {name.replace("__", "."): value for name, value in attributes.items()}
        return sum(p.value for p in self.points(metric) if wanted.items() <= p.attributes.items())

    def text(self) -> str:
        """Everything, as a collector gets it: names, attributes, states, events, links and descriptions."""
        return json.dumps([json.loads(span.to_json()) for span in self.all_spans]) + self.metrics_text()

    def metrics_text(self) -> str:
        """All metrics, as a collector gets them."""
        data = self._metrics.get_metrics_data()
        return "" if data is None else data.to_json()


def _scope(span: ReadableSpan) -> str:
    assert span.instrumentation_scope is not None
    return span.instrumentation_scope.name


class ProviderOfProcess(APITracerProvider):
    """The provider that the MCP SDKs use. It can be set once only, so other tests must not notice that it is there.

    Attributes:
        used: the tracers of the present block; outside of one, spans are those of no provider.
    """

    # Of the API itself, as a process without a provider has it: dualsql does not measure with it.
    __module__ = "opentelemetry.trace"

    def __init__(self) -> None:
        self.used: APITracerProvider = NoOpTracerProvider()

    def get_tracer(self, *args: Any, **options: Any) -> Tracer:
        """See TracerProvider."""
        return TracerOfProcess(self, args, options)


class TracerOfProcess(Tracer):
    """A tracer of the provider that is used at present."""

    def __init__(self, provider: ProviderOfProcess, args: Any, options: Any) -> None:
        self._provider, self._asked = provider, (args, options)

    def _present(self) -> Tracer:
        args, options = self._asked
        return self._provider.used.get_tracer(*args, **options)

    def start_span(self, *args: Any, **options: Any) -> Span:
        """See Tracer."""
        return self._present().start_span(*args, **options)

    def start_as_current_span(self, *args: Any, **options: Any) -> Any:
        """See Tracer."""
        return self._present().start_as_current_span(*args, **options)


@cache
def provider_of_process() -> ProviderOfProcess:
    """The provider, which is set at its first use."""
    provider = ProviderOfProcess()
    set_tracer_provider(provider)
    return provider


@contextmanager
def exporting(*, sampler: Sampler = DEFAULT_ON, of_process: bool = False) -> Iterator[Exports]:
    """Measure with providers of this block.

    Args:
        of_process: with the provider of the process, so that the spans of the MCP SDKs are there too.
    """
    reader = InMemoryMetricReader()
    readers: list[MetricReader] = [reader]
    meters = MeterProvider(readers)
    spans, tracers = InMemorySpanExporter(), TracerProvider(sampler=sampler)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    if of_process:
        provider_of_process().used = tracers
    # Servers that other tests of the process have running are not measured.
    others, EVENTS._watched = EVENTS._watched, set()
    TELEMETRY.start(tracer_provider=tracers, meter_provider=meters)
    try:
        yield Exports(spans, reader)
    finally:
        TELEMETRY.stop()
        EVENTS._watched = others
        meters.shutdown()
        if of_process:
            provider_of_process().used = NoOpTracerProvider()


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The application under uvicorn on a free port of loopback, and its origin."""
    with listening_socket() as listening:
        async with serving(app, listening):
            yield origin_of(listening)


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something that they do has happened."""
    async with asyncio.timeout(20):
        while True:
            if condition():
                return
            await asyncio.sleep(0)
