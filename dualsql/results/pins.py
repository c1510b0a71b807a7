"""Pins results, and lets them expire again. How much one caller pins of what belongs to nobody is limited.

Pins at the same time may each find room, as creations may.
"""

from __future__ import annotations

from datetime import datetime

from dualsql.databases.slots import network_of
from dualsql.errors import LimitExceededError
from dualsql.resource import Principal, Resource, parent_of
from dualsql.results.access import AccessControl, exceeds
from dualsql.store.protocol import ResourceChanges
from dualsql.store.rows import size_of


async def admit_pin(
    access: AccessControl, resource: Resource, principal: Principal | None, address: str | None
) -> str | None:
    """Check that a caller may pin one more resource that belongs to nobody.

    Returns whose pin it is: the principal's, else its address's, else that of the link, of which the result is a
    refinement. None for a resource of a principal, whose quota counts it.

    Raises:
        LimitExceededError: its pins fill the quota.
    """
    if resource.owner is not None:
        return None
    if principal is not None:
        caller = ("principal", principal.id, principal.tenant)
    elif address is not None:
        caller = ("address", network_of(address), None)
    else:
        caller = ("link", parent_of(resource) or resource.id, None)
    # A MAC: the store need not know who calls from where.
    pinned_by, settings = access.seal.sign("pinned by", *caller).hex(), access.settings
    if resource.is_pinned or (settings.quota_resources is None and settings.quota_bytes is None):
        return pinned_by
    usage = await access.store.pins(pinned_by)
    if exceeds(settings, usage.count + 1, usage.size + size_of(resource)):
        raise LimitExceededError(
            "The quota for results that are pinned from one address is full.",
            hint="Unpin or delete results that are no longer needed, or pin as a known caller.",
            details={"quota_resources": settings.quota_resources, "quota_bytes": settings.quota_bytes},
        )
    return pinned_by


async def pin(
    access: AccessControl, resource_id: str, principal: Principal | None, *, pinned_by: str | None
) -> bool:
    """Remove the expiry of a resource; False if it does not exist or has expired."""
    await access.note("pin", principal, resource_id=resource_id)
    changes = ResourceChanges(pin=True, pinned_by=pinned_by, now=access.clock.now())
    return await access.store.update(resource_id, changes)


async def unpin(access: AccessControl, resource_id: str, principal: Principal | None) -> datetime | None:
    """Let a pinned resource expire one lifetime from now; others keep their expiry. None if it does not exist."""
    await access.note("unpin", principal, resource_id=resource_id)
    resource = await access.store.get(resource_id)
    if resource is None:
        return None
    changes = ResourceChanges(unpin_to=access.clock.now() + resource.lifetime)
    await access.store.update(resource_id, changes)
    unpinned = await access.store.get(resource_id)
    return unpinned.expires_at if unpinned else None
