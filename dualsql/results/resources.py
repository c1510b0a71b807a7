"""What callers do with stored results besides reading rows: they list, describe and pin them."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dualsql.databases.slots import network_of
from dualsql.errors import (
    BadParameterError,
    DualResponseError,
    LimitExceededError,
    ResourceNotFoundError,
    TamperedError,
    UnauthenticatedError,
)
from dualsql.freeze import Seal
from dualsql.resource import (
    CALLS,
    Addresses,
    CountMethod,
    Principal,
    Resource,
    instant,
    parent_of,
)
from dualsql.results.access import AccessControl, require_signature
from dualsql.results.view import Views
from dualsql.store.protocol import ListingPosition, ResourceChanges
from dualsql.store.rows import in_utc, is_storable_id, size_of
from dualsql_client import conversions
from dualsql_client.wire import ResourceDescription

logger = logging.getLogger(__name__)

LONGEST_LISTING = 100
"""Resources in one listing."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of a principal's resources, newest first, and the cursor of the next ones (None at the end).

    Attributes:
        unreadable: how many of the principal's rows between them cannot be read; the server's log names them.
    """

    resources: Sequence[Resource]
    next_cursor: str | None
    unreadable: int = 0


async def list_resources(
    access: AccessControl, principal: Principal | None, *, limit: int | None, cursor: str | None
) -> Listing:
    """The principal's own live resources.

    Raises:
        UnauthenticatedError: the caller is anonymous.
        BadParameterError: the limit is out of range, or the cursor was not made by this server.
    """
    limit = LONGEST_LISTING if limit is None else limit
    # type(), because True is an int as well.
    if type(limit) is not int or not 0 < limit <= LONGEST_LISTING:
        raise BadParameterError(
            f"limit must be a whole number from 1 to {LONGEST_LISTING}.", details={"name": "limit"}
        )
    if principal is None:
        if access.authenticate is None:  # no caller can have any
            raise ResourceNotFoundError(
                "There is no list of results: this server does not know its callers.",
                hint="Open a result at the link in its tool result.",
                developer_hint="DualResponseServer(authenticate=...) tells who calls.",
            )
        raise UnauthenticatedError("Listing resources requires a principal.")
    after = None if cursor is None else _read_cursor(cursor)
    page = await access.store.find(principal, now=access.clock.now(), limit=limit, after=after)
    now, authorize = access.clock.now(), access.authorize
    ours = [resource for resource in page.resources if _is_ours(access.seal, resource)]
    listed = [
        resource.seen_at(now)
        for resource in ours
        if authorize is None or await authorize(principal, resource, "read")
    ]
    if page.unreadable:
        ids = ", ".join(each[:6] for each in page.unreadable)
        logger.error("Rows of a listing cannot be read: %s.", ids)
    await access.note("list", principal, rows=len(listed))
    return Listing(
        listed,
        None if page.next is None else _write_cursor(page.next),
        len(page.unreadable) + len(page.resources) - len(ours),
    )


def _is_ours(seal: Seal, resource: Resource) -> bool:
    """Whether its signature is valid; if not, the log names it."""
    try:
        require_signature(seal, resource)
    except TamperedError:
        return False
    return True


def _write_cursor(last: ListingPosition) -> str:
    return urlsafe_b64encode(f"{last.created_at.isoformat()} {last.id}".encode()).decode()


def _read_cursor(cursor: str) -> ListingPosition:
    try:
        if len(cursor) > conversions.LONGEST:
            raise ValueError
        moment, _, resource_id = urlsafe_b64decode(cursor.encode("ascii")).decode().partition(" ")
        created_at = in_utc(conversions.parse_instant(moment))
        is_ours = is_storable_id(resource_id)
    except (ValueError, OverflowError):
        is_ours = False
    if not is_ours:
        raise BadParameterError("The cursor is not from this server.", hint="Start without a cursor.")
    return ListingPosition(created_at, resource_id)


async def describe(
    resource: Resource,
    principal: Principal | None,
    method: CountMethod,
    *,
    counts: bool,
    views: Views,
    access: AccessControl,
    addresses: Addresses,
) -> ResourceDescription:
    """See `UncheckedResults.describe`."""
    await access.note("describe", principal, resource=resource)
    if method.way != "none":
        target = await views.target(resource, principal)
        if counts:
            try:
                total = await target.view.total(method)
            except DualResponseError as error:
                if target.instead is None:
                    raise
                total = await (await target.instead(error)).view.total(method)
            # If every reader of the resource would count the same rows.
            who = None if principal is None else (principal.id, principal.tenant)
            if views.policy.shows_all or who == (resource.owner, resource.tenant):
                await access.store.update(resource.id, ResourceChanges(total=total))
            expires_at = await access.note_access(resource)
            resource = replace(
                resource, total_count=total.rows, total_count_kind=total.kind, expires_at=expires_at
            )
    metadata = metadata_of(resource, access, addresses)
    if resource.kept is not None and resource.status != "failed":
        from dualsql.results.kept_rows import described

        metadata["kept"] = await described(views, resource, principal, access.clock.now())
    return metadata


def metadata_of(resource: Resource, access: AccessControl, addresses: Addresses) -> ResourceDescription:
    """The metadata of a resource without those of its kept rows; not recorded in the audit."""
    accesses, last = access.log.unwritten(resource.id)
    accessed = last or resource.last_accessed_at
    metadata = ResourceDescription(
        status="pinned" if resource.status == "ready" and resource.is_pinned else resource.status,
        name=resource.name,
        uri=addresses.uri(resource.id),
        total_count=resource.total_count,
        total_count_kind=resource.total_count_kind,
        columns=list(resource.columns),
        created_at=instant(resource.created_at),
        expires_at=None if resource.expires_at is None else instant(resource.expires_at),
        access_count=resource.access_count + accesses,
        last_accessed_at=None if accessed is None else instant(accessed),
        metadata={name: value for name, value in resource.metadata.items() if name != CALLS},
    )
    if resource.failure is not None:
        metadata["error"] = resource.failure
    return metadata


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
    if access.exceeds_quota(usage.count + 1, usage.size + size_of(resource)):
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
