"""Limits how much one principal keeps, and how much one caller pins of what belongs to nobody. Only the principal's own
oldest unpinned resources are deleted to make room, and no pinned ones.

Processes that create resources for one principal at the same time may each find room. The quota can then be exceeded by
the number of simultaneous creations. The next creation deletes the surplus. Pins may exceed it likewise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from dualsql.errors import LimitExceededError
from dualsql.resource import Principal
from dualsql.settings import Settings
from dualsql.store.protocol import ResourceStore

_BATCH = 500
# A pinned resource has no expiry, so a resource that is pinned in the meantime is kept: the DELETE of the store tests
# the expiry.
_ANY_EXPIRY = datetime(9999, 1, 1, tzinfo=UTC)


async def find_surplus(
    store: ResourceStore, principal: Principal, size: int, now: datetime, settings: Settings
) -> AsyncIterator[Sequence[str]]:
    """The principal's oldest unpinned resources, in batches, that must be deleted before `size` more bytes fit.

    Raises:
        LimitExceededError: pinned resources fill the quota, or the resource alone exceeds it; nothing is deleted.
    """
    resources, octets = settings.quota_resources, settings.quota_bytes
    if resources is None and octets is None:
        return
    usage = await store.usage(principal, now=now)
    if _exceeds(usage.pinned_count + 1, resources) or _exceeds(usage.pinned_size + size, octets):
        raise _full(settings)
    count, total = usage.count + 1, usage.size + size
    while _exceeds(count, resources) or _exceeds(total, octets):
        batch = []
        for resource_id, weight in await store.find_unpinned(principal, now=now, limit=_BATCH):
            if not _exceeds(count, resources) and not _exceeds(total, octets):
                break
            batch.append(resource_id)
            count, total = count - 1, total - weight
        if not batch:  # others have deleted or pinned resources since they were counted
            return
        yield batch


async def evict(store: ResourceStore, resource_ids: Sequence[str]) -> int:
    """Delete the resources that are still unpinned."""
    return await store.delete(*resource_ids, expired_before=_ANY_EXPIRY)


async def require_pin(store: ResourceStore, pinned_by: str, size: int, settings: Settings) -> None:
    """Check that the caller may pin one more resource of this size that belongs to nobody.

    Raises:
        LimitExceededError: its pins fill the quota.
    """
    resources, octets = settings.quota_resources, settings.quota_bytes
    if resources is None and octets is None:
        return
    usage = await store.pins(pinned_by)
    if _exceeds(usage.count + 1, resources) or _exceeds(usage.size + size, octets):
        raise LimitExceededError(
            "The quota for results that are pinned from one address is full.",
            hint="Unpin or delete results that are no longer needed, or pin as a known caller.",
            details={"quota_resources": resources, "quota_bytes": octets},
        )


def _exceeds(value: int, quota: int | None) -> bool:
    return quota is not None and value > quota


def _full(settings: Settings) -> LimitExceededError:
    return LimitExceededError(
        "The quota for stored results is full, or this result alone exceeds it.",
        hint="Delete results that are no longer needed, pinned ones first.",
        details={"quota_resources": settings.quota_resources, "quota_bytes": settings.quota_bytes},
    )
