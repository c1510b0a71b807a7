"""How far a run is whose rows are kept: for the call that waits for it, and in the stored row of its resource."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

from dualsql.resource import INTERRUPTED, Clock, KeptProgress, KeptRows, Resource, Total
from dualsql.settings import Settings
from dualsql.store.protocol import KeptChange, ResourceChanges, ResourceStore
from dualsql_client.wire import KeptDescription


@dataclass(slots=True)
class RunProgress:
    """How many rows were read of a run that is going to be kept."""

    rows: int = 0


@dataclass(slots=True)
class WaitingCall:
    """A call that reports to its client how far the run is that it waits for.

    Attributes:
        run: None before it has begun.
    """

    run: RunProgress | None = None

    @property
    def rows(self) -> int:
        """How many rows were read so far."""
        return 0 if self.run is None else self.run.rows


WAITING_CALL: ContextVar[WaitingCall | None] = ContextVar("dualsql_waiting_call", default=None)


def report_to_caller(progress: RunProgress) -> None:
    """Let the call that waits for a run, if its client takes reports, know how far the run is."""
    call = WAITING_CALL.get()
    if call is not None:
        call.run = progress


class RunRecords:
    """What the row of a resource says of the run whose rows it is going to keep."""

    def __init__(self, store: ResourceStore, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    def running(self, kept: KeptRows | None, rows: int) -> KeptRows:
        """The record with the number of rows that a run has read, and the end of its lease."""
        until = self._clock.now() + self._settings.pending_lease
        rest = KeptRows() if kept is None else kept.copy()
        rest.pop("failure", None)
        return KeptRows(**{**rest, "running": KeptProgress(rows=rows, until=until.isoformat())})

    async def change(
        self, resource_id: str, before: KeptRows | None, after: KeptRows | None, total: Total | None = None
    ) -> bool:
        """Replace the record; False if it is not, or no longer, `before`."""
        changes = ResourceChanges(kept=KeptChange(before, after), total=total)
        return await self._store.update(resource_id, changes)

    def is_running(self, resource: Resource) -> bool:
        """Whether a server refreshes the resource, by its record."""
        running = None if resource.kept is None else resource.kept.get("running")
        return running is not None and datetime.fromisoformat(running["until"]) > self._clock.now()

    def describe(self, resource: Resource) -> KeptDescription:
        """How far the run is, or why it failed."""
        kept, description = resource.kept or {}, KeptDescription(kept=False)
        if "running" in kept:
            if resource.status == "pending" or self.is_running(resource):
                description["rows_so_far"] = kept["running"]["rows"]
            else:
                description["error"] = INTERRUPTED
        elif "failure" in kept:
            description["error"] = kept["failure"]
        return description
