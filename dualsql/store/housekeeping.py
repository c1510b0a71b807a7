"""Counting accesses and sweeping expired resources, in the background of any number of processes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

from dualsql.errors import StorageError
from dualsql.events import EVENTS, BackgroundFailed, ResultsDeleted
from dualsql.log import Outage, cause_of
from dualsql.resource import INTERRUPTED, Clock
from dualsql.store.protocol import Access, ResourceStore
from dualsql.threads import finished

logger = logging.getLogger(__name__)

_ACCESS_BATCH = 200


class AccessLog:
    """Accesses of this process that are not yet written to the store, the latest last.

    Args:
        maximum: resources; 50,000 take about 15 MB. Beyond that, the least recently used ones are dropped.
    """

    def __init__(self, store: ResourceStore, *, maximum: int = 50_000) -> None:
        self._store = store
        self._maximum = maximum
        self._pending: dict[str, Access] = {}
        self._writing: list[dict[str, Access]] = []
        self._refused: set[str] = set()
        self._dropped = 0

    def note(self, resource_id: str, now: datetime) -> None:
        """Record one access. The next flush writes it to the store."""
        self._add(resource_id, 1, now)
        self._keep_within_bounds()

    def unwritten(self, resource_id: str) -> tuple[int, datetime | None]:
        """The accesses of this resource that are not yet written to the store: their number, and the last one."""
        parts = [part[resource_id] for part in (*self._writing, self._pending) if resource_id in part]
        return sum(part.number for part in parts), max((part.last for part in parts), default=None)

    def total(self) -> int:
        """How many accesses of all resources are not yet written to the store."""
        return sum(access.number for part in (*self._writing, self._pending) for access in part.values())

    async def flush(self) -> None:
        """Write the pending accesses. A resource that the store refuses does not delay the others.

        Raises:
            StorageError: the store failed; accesses that it did not accept stay pending.
        """
        waiting = [resource_id for resource_id in self._pending if resource_id not in self._refused]
        parts = [waiting[start : start + _ACCESS_BATCH] for start in range(0, len(waiting), _ACCESS_BATCH)]
        # Resources that were refused before come last, one by one.
        batches = deque([*parts, *([resource_id] for resource_id in self._refused)])
        failure: StorageError | None = None
        failures = 0
        # If a batch and then two of its resources alone fail, the store has failed, and not one resource.
        while batches and failures < 3:
            batch = batches.popleft()
            # A cancellation does not end it: were a statement that was executed repeated, accesses would count twice.
            try:
                await finished(asyncio.create_task(self._write(batch)))
                failures = 0
            except StorageError as error:
                failure, failures = error, failures + 1
                if len(batch) > 1:
                    batches.extendleft([resource_id] for resource_id in reversed(batch))
                else:
                    self._refused.update(batch)
        if failure is not None:
            raise failure
        if self._dropped:  # logged when the store accepts accesses again
            logger.warning("%d accesses were not counted: too many waited for the store.", self._dropped)
            self._dropped = 0

    async def _write(self, batch: Sequence[str]) -> None:
        accesses = {name: self._pending.pop(name) for name in batch if name in self._pending}
        if not accesses:  # another flush has written them
            return
        self._writing.append(accesses)
        try:
            await self._store.add_accesses(accesses)
        except BaseException:
            newer, self._pending = self._pending, dict(accesses)
            for resource_id, access in newer.items():
                self._add(resource_id, *access)
            self._keep_within_bounds()
            raise
        finally:
            self._writing.remove(accesses)
        self._refused.difference_update(accesses)

    def _add(self, resource_id: str, number: int, last: datetime) -> None:
        """Add accesses later than all others of this process."""
        earlier = self._pending.pop(resource_id, None)
        self._pending[resource_id] = Access(number + (0 if earlier is None else earlier.number), last)

    def _keep_within_bounds(self) -> None:
        while len(self._pending) > self._maximum:
            longest_unused = next(iter(self._pending))
            self._dropped += self._pending.pop(longest_unused).number
            self._refused.discard(longest_unused)


FLUSH_INTERVAL = timedelta(seconds=0.5)
"""From the start of one flush to the next. A killed process loses the accesses since the start of the last flush that
ended: less than a second, unless a flush takes longer than half of one."""

_BATCH = 500


async def sweep(store: ResourceStore, *, before: datetime) -> int:
    """Delete what expired at or before `before`, in batches. Returns how many resources were deleted.

    The DELETE tests the expiry again, so a resource that was pinned in between is not deleted.
    """
    deleted = 0
    while ids := await store.find_expired(before=before, limit=_BATCH):
        batch = await store.delete(*ids, expired_before=before)
        deleted += batch
        if not batch or len(ids) < _BATCH:
            break
    await store.delete_links(expired_before=before)
    return deleted


@dataclass(eq=False, repr=False)
class Housekeeper:
    """Two periodic tasks: writing access counts, and deleting resources that expired `retention` ago.

    Args:
        sweep_further: deletes what else no resource needs any more, such as files.
    """

    store: ResourceStore
    accesses: AccessLog
    clock: Clock
    _: KW_ONLY
    interval: timedelta
    retention: timedelta
    sweep_further: Callable[[], Awaitable[object]]
    _tasks: list[asyncio.Task[None]] = field(default_factory=list, init=False)

    def start(self) -> None:
        """Start the tasks in the running event loop."""
        if all(task.done() for task in self._tasks):
            flushing = every(FLUSH_INTERVAL, self.accesses.flush, Outage("Counting accesses"))
            sweeping = every(self.interval, self.sweep, Outage("Sweeping"))
            # A new context: not that of the request that started the server.
            self._tasks = [asyncio.create_task(work, context=Context()) for work in (flushing, sweeping)]

    async def stop(self) -> None:
        """End the tasks and write the pending accesses."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.accesses.flush()
        except StorageError as error:
            cause = cause_of(error) or error
            logger.warning("%d accesses were not counted: %s", self.accesses.total(), cause)

    async def sweep(self) -> int:
        """Delete the resources that are due, and fail pending ones whose lease has expired."""
        await self.clock.synchronize()
        await self.store.fail_overdue(INTERRUPTED, now=self.clock.now())
        deleted = await sweep(self.store, before=self.clock.now() - self.retention)
        EVENTS.report(ResultsDeleted(deleted))
        await self.sweep_further()
        return deleted


async def every(interval: timedelta, work: Callable[[], Awaitable[object]], outage: Outage) -> None:
    """Run `work` once in every `interval`, however long it takes."""
    clock = asyncio.get_running_loop().time
    due = clock()
    while True:
        due = max(due + interval.total_seconds(), clock())
        await asyncio.sleep(due - clock())
        try:
            await work()
        # A custom store may raise anything, and the task has to continue.
        except Exception as error:  # noqa: BLE001
            outage.failed(error)
            EVENTS.report(BackgroundFailed(outage.work))
        else:
            outage.succeeded()
