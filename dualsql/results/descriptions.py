"""What is said of a stored result without its rows."""

from __future__ import annotations

from dataclasses import replace

from dualsql.errors import DualResponseError
from dualsql.resource import CALLS, Addresses, CountMethod, Principal, Resource, instant
from dualsql.results.access import AccessControl
from dualsql.results.view import Views
from dualsql.store.protocol import ResourceChanges
from dualsql_client.wire import ResourceDescription


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
    accessed = access.log.last(resource.id) or resource.last_accessed_at
    metadata = ResourceDescription(
        status="pinned" if resource.status == "ready" and resource.is_pinned else resource.status,
        name=resource.name,
        uri=addresses.uri(resource.id),
        total_count=resource.total_count,
        total_count_kind=resource.total_count_kind,
        columns=list(resource.columns),
        created_at=instant(resource.created_at),
        expires_at=None if resource.expires_at is None else instant(resource.expires_at),
        access_count=resource.access_count + access.log.pending(resource.id),
        last_accessed_at=None if accessed is None else instant(accessed),
        metadata={name: value for name, value in resource.metadata.items() if name != CALLS},
    )
    if resource.failure is not None:
        metadata["error"] = resource.failure
    return metadata
