"""Count accesses without a write per page; the rule: what was noted is added once, and a failed write is retried."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import NamedTuple

from dualsql.store.protocol import ResourceChanges, ResourceStore


class Access(NamedTuple):
    """Accesses not yet written, and the last of them."""

    number: int
    last: datetime


class AccessLog:
    """Accesses of this process since they were last written to the store."""

    def __init__(self, store: ResourceStore) -> None:
        self._store = store
        self._pending: dict[str, Access] = {}

    def note(self, resource_id: str, now: datetime) -> Access:
        """Remember one access; the store learns of it with the next flush."""
        access = Access(self.pending(resource_id) + 1, now)
        self._pending[resource_id] = access
        return access

    def pending(self, resource_id: str) -> int:
        """How many accesses the store does not know of yet."""
        access = self._pending.get(resource_id)
        return access.number if access else 0

    def last(self, resource_id: str) -> datetime | None:
        """The last access the store does not know of yet."""
        access = self._pending.get(resource_id)
        return access.last if access else None

    async def flush(self) -> None:
        """Write what is pending, one resource after the other.

        Raises:
            StorageError: the store failed; what it did not take stays pending.
        """
        for resource_id in list(self._pending):
            await _settled(self._write(resource_id))

    async def _write(self, resource_id: str) -> None:
        access = self._pending.pop(resource_id, None)
        if access is None:  # another flush was faster
            return
        try:
            changes = ResourceChanges(accesses=access.number, accessed_at=access.last)
            await self._store.update(resource_id, changes)
        except BaseException:
            self._take_back(resource_id, access)
            raise

    def _take_back(self, resource_id: str, access: Access) -> None:
        newer = self._pending.get(resource_id)
        self._pending[resource_id] = (
            access if newer is None else Access(access.number + newer.number, newer.last)
        )


async def _settled(writing: Coroutine[None, None, None]) -> None:
    """Await the write; if cancelled, only once it is known whether the store took it.

    A statement cut off may have been executed: taken back and written again, it would count twice.
    """
    task = asyncio.create_task(writing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # what failed is pending again
        raise
