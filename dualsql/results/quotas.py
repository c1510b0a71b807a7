"""Makes room for a new result of a principal whose quota is full; loaded with the first of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dualsql.errors import LimitExceededError
from dualsql.resource import Principal
from dualsql.store.protocol import Usage

if TYPE_CHECKING:
    from dualsql.results.access import AccessControl

_BATCH = 500
# A pinned resource has no expiry, so a resource that is pinned in the meantime is kept: the DELETE of the store tests
# the expiry.
ANY_EXPIRY = datetime(9999, 1, 1, tzinfo=UTC)


async def make_room(
    access: AccessControl, principal: Principal, usage: Usage, size: int, *, now: datetime
) -> None:
    """Delete the principal's oldest unpinned resources, until `size` more bytes fit.

    Processes that create resources for one principal at the same time may each find room: the quota can be exceeded
    by the number of simultaneous creations. The next creation deletes the surplus.

    Raises:
        LimitExceededError: the quota is full of pinned resources.
    """
    settings = access.settings
    if access.exceeds_quota(usage.pinned_count + 1, usage.pinned_size + size):
        raise LimitExceededError(
            "The quota for stored results is full, or this result alone exceeds it.",
            hint="Delete results that are no longer needed, pinned ones first.",
            details={"quota_resources": settings.quota_resources, "quota_bytes": settings.quota_bytes},
        )
    count, total = usage.count + 1, usage.size + size
    while access.exceeds_quota(count, total):
        batch = []
        for resource_id, weight in await access.store.find_unpinned(principal, now=now, limit=_BATCH):
            if not access.exceeds_quota(count, total):
                break
            batch.append(resource_id)
            count, total = count - 1, total - weight
        if not batch:  # others have deleted or pinned resources since they were counted
            return
        for resource_id in batch:
            await access.note("evict", principal, resource_id=resource_id)
        await access.store.delete(*batch, expired_before=ANY_EXPIRY)
