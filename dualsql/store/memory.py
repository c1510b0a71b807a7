"""Resources in this process's memory; the rule: bounded, and nothing mutable is shared with a caller.

For development and a single process: nothing outlives it, and no other process sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dualsql.errors import LimitExceededError
from dualsql.resource import Resource
from dualsql.store.failures import already_stored
from dualsql.store.protocol import ResourceChanges
from dualsql.store.rows import from_row, to_row
from dualsql.tables import in_utc

_Row = dict[str, Any]


class MemoryStore:
    """Keeps at most `maximum` resources, for one event loop.

    When it is full it forgets the expired ones first, then the oldest that is not pinned.
    """

    def __init__(self, maximum: int = 10_000) -> None:
        if maximum < 1:
            raise ValueError("a store that can keep nothing is of no use")
        self._maximum = maximum
        # In order of creation. Rows as the SQL store has them, not Resource objects: what a caller does to
        # the metadata it gave or got stays with that caller. No method awaits, so each is one step.
        self._rows: dict[str, _Row] = {}

    async def save(self, resource: Resource) -> str:
        row = to_row(resource)
        if resource.id in self._rows:
            raise already_stored()
        if len(self._rows) >= self._maximum:
            self._make_room(row["created_at"])
        self._rows[resource.id] = row
        return resource.id

    async def get(self, resource_id: str) -> Resource | None:
        row = self._rows.get(resource_id)
        return None if row is None else from_row(row)

    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        row = self._rows.get(resource_id)
        if row is None or (changes.pin and changes.now is not None and _has_expired(row, changes.now)):
            return False
        row["access_count"] += changes.accesses
        if changes.accessed_at is not None:
            row["last_accessed_at"] = max(
                in_utc(changes.accessed_at), row["last_accessed_at"] or changes.accessed_at
            )
        row["expires_at"] = _expiry_after(row, changes)
        return True

    async def delete(self, *resource_ids: str, expired_before: datetime | None = None) -> int:
        doomed = [
            resource_id
            for resource_id in set(resource_ids) & self._rows.keys()
            if expired_before is None or _has_expired(self._rows[resource_id], expired_before)
        ]
        for resource_id in doomed:
            del self._rows[resource_id]
        return len(doomed)

    async def find_expired(self, *, before: datetime, limit: int = 500) -> Sequence[str]:
        expired = [row for row in self._rows.values() if _has_expired(row, before)]
        expired.sort(key=lambda row: (row["expires_at"], row["id"]))
        return [row["id"] for row in expired[: max(limit, 0)]]

    async def close(self) -> None:
        self._rows.clear()

    def _make_room(self, now: datetime) -> None:
        for resource_id in [key for key, row in self._rows.items() if _has_expired(row, now)]:
            del self._rows[resource_id]
        if len(self._rows) < self._maximum:
            return
        oldest = next((key for key, row in self._rows.items() if row["expires_at"] is not None), None)
        if oldest is None:
            raise LimitExceededError(
                f"All {self._maximum:,} resources this server can keep are pinned.",
                hint="Delete a pinned resource that is no longer needed.",
            )
        del self._rows[oldest]


def _has_expired(row: _Row, instant: datetime) -> bool:
    return row["expires_at"] is not None and row["expires_at"] <= instant


def _expiry_after(row: _Row, changes: ResourceChanges) -> datetime | None:
    expires_at: datetime | None = row["expires_at"]
    if changes.pin or expires_at is None:
        return None
    if changes.extend_to is None or changes.now is None or expires_at <= changes.now:
        return expires_at
    return max(expires_at, in_utc(changes.extend_to))
