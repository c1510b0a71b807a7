"""What a store of resources must do; the rule: each method is one atomic step, in any process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dualsql.resource import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChanges:
    """A partial update. What is left at its default stays as it is.

    Attributes:
        accesses: added to access_count.
        accessed_at: becomes last_accessed_at, unless a later one is there.
        extend_to: a later expires_at for a resource that is neither pinned nor expired; never shortens it.
        pin: remove the expiry of a resource that has not expired.
        now: the instant that decides whether it has expired; required with extend_to and pin.
    """

    accesses: int = 0
    accessed_at: datetime | None = None
    extend_to: datetime | None = None
    pin: bool = False
    now: datetime | None = None

    def __post_init__(self) -> None:
        if self.now is None and (self.pin or self.extend_to is not None):
            raise ValueError("extend_to and pin need now: the instant that decides whether it has expired")


class ResourceStore(Protocol):
    """Where resources are kept. Failures of a backend are raised as StorageError."""

    async def save(self, resource: Resource) -> str:
        """Store a new resource and return its id."""
        ...

    async def get(self, resource_id: str) -> Resource | None:
        """The resource, expired or not, or None."""
        ...

    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        """Apply `changes` without losing a concurrent update.

        Returns whether a row was changed: False for an unknown id, and for `pin` on an expired one.
        """
        ...

    async def delete(self, *resource_ids: str, expired_before: datetime | None = None) -> int:
        """Delete, all of them or only those whose expires_at lies at or before `expired_before`.

        The condition is tested in the same step as the deletion. Returns how many were deleted.
        """
        ...

    async def find_expired(self, *, before: datetime, limit: int = 500) -> Sequence[str]:
        """Ids of at most `limit` resources whose expires_at lies at or before `before`."""
        ...

    async def close(self) -> None:
        """Release connections; the store is not used again."""
        ...
