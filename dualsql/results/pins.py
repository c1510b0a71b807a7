"""Limits how much one caller pins of what belongs to nobody; loaded with the first such pin.

Pins at the same time may each find room, as `dualsql.results.access.find_surplus` says of creations.
"""

from __future__ import annotations

from dualsql.databases.slots import network_of
from dualsql.errors import LimitExceededError
from dualsql.freeze import Seal
from dualsql.resource import Principal, Resource, parent_of
from dualsql.results.access import exceeds
from dualsql.settings import Settings
from dualsql.store.protocol import ResourceStore
from dualsql.store.rows import size_of


async def admit_pin(
    store: ResourceStore,
    seal: Seal,
    settings: Settings,
    resource: Resource,
    *,
    principal: Principal | None,
    address: str | None,
) -> str:
    """See `AccessControl.admit_pin`, of a resource that belongs to nobody."""
    if principal is not None:
        caller = ("principal", principal.id, principal.tenant)
    elif address is not None:
        caller = ("address", network_of(address), None)
    else:
        caller = ("link", parent_of(resource) or resource.id, None)
    # A MAC: the store need not know who calls from where.
    pinned_by = seal.sign("pinned by", *caller).hex()
    if resource.is_pinned or (settings.quota_resources is None and settings.quota_bytes is None):
        return pinned_by
    usage = await store.pins(pinned_by)
    if exceeds(settings, usage.count + 1, usage.size + size_of(resource)):
        raise LimitExceededError(
            "The quota for results that are pinned from one address is full.",
            hint="Unpin or delete results that are no longer needed, or pin as a known caller.",
            details={"quota_resources": settings.quota_resources, "quota_bytes": settings.quota_bytes},
        )
    return pinned_by
