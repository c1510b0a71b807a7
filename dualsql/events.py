"""What happens in the process, for a listener: events with their figures, blocks of work, and what is in use.

The kernel reports and imports no listener. Without one a report costs a comparison. `dualsql.telemetry` is a listener:
it exports metrics and spans. Names of attributes are those of OpenTelemetry's conventions. No event holds a value, an
id or a text of a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol
from weakref import WeakMethod

from dualsql.errors import Cause
from dualsql_client.wire import TotalCountKind

Attributes = Mapping[str, str | int | float | bool]
"""What is known of an event or a reading, by the names of OpenTelemetry's conventions."""

ERROR = "error.type"
"""The attribute of an error: a code, and never a message."""


class StatementStopped(NamedTuple):
    """A statement was stopped: by a time limit, or because its caller has left."""

    reason: Literal["timeout", "cancelled"]


class SlotAwaited(NamedTuple):
    """A statement waited for a slot of its database, and has it or gave up."""

    slot: str
    seconds: float


class ResultCreated(NamedTuple):
    """The query of a new result ran; its total is of this kind."""

    total_kind: TotalCountKind


class ResultStored(NamedTuple):
    """A new result is in the store."""

    bytes: int


class ResultsDeleted(NamedTuple):
    """Expired results were deleted."""

    number: int


class CallerRefused(NamedTuple):
    """A caller was refused a result."""

    reason: str


class ErrorAnswered(NamedTuple):
    """A request or a call of a tool was answered with an error."""

    code: str
    surface: Literal["http", "mcp"]
    cause: Cause


class CreationEnded(NamedTuple):
    """The creation of a result ended, by a tool or a request: "none" if the result is stored, else why it is not."""

    cause: Cause | Literal["none"]


class BackgroundFailed(NamedTuple):
    """Work in the background failed: sweeping, renewing leases, keeping rows or reading kept ones."""

    work: str


class RowsShown(NamedTuple):
    """A tool showed rows to a model."""

    tool: str
    rows: int


class StreamEnded(NamedTuple):
    """A stream ended.

    Attributes:
        backend: what read the rows.
        bytes: of the rows, before compression.
        code: of the error that cut it off; None where it is complete.
    """

    format: str
    backend: str
    rows: int
    bytes: int
    code: str | None


Event = (
    StatementStopped
    | SlotAwaited
    | ResultCreated
    | ResultStored
    | ResultsDeleted
    | CallerRefused
    | ErrorAnswered
    | CreationEnded
    | BackgroundFailed
    | RowsShown
    | StreamEnded
)
"""What a `Listener` receives."""

Gauge = Literal[
    "queued", "slots_used", "slots", "connections", "maximum_connections", "streams", "pending", "cached_bytes",
    "kept_bytes", "kept_free", "ready",
]  # fmt: skip
"""What a reading is of."""


class GaugeReading(NamedTuple):
    """How much of something is in use now."""

    gauge: Gauge
    value: int
    attributes: Attributes = MappingProxyType({})


Readings = Callable[[], Iterable[GaugeReading]]
"""A method that reads what is in use."""

WorkKind = Literal["request", "tool", "step", "statement", "store"]
"""A step is a part of a request: creating, reading a page, a stream, answering a question."""


class Measurement(AbstractContextManager["Measurement"], Protocol):
    """A block of work that a listener measures.

    Attributes:
        is_sampled: it has a span, which takes further attributes.
        is_seen: somebody sees what is noted.
        trace_id: of its trace, for the log; empty without one.
    """

    is_sampled: bool
    is_seen: bool

    @property
    def trace_id(self) -> str: ...

    def note(self, attributes: Attributes) -> None:
        """Add what was found in the block."""

    def rename(self, name: str) -> None:
        """Change the name of the block."""

    def fail(self, code: str) -> None:
        """Say that the work failed, with an error code."""

    def end(self, error: BaseException | None = None) -> None:
        """End the block, in the task that began it; with the error that it raised."""


class Listener(Protocol):
    """Listens to the events of the process, and measures its work."""

    def hear(self, event: Event) -> None:
        """Take an event. It is called where the event happened, and must not wait."""

    def measure(
        self, kind: WorkKind, name: str, attributes: Attributes, headers: Iterable[tuple[bytes, bytes]]
    ) -> Measurement | None:
        """Measure a block, if that is worth it now.

        Args:
            attributes: what is known before the work begins.
            headers: of a request whose caller names a trace.
        """
        ...


class Events:
    """The events of the process.

    Attributes:
        listener: None if there is none.
    """

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self._watched: set[WeakMethod[Readings]] = set()

    def report(self, event: Event) -> None:
        """Pass an event to the listener."""
        if self.listener is not None:
            self.listener.hear(event)

    def measured(
        self,
        kind: WorkKind,
        name: str,
        attributes: Attributes | None = None,
        *,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> AbstractContextManager[Measurement | None]:
        """The block, measured if somebody listens."""
        if self.listener is None:
            return UNMEASURED
        return self.listener.measure(kind, name, attributes or {}, headers) or UNMEASURED

    def watch(self, readings: Readings) -> None:
        """Offer the figures of a method to the listener, for as long as its object lives."""
        self._watched.add(WeakMethod(readings, self._watched.discard))

    def forget(self, readings: Readings) -> None:
        """Offer them no longer."""
        self._watched.discard(WeakMethod(readings))

    def readings(self) -> Iterator[GaugeReading]:
        """What is in use now, in all that is watched."""
        for method in tuple(self._watched):
            readings = method()
            if readings is not None:
                yield from readings()


UNMEASURED: AbstractContextManager[None] = nullcontext()
"""A block without a measurement."""

EVENTS = Events()


def step(name: str) -> AbstractContextManager[Measurement | None]:
    """A part of a request, as a block."""
    return UNMEASURED if EVENTS.listener is None else EVENTS.measured("step", f"dualsql {name}")


def store_operation(operation: str) -> AbstractContextManager[Measurement | None]:
    """An operation of the store, as a block: what it does, or the name of its method."""
    named = {"dualsql.store.operation": operation}
    return UNMEASURED if EVENTS.listener is None else EVENTS.measured("store", f"store {operation}", named)
