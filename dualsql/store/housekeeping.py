"""Keep a store tidy in the background; the rule: safe to run in any number of processes at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from dualsql.errors import StorageError
from dualsql.store.accesses import AccessLog
from dualsql.store.protocol import ResourceStore

logger = logging.getLogger(__name__)

FLUSH_INTERVAL = timedelta(seconds=1)
"""How long accesses stay unwritten; a killed process loses them."""

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
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(_every(FLUSH_INTERVAL, self._accesses.flush)),
                asyncio.create_task(_every(self._interval, self.sweep)),
            ]

    async def stop(self) -> None:
        """End the tasks and write what is pending."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StorageError):
            await self._accesses.flush()

    async def sweep(self) -> int:
        """Delete now what is due."""
        return await sweep(self._store, before=datetime.now(UTC) - self._retention)


async def _every(interval: timedelta, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(interval.total_seconds())
        try:
            await work()
        except StorageError as error:
            logger.warning("The resource store failed; trying again in %s: %s", interval, error)
        # A store of someone else's may raise anything; the next resource must still be swept.
        except Exception:
            logger.exception("Housekeeping failed; trying again in %s.", interval)
