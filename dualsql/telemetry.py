"""Spans and metrics by OpenTelemetry: which ones there are, and how the events of the process become them.

`TELEMETRY.start` takes the providers of the process and listens to `dualsql.events`. Without a provider nothing is
measured, and OpenTelemetry is not even imported.

What is exported comes from the program and never from a request: names are fixed or chosen by the developer, attributes
are those of ATTRIBUTES, an error has its code, a statement a hash. Exceptions are never recorded, because
their messages may hold data.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dualsql import events
from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.events import ERROR, EVENTS, Attributes, Event, Gauge, WorkKind
from dualsql.feature import Feature

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider, Observation
    from opentelemetry.trace import Span, Tracer, TracerProvider
    from prometheus_client.registry import Collector

Sink = Callable[[float, Attributes | None, Any], None]
"""Takes a value, its attributes, and the context in which it was measured."""

SCOPE = "dualsql"
"""The instrumentation scope of all spans and metrics."""

_OTHER = "_OTHER"
"""What the conventions call an error, or a method, that is none of the known ones."""

ATTRIBUTES: Mapping[str, str] = {
    # https://opentelemetry.io/docs/specs/semconv/http/ (stable)
    "http.request.method": "one of the methods of HTTP, or _OTHER",
    "http.route": "the path with placeholders; absent for a path that no route has",
    "http.response.status_code": "the status",
    "network.protocol.version": "the version of HTTP",
    "url.scheme": "http or https",
    # https://opentelemetry.io/docs/specs/semconv/db/sql/ (stable)
    "db.system.name": "SQLAlchemy's name of the database system",
    "db.operation.name": "SELECT: no other statement runs on your databases",
    "db.response.returned_rows": "rows that the statement returned",
    "db.client.connection.pool.name": "the name of the database in `databases=`",
    "db.client.connection.state": "used or idle",
    # https://github.com/open-telemetry/semantic-conventions-genai, model/mcp (development)
    "mcp.method.name": "tools/call",
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "the name of the tool",
    # https://opentelemetry.io/docs/specs/semconv/registry/attributes/error/ (stable)
    ERROR: "an error code of dualsql, a class of database errors, CANCELLED or _OTHER",
    "dualsql.database": "the name of the database in `databases=`",
    "dualsql.statement": "a hash of the SQL text with placeholders, the same for all values",
    "dualsql.rows": "rows of a stream that were sent",
    "dualsql.bytes": "bytes of these rows, before compression",
    "dualsql.count": "exact, estimated, capped or none",
    "dualsql.format": "the format of a stream",
    "dualsql.lane": "what read the rows: see docs/decisions/0008",
    "dualsql.slot": "query, stream or background: which of the limits of a database",
    "dualsql.reason": "why a statement was stopped, or a caller refused",
    "dualsql.store.operation": "what the store does: insert, select, update, delete, or the name of its method",
    "dualsql.surface": "http or mcp",
    "dualsql.cause": "caller, database, store or server; none for a result that was created",
    "dualsql.work": "what was done in the background, in fixed words",
    "dualsql.part": "server, store, or database and its name",
}
"""All attributes, and what they say."""


class Instrument(NamedTuple):
    """A metric. Gauges and balances are read when metrics are collected; see `GAUGES`.

    A balance is a gauge that the conventions call an up-down counter: the sum over processes means something.
    """

    kind: Literal["counter", "histogram", "gauge", "balance"]
    name: str
    unit: str
    description: str
    buckets: tuple[float, ...] = ()

    def note(self, amount: float, attributes: Attributes | None = None) -> None:
        """Add to the counter, or record a value of the histogram, if there is a provider."""
        sink = TELEMETRY.sinks.get(self.name)
        if sink is not None:
            TELEMETRY.keep(sink, amount, attributes)


_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# These are the bounds that the conventions prescribe.
_OF_HTTP = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_OF_DATABASES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
_OF_MCP = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

REQUEST_DURATION = Instrument(
    "histogram",
    "http.server.request.duration",
    "s",
    "Duration of REST requests, streams to their end.",
    _OF_HTTP,
)
TOOL_DURATION = Instrument(
    "histogram", "mcp.server.operation.duration", "s", "Duration of calls of tools.", _OF_MCP
)
STATEMENT_DURATION = Instrument(
    "histogram", "db.client.operation.duration", "s",
    "Duration of statements, without the wait for a slot; of a stream, to its last row.", _OF_DATABASES,
)  # fmt: skip
STORE_DURATION = Instrument(
    "histogram", "dualsql.store.duration", "s", "Duration of operations of the resource store.", _FAST
)
QUEUE_WAIT = Instrument(
    "histogram", "dualsql.queue.wait", "s", "How long statements waited for a slot, those that waited.", _FAST
)
ERRORS = Instrument("counter", "dualsql.errors", "{error}", "Answers with an error, by code.")
REFUSALS = Instrument(
    "counter", "dualsql.refusals", "{refusal}", "Callers who were refused a result, by reason."
)
STOPPED = Instrument(
    "counter", "dualsql.statements.stopped", "{statement}",
    "Statements that were stopped: by a time limit, or because nobody waited any longer.",
)  # fmt: skip
STREAMS = Instrument("counter", "dualsql.streams", "{stream}", "Streams that ended, by how and why.")
STREAMED_ROWS = Instrument("counter", "dualsql.streamed.rows", "{row}", "Rows sent in streams.")
STREAMED_BYTES = Instrument(
    "counter", "dualsql.streamed.bytes", "By", "Bytes of streams, before compression."
)
COUNTS = Instrument("counter", "dualsql.counts", "{count}", "Totals of new results, by kind.")
SHOWN_ROWS = Instrument("counter", "dualsql.shown.rows", "{row}", "Rows shown to models.")
STORED_BYTES = Instrument("counter", "dualsql.stored.bytes", "By", "Bytes of new results in the store.")
EXPIRED = Instrument("counter", "dualsql.expired", "{result}", "Expired results that were deleted.")
QUEUED = Instrument("gauge", "dualsql.queue.depth", "{statement}", "Statements that wait for a slot.")
SLOTS_USED = Instrument("gauge", "dualsql.slots.used", "{slot}", "Slots of statements in use.")
SLOTS = Instrument("gauge", "dualsql.slots.limit", "{slot}", "Slots of statements.")
CONNECTIONS = Instrument(
    "balance", "db.client.connection.count", "{connection}", "Connections of the pool, by state."
)
MOST_CONNECTIONS = Instrument(
    "balance", "db.client.connection.max", "{connection}", "The most connections that the pool opens."
)
RUNNING_STREAMS = Instrument("gauge", "dualsql.streams.running", "{stream}", "Streams that are being read.")
PENDING = Instrument("gauge", "dualsql.pending", "{query}", "Slow queries that run in the background.")
CACHED_BYTES = Instrument("gauge", "dualsql.cached.bytes", "By", "Bytes of pages in the result cache.")
KEPT_BYTES = Instrument(
    "gauge", "dualsql.kept.bytes", "By", "Bytes of kept results, as they were last listed."
)

KEPT_FREE = Instrument(
    "gauge", "dualsql.kept.free", "By", "Bytes that are free where kept results are written."
)
READY = Instrument(
    "gauge", "dualsql.ready", "1", "1 for a part that was ready at the last check of /ready, else 0."
)
CREATIONS = Instrument(
    "counter", "dualsql.creations", "{result}", "Results that were to be created, by the cause of a failure."
)
BACKGROUND = Instrument(
    "counter", "dualsql.background.failures", "{failure}", "Failures of work in the background, by work."
)

INSTRUMENTS = tuple(value for value in list(globals().values()) if isinstance(value, Instrument))
"""All metrics."""


GAUGES: Mapping[Gauge, Instrument] = {
    "queued": QUEUED,
    "slots_used": SLOTS_USED,
    "slots": SLOTS,
    "connections": CONNECTIONS,
    "maximum_connections": MOST_CONNECTIONS,
    "streams": RUNNING_STREAMS,
    "pending": PENDING,
    "cached_bytes": CACHED_BYTES,
    "kept_bytes": KEPT_BYTES,
    "kept_free": KEPT_FREE,
    "ready": READY,
}
"""The metric of each reading."""


def _note_stream(event: events.StreamEnded) -> None:
    attributes = {"dualsql.format": event.format, "dualsql.lane": event.backend}
    STREAMS.note(1, attributes if event.code is None else {**attributes, ERROR: event.code})
    STREAMED_ROWS.note(event.rows, {"dualsql.format": event.format})
    STREAMED_BYTES.note(event.bytes, {"dualsql.format": event.format})


METRICS_OF_EVENTS: Mapping[type[Any], Callable[[Any], None]] = {
    events.StatementStopped: lambda event: STOPPED.note(1, {"dualsql.reason": event.reason}),
    events.SlotAwaited: lambda event: QUEUE_WAIT.note(event.seconds, {"dualsql.slot": event.slot}),
    events.ResultCreated: lambda event: COUNTS.note(1, {"dualsql.count": event.total_kind}),
    events.ResultStored: lambda event: STORED_BYTES.note(event.bytes),
    events.ResultsDeleted: lambda event: EXPIRED.note(event.number),
    events.CallerRefused: lambda event: REFUSALS.note(1, {"dualsql.reason": event.reason}),
    events.ErrorAnswered: lambda event: ERRORS.note(
        1, {ERROR: event.code, "dualsql.surface": event.surface, "dualsql.cause": event.cause}
    ),
    events.CreationEnded: lambda event: CREATIONS.note(1, {"dualsql.cause": event.cause}),
    events.BackgroundFailed: lambda event: BACKGROUND.note(1, {"dualsql.work": event.work}),
    events.RowsShown: lambda event: SHOWN_ROWS.note(event.rows, {"gen_ai.tool.name": event.tool}),
    events.StreamEnded: _note_stream,
}
"""What each event adds to the metrics."""


class WorkMeasures(NamedTuple):
    """How a kind of work is measured.

    Attributes:
        span: the kind of its spans.
        histogram: of its durations.
        measured: what the attributes of its durations may have of those that are found; its spans have them all. Each
            attribute of a duration takes the SDK as long as a fifth of the duration itself.
        may_begin: it begins a trace where there is none; otherwise it has a span only in the span of other work.
    """

    span: Literal["SERVER", "CLIENT", "INTERNAL"]
    histogram: Instrument | None = None
    measured: frozenset[str] = frozenset({ERROR})
    may_begin: bool = True


_TOOL = WorkMeasures("SERVER", TOOL_DURATION)
KINDS: Mapping[WorkKind, WorkMeasures] = {
    "request": WorkMeasures(
        "SERVER", REQUEST_DURATION, frozenset({"http.route", "http.response.status_code", ERROR})
    ),
    "tool": _TOOL,
    "step": WorkMeasures("INTERNAL"),
    "statement": WorkMeasures("CLIENT", STATEMENT_DURATION, may_begin=False),
    "store": WorkMeasures("INTERNAL", STORE_DURATION, may_begin=False),
}

_MOST_WAITING = 32
"""Values of counters and histograms that the SDK gets at once: a fifth of a millisecond."""

MOST_SPANS = 5
"""Spans of one request. Further statements are only in the metrics."""

_SPANS: ContextVar[list[int] | None] = ContextVar("dualsql_spans", default=None)
"""How many spans the current request has; as many as it may have, if it is not sampled."""


class _API(NamedTuple):
    """The packages opentelemetry.trace, .context and .propagate, which are imported only if needed."""

    trace: Any
    context: Any
    propagate: Any


class Exporter:
    """The providers of the process, and the instruments made with them.

    Attributes:
        is_on: there is a provider of spans or of metrics.
        sinks: by name, what takes the values of counters and histograms.
        tracer: None without a provider of spans.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.sinks: dict[str, Sink] = {}
        self.tracer: Tracer | None = None
        self._meter: Meter | None = None
        self._waiting: deque[tuple[Sink, float, Attributes | None, Any]] = deque()

    def start(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> bool:
        """Measure with these providers, or else with those of the process. Returns whether there are any.

        The feature `Telemetry` calls it when a server starts. Providers that were found or given stay until `stop`.
        """
        if self.is_on and tracer_provider is None and meter_provider is None:
            return True
        try:
            names = ("trace", "context", "propagate", "metrics")
            *modules, metrics = (import_module(f"opentelemetry.{name}") for name in names)
        except ImportError:
            return False
        self._api = _API(*modules)
        tracers = tracer_provider or _own(self._api.trace.get_tracer_provider())
        meters = meter_provider or _own(metrics.get_meter_provider())
        self.tracer = None if tracers is None else tracers.get_tracer(SCOPE)
        self._meter = None if meters is None else meters.get_meter(SCOPE)
        self.sinks = {} if self._meter is None else self._create_instruments(self._meter)
        self.is_on = self.tracer is not None or self._meter is not None
        if self.is_on:
            EVENTS.listener = self
        return self.is_on

    def stop(self) -> None:
        """Measure nothing any longer."""
        self.hand_over()
        if EVENTS.listener is self:
            EVENTS.listener = None
        self.is_on, self.tracer, self._meter, self.sinks = False, None, None, {}

    def hear(self, event: Event) -> None:
        note = METRICS_OF_EVENTS.get(type(event))
        if note is not None:  # an event of another package has no metric
            note(event)

    def keep(self, sink: Sink, amount: float, attributes: Attributes | None) -> None:
        """Keep a value of a counter or histogram until the SDK gets many at once.

        The SDK takes 18 us for a value that it gets after a page of other code, and 6 us for one that follows another.
        """
        self._waiting.append((sink, amount, attributes, self._api.context.get_current()))
        if len(self._waiting) >= _MOST_WAITING:
            self.hand_over()

    def hand_over(self, *_: object) -> tuple[()]:
        """Give the SDK the values that wait; a callback of a gauge without values, so before metrics are collected."""
        while self._waiting:
            try:  # A reader collects in a thread of its own: `popleft` is atomic.
                sink, amount, attributes, context = self._waiting.popleft()
            except IndexError:
                break
            sink(amount, attributes, context)
        return ()

    def _measures(self, kind: WorkKind) -> bool:
        """Whether a block of this kind, inside of another one, has a duration or may have a span."""
        if kind in ("request", "tool") or (KINDS[kind].histogram is not None and self.sinks):
            return True
        spans = _SPANS.get()
        return self.tracer is not None and (spans is None or spans[0] < MOST_SPANS)

    def measure(
        self, kind: WorkKind, name: str, attributes: Attributes, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> MeasuredWork | None:
        """Measure a block, as a part of the trace that `headers` name: a tool always, others unless they are in one.

        Returns None if neither its duration nor a span would be exported.
        """
        if not self._measures(kind):
            return None
        context, how = None, KINDS[kind]
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in headers if name in _TRACE_HEADERS
        }
        if carrier:
            extracted, around = self._api.propagate.extract(carrier), self._api.trace.get_current_span()
            of_caller = self._api.trace.get_current_span(extracted).get_span_context()
            # An SDK that knows no trace of the call begins one: the caller's goes on in a span of our own.
            is_other = kind == "tool" and of_caller.trace_id != around.get_span_context().trace_id
            if is_other or not around.get_span_context().is_valid:
                context = extracted
        timed = how.histogram if how.histogram is not None and how.histogram.name in self.sinks else None
        return MeasuredWork(self.tracer, self._api, Work(how, name, attributes, context, timed))

    def _create_instruments(self, meter: Meter) -> dict[str, Sink]:
        sinks: dict[str, Sink] = {}
        for one in INSTRUMENTS:
            options: dict[str, Any] = {"unit": one.unit, "description": one.description}
            if one.kind == "counter":
                sinks[one.name] = meter.create_counter(one.name, **options).add
            elif one.kind == "histogram":
                histogram = meter.create_histogram(
                    one.name, explicit_bucket_boundaries_advisory=one.buckets, **options
                )
                sinks[one.name] = histogram.record
            else:
                is_gauge = one.kind == "gauge"
                create = (
                    meter.create_observable_gauge if is_gauge else meter.create_observable_up_down_counter
                )
                # Any gauge: the SDK calls all of them before it reads counters and histograms.
                create(one.name, callbacks=[partial(self._observe, meter, one), self.hand_over], **options)
        return sinks

    def _observe(self, meter: Meter, gauge: Instrument, _: object) -> Iterator[Observation]:
        """The values of a gauge, those of several servers in one process added up."""
        from opentelemetry.metrics import Observation

        values: Counter[tuple[tuple[str, str | int | float | bool], ...]] = Counter()
        # Instruments cannot be taken from a meter: those of an earlier one have no values any longer.
        for reading in EVENTS.readings() if meter is self._meter else ():
            if GAUGES.get(reading.gauge) is gauge:
                values[tuple(reading.attributes.items())] += reading.value
        for key, total in values.items():
            yield Observation(total, dict(key))


def _own(provider: Any) -> Any:
    """The provider; None for those of the API itself, which do nothing."""
    is_of_api = type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
    return None if is_of_api else provider


_TRACE_HEADERS = (b"traceparent",)
"""Not `tracestate`, in which a caller could put anything, and which would be exported."""


class Work(NamedTuple):
    """The measures of an operation; see `Exporter.measure`."""

    kind: WorkMeasures
    name: str
    attributes: Attributes
    context: Any
    timed: Instrument | None


class MeasuredWork:
    """A block that is measured: its duration, and a span if its request is sampled and has not too many already.

    Spans that are made in the block, also by other libraries, are children of its span.

    Attributes:
        is_sampled: its span is recorded.
        is_seen: its span or its duration is; otherwise what is noted goes nowhere.
    """

    __slots__ = (
        "_api",
        "_attributes",
        "_count_token",
        "_failed",
        "_is_own",
        "_span",
        "_start",
        "_token",
        "_tracer",
        "_work",
        "is_sampled",
        "is_seen",
    )

    def __init__(self, tracer: Tracer | None, api: _API, work: Work) -> None:
        self._tracer = tracer
        self._api = api
        self._work = work
        self._attributes: dict[str, str | int | float | bool] = {}
        self._span: Span | None = None
        self._token: Any = None
        self._count_token: Any = None
        self._is_own = self._failed = False
        self._start = 0.0
        self.is_sampled = False
        self.is_seen = work.timed is not None

    @property
    def trace_id(self) -> str:
        """The trace of its span, for the log; empty if it has none."""
        if self._span is None or not self.is_sampled:
            return ""
        return f"{self._span.get_span_context().trace_id:032x}"

    def note(self, attributes: Attributes) -> None:
        """Add what was found in the block."""
        if self.is_seen:
            self._attributes.update(attributes)

    def rename(self, name: str) -> None:
        """Change the name of its span."""
        if self._span is not None and self._is_own and self.is_sampled:
            self._span.update_name(name)

    def fail(self, code: str) -> None:
        """Say that the work failed, with an error code."""
        self._attributes[ERROR], self._failed = code, True

    def __enter__(self) -> Self:
        if self._tracer is not None:
            self._begin(self._tracer)
        self._start = time.perf_counter()
        return self

    def _begin(self, tracer: Tracer) -> None:
        work, trace = self._work, self._api.trace
        span_count = _SPANS.get()
        if span_count is not None and span_count[0] >= MOST_SPANS and work.context is None:
            return
        context = work.context or self._api.context.get_current()
        # Most requests come without a trace, and what is executed once a page is slow: an empty context is not read.
        parent = trace.get_current_span(context) if context else trace.INVALID_SPAN
        around = parent.get_span_context()
        if not (work.kind.may_begin if not around.is_valid else parent.is_recording() or around.is_remote):
            if span_count is None and around.is_valid:
                self._count_token = _SPANS.set([MOST_SPANS])
            return
        if span_count is None or not around.is_valid:
            span_count = [0]
            self._count_token = _SPANS.set(span_count)
        # Both SDKs have a span of their own for a call, with the trace of its `_meta`.
        self._is_own = work.kind is not _TOOL or not getattr(parent, "name", "").startswith("tools/call")
        if not self._is_own:
            self._span = parent
        elif span_count[0] < MOST_SPANS:
            span_count[0] += 1
            self._span = self._started_span(tracer, context)
            self._token = self._api.context.attach(trace.set_span_in_context(self._span, context))
        self.is_sampled = self._span is not None and self._span.is_recording()
        if self._is_own and not self.is_sampled:
            span_count[0] = MOST_SPANS
        self.is_seen |= self.is_sampled

    def _started_span(self, tracer: Tracer, context: Any) -> Span:
        kind, name, attributes, *_ = self._work
        return tracer.start_span(
            name, context, kind=self._api.trace.SpanKind[kind.span], attributes=attributes,
            # The SDK would record the exception's message, which may hold a database's words.
            record_exception=False, set_status_on_exception=False,
        )  # fmt: skip

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """End the block, in the task that began it; with the error that it raised."""
        seconds = time.perf_counter() - self._start
        if error is not None and ERROR not in self._attributes and not isinstance(error, GeneratorExit):
            self._attributes[ERROR] = code_of(error)
            # A cancellation is no Exception: it has a code, and is no failure of the work.
            self._failed = isinstance(error, Exception)
        if self._token is not None:
            self._api.context.detach(self._token)
        if self._count_token is not None:
            _SPANS.reset(self._count_token)
        if self._span is not None and self.is_sampled:
            self._end_span(self._span)
        if self._work.timed is not None:
            names = self._work.kind.measured
            attributes = {name: value for name, value in self._attributes.items() if name in names}
            self._work.timed.note(seconds, {**self._work.attributes, **attributes})

    def _end_span(self, span: Span) -> None:
        if self._attributes:
            span.set_attributes(self._attributes)
        if self._failed:
            span.set_status(self._api.trace.StatusCode.ERROR)
        if self._is_own:
            span.end()


def code_of(error: BaseException) -> str:
    """The name of an error in telemetry: never its message, and no name that an application gave a class."""
    if isinstance(error, DualResponseError):
        return error.code
    return "CANCELLED" if isinstance(error, asyncio.CancelledError) else _OTHER


TELEMETRY = Exporter()
"""Of the process, as the providers of OpenTelemetry are."""


class Telemetry(Feature):
    """Spans and metrics, where the process has a provider of OpenTelemetry; see docs/operations.md."""

    async def start(self) -> None:
        TELEMETRY.start()


def require_metrics() -> None:
    """Raise ConfigurationError if the packages of the extra `prometheus` are not installed."""
    try:
        for package in (
            "opentelemetry.exporter.prometheus",
            "opentelemetry.sdk.metrics",
            "prometheus_client",
        ):
            import_module(package)
    except ImportError as error:
        raise ConfigurationError(
            "Metrics for Prometheus need packages that are not installed.",
            hint='Install them: pip install "dualsql[prometheus]"',
        ) from error


def metrics_route() -> Route:
    """`/metrics` for Prometheus: all metrics of this process, which are measured from here on.

    It is for a port that only operators reach, and that only this process listens on: of several processes on one
    port, each scrape would reach another one.

    Raises:
        ConfigurationError: the packages of the extra `prometheus` are not installed.
    """
    require_metrics()
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    # The exporter has no exemplars, and looking for one takes a tenth of the time of a measurement.
    off = AlwaysOffExemplarFilter()
    meters = MeterProvider([PrometheusMetricReader(registry=registry)], exemplar_filter=off)
    TELEMETRY.start(meter_provider=meters)

    async def metrics(request: Request) -> Response:
        return _exposition(registry, request)

    return Route("/metrics", metrics, methods=["GET"])


def merged_metrics(texts: Mapping[str, str], request: Request) -> Response:
    """The metrics of several workers as one answer, each with the label `worker`.

    Args:
        texts: what `metrics_route` of each worker answered, by its label.
    """
    from prometheus_client.metrics_core import Metric
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector

    families: dict[str, Metric] = {}
    for worker, text in texts.items():
        for family in text_string_to_metric_families(text):
            one = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                one.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)

    class AllWorkers(Collector):
        def collect(self) -> Iterable[Metric]:
            return families.values()

    return _exposition(AllWorkers(), request)


def _exposition(collector: Collector, request: Request) -> Response:
    from prometheus_client.exposition import choose_encoder

    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(collector), headers={"Cache-Control": "no-store", "Content-Type": media_type})
