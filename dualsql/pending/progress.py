"""How far a run is whose rows are kept: for the call that waits for it, and in the stored row of its resource."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from dualsql.extension import Parts
from dualsql.resource import Clock, KeptProgress, KeptRows, Total
from dualsql.results.kept_rows import RunProgress
from dualsql.results.view import View
from dualsql.settings import Settings
from dualsql.store.protocol import KeptChange, ResourceChanges, ResourceStore


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


def in_background(view: View) -> View:
    """The same with the time of pending queries."""
    return replace(view, settings=replace(view.settings, query_timeout=view.settings.pending_timeout))


class RunRecords:
    """The record, in the row of a resource, of the run whose rows it is going to keep."""

    def __init__(self, store: ResourceStore, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """The records in the store of a server."""
        return cls(parts.store, parts.settings, parts.clock)

    def new_lease(self) -> datetime:
        """The end of a lease that begins now."""
        return self._clock.now() + self._settings.pending_lease

    def must_renew(self, until: datetime) -> bool:
        """Whether a third of the lease is over: two renewals may fail before it ends."""
        return until - self._clock.now() <= self._settings.pending_lease * 2 / 3

    def running(self, record: KeptRows | None, rows: int) -> KeptRows:
        """The record with the number of rows that a run has read, and the end of its lease."""
        until = self.new_lease()
        rest = KeptRows() if record is None else record.copy()
        rest.pop("failure", None)
        return KeptRows(**{**rest, "running": KeptProgress(rows=rows, until=until.isoformat())})

    async def change(
        self, resource_id: str, before: KeptRows | None, after: KeptRows | None, total: Total | None = None
    ) -> bool:
        """Replace the record; False if it is not, or no longer, `before`."""
        changes = ResourceChanges(kept=KeptChange(before, after), total=total)
        return await self._store.update(resource_id, changes)
