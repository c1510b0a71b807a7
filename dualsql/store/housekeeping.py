"""Keep a store tidy in the background; the rule: safe to run in any number of processes at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from dualsql.errors import StorageError
from dualsql.incidents import cause_of
from dualsql.resource import INTERRUPTED
from dualsql.store.accesses import AccessLog
from dualsql.store.outages import Outage
from dualsql.store.protocol import ResourceStore

logger = logging.getLogger(__name__)

FLUSH_INTERVAL = timedelta(seconds=0.5)
"""From the start of one flush to that of the next: with the flush itself, what a killed process loses of its
accesses stays below a second."""

_BATCH = 500


async def sweep(store: ResourceStore, *, before: datetime) -> int:
    """Delete what expired at or before `before`, in batches. Returns how many resources were deleted.

    Whether a resource is still expired is decided in the step that deletes it, so a pin in between wins.
    """
    deleted = 0
    while ids := await store.find_expired(before=before, limit=_BATCH):
        batch = await store.delete(*ids, expired_before=before)
        deleted += batch
        if not batch or len(ids) < _BATCH:
            break
    await store.delete_links(expired_before=before)
    return deleted


class Housekeeper:
    """Two periodic tasks: writing access counts, and sweeping what expired `retention` ago."""

    def __init__(
        self, store: ResourceStore, accesses: AccessLog, *, interval: timedelta, retention: timedelta
    ) -> None:
        self._store = store
        self._accesses = accesses
        self._interval = interval
        self._retention = retention
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, in the running event loop."""
        if all(task.done() for task in self._tasks):
            self._tasks = [
                asyncio.create_task(every(FLUSH_INTERVAL, self._accesses.flush, Outage("Counting accesses"))),
                asyncio.create_task(every(self._interval, self.sweep, Outage("Sweeping"))),
            ]

    async def stop(self) -> None:
        """End the tasks and write what is pending."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._accesses.flush()
        except StorageError as error:
            logger.warning(
                "%d accesses were not counted: %s", self._accesses.total(), cause_of(error) or error
            )

    async def sweep(self) -> int:
        """Delete now what is due, and fail what is pending without anybody who runs its query."""
        await self._store.fail_overdue(INTERRUPTED, now=datetime.now(UTC))
        return await sweep(self._store, before=datetime.now(UTC) - self._retention)


async def every(interval: timedelta, work: Callable[[], Awaitable[object]], outage: Outage) -> None:
    """Do `work` once in every `interval`, however long it takes itself."""
    clock = asyncio.get_running_loop().time
    due = clock()
    while True:
        due = max(due + interval.total_seconds(), clock())
        await asyncio.sleep(due - clock())
        try:
            await work()
        # A store of someone else's may raise anything; the next resource must still be swept.
        except Exception as error:  # noqa: BLE001
            outage.failed(error)
        else:
            outage.succeeded()
